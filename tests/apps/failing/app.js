require('http').createServer((request, response) => {
    if (request.url === '/') return response.end('ready');
    const error = Object.assign(new TypeError('no such card'), { code: 'E_CARD' });
    if (request.url !== '/logged') throw error;
    console.error(error);
    response.end('logged');
}).listen(process.env.PORT, '127.0.0.1');
