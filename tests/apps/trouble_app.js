// As trouble_app.py, as an HTTP server of its own: it keeps a book of what it does, and does what it is asked to.
'use strict';
const fs = require('node:fs');
const http = require('node:http');

const { PORT, DIR } = process.env;
const PART = 3000;

function note(kind, asked) {
  fs.appendFileSync(`${DIR}/book`, `${kind} ${asked.id} ${process.pid}\n`);
}

const table = Array.from({ length: 256 }, (_, at) => {
  let crc = at;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

const crc32 = (bytes) => (bytes.reduce((crc, byte) => table[(crc ^ byte) & 255] ^ (crc >>> 8), -1) ^ -1) >>> 0;

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

async function stream(response, parts, asked, fails) {
  for (const [number, part] of parts.entries()) {
    if (number === parts.length - 1) {
      if (fails) {
        response.destroy();
        return;
      }
      note('e', asked);
    }
    if (!response.write(part)) await new Promise((done) => { response.once('drain', done); response.once('close', done); });
  }
  response.end();
}

async function serve(request, response) {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost');
  const asked = Object.fromEntries(searchParams);
  const say = (text) => {
    note('e', asked);
    response.end(text);
  };
  // Keepwarm asks whether it responds at all.
  if (!asked.id) return response.end('nobody asks');
  note('b', asked);
  response.setHeader('X-Name', asked.id);
  const body = pathname === '/early' ? Buffer.alloc(0) : await read(request);
  if (asked.ms !== '0') await new Promise((done) => { setTimeout(done, Number(asked.ms)); });
  const parts = Array.from({ length: Number(asked.n) }, () => `${asked.id};`.repeat(Math.floor(PART / (asked.id.length + 1))));
  switch (pathname) {
    case '/die':
      return process.kill(process.pid, 'SIGKILL');
    case '/exit':
      return process.exit(4);
    case '/raise':
      throw new Error(`request ${asked.id} was to fail`);
    case '/stream':
    case '/late':
      return stream(response, parts, asked, pathname === '/late');
    case '/large':
      return say(parts.join(''));
    case '/upload':
      return say(`${asked.id} ${body.length} ${crc32(body)}`);
    case '/empty':
      response.statusCode = 204;
      return say();
    default:
      return say(asked.id);
  }
}

http.createServer((request, response) => {
  serve(request, response).catch(() => {
    // A client that leaves breaks the reading of its body off: there is nobody to respond to then.
    if (request.destroyed && !request.complete) return response.destroy();
    response.statusCode = 500;
    return response.end();
  });
}).listen(Number(PORT), '127.0.0.1');
