// An HTTP/2 server on Node (plaintext, prior knowledge), for the tests: listens at PORT, or at KEEPWARM_SOCKET when LISTEN=socket. STREAMS limits its concurrent streams; WEBSOCKETS=0: no extended
// CONNECT. COUNT_FILE notes each request that is begun.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const http2 = require('node:http2');

const { PORT, KEEPWARM_SOCKET, LISTEN, COUNT_FILE, STREAMS, WEBSOCKETS } = process.env;
const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_NO_ERROR } = http2.constants;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const sessions = new Set();
let running = 0;
let most = 0;
let refused = 0;

function count(id) {
  if (COUNT_FILE && id) fs.appendFileSync(COUNT_FILE, `${id}\n`);
}

const routes = {
  '/'(stream) {
    stream.respond({ ':status': 200 });
    stream.end('hello from node\n');
  },
  '/pid'(stream) {
    stream.end(String(process.pid));
  },
  // What arrived: the pseudo-fields and fields as they came.
  '/echo'(stream, headers, query, raw) {
    stream.end(JSON.stringify(raw));
  },
  async '/body'(stream, headers) {
    const hash = crypto.createHash('sha256');
    let length = 0;
    let trailers = {};
    stream.on('trailers', (got) => { trailers = { ...got }; });
    for await (const part of stream) {
      hash.update(part);
      length += part.length;
    }
    stream.end(`${length} ${hash.digest('hex')} ${JSON.stringify(trailers)}`);
  },
  async '/count'(stream, headers, query) {
    count(query.get('id'));
    running += 1;
    most = Math.max(most, running);
    await wait(Number(query.get('ms') ?? 0));
    running -= 1;
    stream.end(query.get('id'));
  },
  '/most'(stream) {
    stream.end(`${most} ${sessions.size}`);
  },
  // Reads nothing of the body.
  '/hold'(stream) {
    held.push(stream);
  },
  async '/large'(stream, headers, query) {
    let left = Number(query.get('bytes'));
    const block = Buffer.alloc(64 * 1024, 'x');
    while (left > 0 && !stream.destroyed) {
      const part = block.subarray(0, Math.min(left, block.length));
      left -= part.length;
      if (!stream.write(part)) await new Promise((done) => stream.once('drain', done));
    }
    stream.end();
  },
  // Responds to the first part of an upload while the rest is to come; parts go both ways.
  '/both'(stream) {
    stream.on('data', (part) => stream.write(part.toString().toUpperCase()));
    stream.on('end', () => stream.end('.'));
  },
  // An early refusal (RFC 9113 §8.1): the response is whole, and the rest of the body not wanted.
  '/too-large'(stream) {
    stream.respond({ ':status': 413 });
    stream.end('too large', () => stream.close(NGHTTP2_NO_ERROR));
  },
  '/reset'(stream) {
    stream.close(NGHTTP2_INTERNAL_ERROR);
  },
  // Half of a response, until another request has it reset.
  '/half'(stream) {
    stream.write('half');
    held.push(stream);
  },
  '/reset-held'(stream) {
    for (const other of held.splice(0)) other.destroy(new Error('on purpose'));
    stream.end('reset');
  },
  // Refuses the first, which must be sent again whatever its method.
  async '/refuse-once'(stream, headers, query) {
    if (refused++ === 0) return stream.close(NGHTTP2_REFUSED_STREAM);
    count(query.get('id'));
    let body = '';
    for await (const part of stream) body += part;
    stream.end(`second ${body}`);
  },
  async '/slow'(stream, headers, query) {
    await wait(Number(query.get('ms')));
    stream.end('slow');
  },
  // Whether the client has cancelled an earlier request.
  '/wait-for-cancel'(stream, headers, query) {
    count(`${query.get('id')}-begun`);
    stream.on('close', () => count(`${query.get('id')}-${stream.rstCode === NGHTTP2_CANCEL ? 'cancelled' : stream.rstCode}`));
  },
  // Ends every connection gracefully: streams under way are served, others go elsewhere.
  '/goaway'(stream) {
    stream.end('going away');
    for (const session of sessions) session.close();
  },
  '/die'(stream, headers, query) {
    count(query.get('id'));
    process.kill(process.pid, 'SIGKILL');
  },
};
const held = [];

// An echo of WebSocket messages of less than 126 bytes (RFC 8441).
function echo(stream) {
  stream.respond({ ':status': 200 });
  let pending = Buffer.alloc(0);
  stream.on('data', (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    while (pending.length >= 2) {
      const length = pending[1] & 0x7f;
      if (pending.length < 6 + length) return;
      const opcode = pending[0] & 0x0f;
      const mask = pending.subarray(2, 6);
      const payload = Buffer.from(pending.subarray(6, 6 + length)).map((byte, at) => byte ^ mask[at % 4]);
      pending = pending.subarray(6 + length);
      stream.write(Buffer.concat([Buffer.from([0x80 | opcode, length]), payload]));
      if (opcode === 8) stream.end();
    }
  });
}

const settings = { enableConnectProtocol: WEBSOCKETS !== '0' };
if (STREAMS) settings.maxConcurrentStreams = Number(STREAMS);
const server = http2.createServer({ settings });
server.on('session', (session) => {
  sessions.add(session);
  session.on('close', () => sessions.delete(session));
  session.on('error', () => {});
});
server.on('stream', (stream, headers, flags, raw) => {
  stream.on('error', () => {});
  const { pathname, searchParams } = new URL(headers[':path'], 'http://localhost');
  if (headers[':method'] === 'CONNECT') {
    if (headers[':protocol'] === 'websocket' && pathname === '/socket') return echo(stream);
    stream.respond({ ':status': 403 });
    return stream.end('no socket here');
  }
  if (pathname === '/hints') {
    stream.additionalHeaders({ ':status': 103, link: '</style.css>; rel=preload' });
    stream.respond({ ':status': 200 });
    return stream.end('with hints');
  }
  if (pathname === '/trailers') {
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ checksum: 'abc' }));
    return stream.end('body');
  }
  const route = routes[pathname];
  if (!route) {
    stream.respond({ ':status': 404 });
    return stream.end('nothing here');
  }
  Promise.resolve(route(stream, headers, searchParams, raw)).catch(() => stream.close(NGHTTP2_INTERNAL_ERROR));
});
// As Node's server does on its own: it sends `100 Continue` when asked to.
process.on('SIGTERM', () => {
  server.close();
  for (const session of sessions) session.close();
});
server.listen(LISTEN === 'socket' ? KEEPWARM_SOCKET : { port: PORT, host: '127.0.0.1' });
