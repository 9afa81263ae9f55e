// An ordinary HTTP server on Node, for the tests: listens at PORT, or at KEEPWARM_SOCKET when LISTEN=socket.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');

const { PORT, KEEPWARM_SOCKET, LISTEN, COUNT_FILE } = process.env;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const grown = [];
const waiting = [];

// Notes that a request was begun, before any part of the response is sent.
function count(id) {
  if (COUNT_FILE && id) fs.appendFileSync(COUNT_FILE, `${id}\n`);
}

const routes = {
  async '/'(request, response) {
    response.end('hello from node\n');
  },
  async '/pid'(request, response) {
    response.end(String(process.pid));
  },
  // Takes memory and keeps it, so that the process is long in dying.
  async '/grow'(request, response, query) {
    grown.push(Buffer.alloc(Number(query.get('mb')) << 20, 'x'));
    response.end(String(process.pid));
  },
  // What arrived: request line and fields as they came.
  async '/echo'(request, response) {
    const { method, url, rawHeaders, httpVersion } = request;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ method, url, rawHeaders, httpVersion }));
  },
  async '/body'(request, response) {
    const hash = crypto.createHash('sha256');
    let length = 0;
    for await (const part of request) {
      hash.update(part);
      length += part.length;
    }
    response.end(`${length} ${hash.digest('hex')} ${JSON.stringify(request.trailers)}`);
  },
  async '/count'(request, response, query) {
    count(query.get('id'));
    await wait(Number(query.get('ms') ?? 0));
    response.end(query.get('id'));
  },
  async '/large'(request, response, query) {
    let left = Number(query.get('bytes'));
    const block = Buffer.alloc(64 * 1024, 'x');
    while (left > 0) {
      const part = block.subarray(0, Math.min(left, block.length));
      left -= part.length;
      if (!response.write(part)) await new Promise((done) => response.once('drain', done));
    }
    response.end();
  },
  async '/stream'(request, response) {
    for (const part of ['one,', 'two,', 'three']) {
      response.write(part);
      await wait(20);
    }
    response.end();
  },
  // Says something, and the rest once `/release` is requested.
  async '/quiet'(request, response, query) {
    response.writeHead(200, { 'Content-Type': query.get('type') });
    response.write('first,');
    await new Promise((done) => waiting.push(done));
    response.end('last');
  },
  async '/release'(request, response) {
    for (const done of waiting.splice(0)) done();
    response.end('released');
  },
  async '/trailers'(request, response) {
    response.writeHead(200, { Trailer: 'checksum' });
    response.write('body');
    response.addTrailers({ checksum: 'abc' });
    response.end();
  },
  async '/hints'(request, response) {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' });
    response.end('with hints');
  },
  async '/close'(request, response) {
    response.setHeader('Connection', 'close');
    response.end('closed after');
  },
  async '/slow'(request, response, query) {
    await wait(Number(query.get('ms')));
    response.end('slow');
  },
  async '/block'() {
    for (;;);
  },
  async '/die'(request, response, query) {
    count(query.get('id'));
    process.kill(process.pid, 'SIGKILL');
  },
  async '/die-in-response'(request, response) {
    response.writeHead(200, { 'Content-Length': 100 });
    response.write('half', () => process.kill(process.pid, 'SIGKILL'));
  },
  async '/print'(request, response) {
    console.log('printed by node');
    console.error('complained by node');
    response.end('ok');
  },
};

const server = http.createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost');
  const route = routes[pathname];
  if (!route) {
    response.statusCode = 404;
    return response.end('nothing here');
  }
  route(request, response, searchParams).catch((error) => response.destroy(error));
});

// A client that waits for a word gets one: 417 here by the application's own decision, else node's `100 Continue`.
server.on('checkContinue', (request, response) => {
  if (request.url.startsWith('/refuse')) {
    response.writeHead(403, { 'Content-Length': 7 });
    return response.end('refused');
  }
  response.writeContinue();
  server.emit('request', request, response);
});

// An echo of WebSocket messages of less than 126 bytes.
server.on('upgrade', (request, socket, head) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = crypto.createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`);
  let pending = head;
  const take = (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    while (pending.length >= 2) {
      const length = pending[1] & 0x7f;
      if (pending.length < 6 + length) return;
      const opcode = pending[0] & 0x0f;
      const mask = pending.subarray(2, 6);
      const payload = Buffer.from(pending.subarray(6, 6 + length)).map((byte, at) => byte ^ mask[at % 4]);
      pending = pending.subarray(6 + length);
      socket.write(Buffer.concat([Buffer.from([0x80 | opcode, length]), payload]));
      if (opcode === 8) socket.end();
    }
  };
  take(Buffer.alloc(0));
  socket.on('data', take);
  socket.on('error', () => {});
});

if (process.env.KEEP_ALIVE) server.keepAliveTimeout = Number(process.env.KEEP_ALIVE);
server.listen(LISTEN === 'socket' ? KEEPWARM_SOCKET : { port: PORT, host: '127.0.0.1' });
