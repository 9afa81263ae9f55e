// A site as people write them with Express: sessions in a signed cookie, forms, an upload, assets, compression, events, a WebSocket.
'use strict';
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const compression = require('compression');
const session = require('cookie-session');
const express = require('express');
const multer = require('multer');
const { WebSocketServer } = require('ws');

const { DATA, PORT } = process.env;
const NOTES = path.join(DATA, 'notes.json');
const notes = () => (fs.existsSync(NOTES) ? JSON.parse(fs.readFileSync(NOTES, 'utf8')) : []);
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const page = (title, body) => `<!doctype html><title>${title}</title><link rel="stylesheet" href="/static/site.css"><h1>${title}</h1>${body}`;

const app = express();
app.set('trust proxy', 'loopback');
app.use(compression({ filter: (request, response) => request.path === '/long' && compression.filter(request, response) }));
app.use('/static', express.static(path.join(__dirname, 'public'), { maxAge: '1h' }));
app.use(session({ name: 'site', keys: ['not a secret'], maxAge: 3_600_000 }));
app.use(express.urlencoded({ extended: false }));
app.use(express.json());

app.get('/', (request, response) => {
  if (!request.session.user) return response.redirect(303, '/login');
  const list = notes().map((note) => `<li>${escaped(note)}</li>`).join('');
  return response.send(page(`Notes of ${escaped(request.session.user)}`, `<ul>${list}</ul>`));
});
app.get('/login', (request, response) => response.send(page('Login', '<form method="post"><input name="user"><input name="password" type="password"></form>')));
app.post('/login', (request, response) => {
  if (request.body.password !== 'opensesame') return response.status(401).send(page('Login', 'Wrong.'));
  request.session.user = request.body.user;
  return response.redirect(303, '/');
});
app.post('/logout', (request, response) => {
  request.session = null;
  response.redirect(303, '/login');
});
app.post('/notes', (request, response) => {
  fs.writeFileSync(NOTES, JSON.stringify([...notes(), request.body.text]));
  response.redirect(303, '/');
});
app.post('/upload', multer({ limits: { fileSize: 4 << 20 } }).single('paper'), (request, response) => {
  const { originalname, size, buffer } = request.file;
  response.json({ name: originalname, size, sha256: createHash('sha256').update(buffer).digest('hex') });
});
app.post('/json', (request, response) => response.status(201).json({ got: request.body }));
app.get('/long', (request, response) => response.type('text').send('all work and no play\n'.repeat(5_000)));
app.get('/seen', (request, response) => response.json({ protocol: request.protocol, host: request.hostname, client: request.ip, query: request.query }));
app.get('/events', (request, response) => {
  response.set({ 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  response.flushHeaders();
  let count = 0;
  const timer = setInterval(() => {
    count += 1;
    response.write(`id: ${count}\ndata: tick ${count}\n\n`);
    if (count === 3) { clearInterval(timer); response.end(); }
  }, 10);
  request.on('close', () => clearInterval(timer));
});
app.get('/broken', () => { throw new Error('broken on purpose'); });
app.get('/file', (request, response) => response.sendFile(path.join(__dirname, 'public/site.css')));

const server = http.createServer(app);
const sockets = new WebSocketServer({ server, path: '/echo' });
sockets.on('connection', (socket) => socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary })));
server.listen(PORT, '127.0.0.1');
