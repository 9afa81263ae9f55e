// The service of auth_wsgi.py as a server of its own.

const http = require("node:http");

const SEEN = ["X-Original-Method", "X-Original-URI", "X-Original-URL", "X-Forwarded-Method", "X-Forwarded-Uri",
  "X-Forwarded-For", "Content-Length", "Content-Type", "Range", "If-None-Match", "Remote-User"];

function decide(request) {
  const field = (name) => request.headers[name.toLowerCase()] ?? "";
  const seen = [request.method, ...SEEN.map(field)].join("|");
  switch (field("Authorization")) {
    case "Bearer good":
      return [200, { "Remote-User": "jo", "X-Auth-Groups": "staff", "X-Auth-Seen": seen }, "welcome"];
    case "Bearer silent":
      return [200, {}, ""];
    case "Bearer login":
      return [302, { Location: "https://login.example/", "Set-Cookie": ["a=1", "b=2"] }, "go"];
    default:
      return [401, { "WWW-Authenticate": 'Bearer realm="x"', "X-Auth-Seen": seen }, "who are you?"];
  }
}

http.createServer((request, response) => {
  const [status, fields, body] = decide(request);
  response.writeHead(status, fields).end(body);
}).listen(process.env.PORT, "127.0.0.1");
