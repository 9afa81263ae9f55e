"""The routes."""

import asyncio
import contextlib
import hashlib
import os
import time

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from chat.counting import count
from chat.news import news, publish


def create_app():
    """The application; a factory, so that it can be named `chat.app:create_app()` too."""
    both, post = ["GET", "POST"], ["POST", "PUT"]
    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", index),
            Route("/products", products),
            Route("/order", order, methods=["POST"]),
            Route("/upload", upload, methods=post),
            Route("/stream", stream),
            Route("/events", events),
            Route("/news", news),
            Route("/news", publish, methods=["POST"]),
            Route("/gallery", gallery),
            Route("/pictures/{number:int}.svg", picture),
            Route("/cookies", cookies),
            Route("/error", error),
            Route("/error-late", error_late),
            Route("/slow", slow),
            Route("/count", counted, methods=both),
            Route("/big", big),
            Route("/moved", moved),
            Route("/early", early, methods=post),
            Route("/whoami", whoami),
            Route("/state", state),
            Route("/background", background),
            WebSocketRoute("/echo", echo),
            WebSocketRoute("/refuse", refuse),
        ],
    )


@contextlib.asynccontextmanager
async def lifespan(app):
    """Opens what the whole process shares, and closes it after the last request."""
    yield {"started": time.time(), "served": []}


async def index(request):
    """The front page."""
    return HTMLResponse("<!doctype html><title>Chat</title><h1>Chat</h1><p>Warm.</p>\n")


async def products(request):
    """JSON."""
    return JSONResponse([{"id": 1, "name": "kettle"}, {"id": 2, "name": "teapot"}, {"id": 3, "name": "cup"}])


async def order(request):
    """A form, as URL-encoded fields or multipart: echoes what was ordered."""
    async with request.form() as form:
        return JSONResponse({name: form.getlist(name) for name in form})


async def upload(request):
    """Any body: size and digest of each uploaded file, or of the body itself. Never held in memory as a whole."""
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        async with request.form() as form:
            files, fields = {}, {}
            for name, value in form.multi_items():
                if isinstance(value, str):
                    fields.setdefault(name, []).append(value)
                else:
                    files[name] = dict(await digest(file_parts(value)), filename=value.filename)
            return JSONResponse({"files": files, "fields": fields})
    return JSONResponse(await digest(request.stream()))


async def digest(parts):
    """The size and SHA-256 of a stream."""
    size, sha = 0, hashlib.sha256()
    async for part in parts:
        size += len(part)
        sha.update(part)
    return {"size": size, "sha256": sha.hexdigest()}


async def file_parts(file):
    """An uploaded file, in pieces."""
    while part := await file.read(65_536):
        yield part


async def stream(request):
    """`?parts=N` lines, `?pause=SECONDS` apart, without a known length."""
    parts, pause = int(request.query_params.get("parts", 5)), float(request.query_params.get("pause", 0))

    async def lines():
        for number in range(parts):
            if number and pause:
                await asyncio.sleep(pause)
            yield f"line {number}\n"

    return StreamingResponse(lines(), media_type="text/plain")


async def events(request):
    """Server-sent events, `?count=N` of them, `?pause=SECONDS` apart."""
    wanted, pause = int(request.query_params.get("count", 3)), float(request.query_params.get("pause", 0.1))

    async def lines():
        for number in range(wanted):
            if number:
                await asyncio.sleep(pause)
            yield f"id: {number}\ndata: tick {number}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-cache"})


async def gallery(request):
    """A page with `?count=N` small pictures, each a request of its own."""
    count = int(request.query_params.get("count", 20))
    pictures = "".join(f'<img src="/pictures/{number}.svg" alt="">' for number in range(count))
    return HTMLResponse(f"<!doctype html><title>Gallery</title><h1>Gallery</h1>{pictures}\n")


async def picture(request):
    """A small picture."""
    hue = request.path_params["number"] * 7 % 360
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8" fill="hsl({hue} 80% 50%)"/></svg>'
    return Response(svg, media_type="image/svg+xml")


async def cookies(request):
    """Sets several cookies, and returns those it received."""
    response = JSONResponse(request.cookies)
    response.set_cookie("basket", "42", httponly=True, samesite="lax")
    response.set_cookie("theme", "dark", max_age=3600)
    response.set_cookie("seen", "yes")
    return response


async def error(request):
    """An exception before any part of the response is sent. (Starlette responds with 500 itself, and raises.)"""
    raise RuntimeError("an error on demand")


async def error_late(request):
    """An exception in the middle of the response; the client must notice that it is incomplete."""

    async def lines():
        yield "this much came\n"
        raise RuntimeError("an error on demand, late")

    return StreamingResponse(lines(), media_type="text/plain")


async def slow(request):
    """Sleeps `?seconds=S` before it responds."""
    seconds = float(request.query_params.get("seconds", 1))
    await asyncio.sleep(seconds)
    return PlainTextResponse(f"slept {seconds} s\n")


async def counted(request):
    """Records `X-Request-Id`, so that a test can tell whether a request arrived once, twice or not at all."""
    request_id = request.headers.get("x-request-id", "")
    count(request_id)
    return PlainTextResponse(f"{request_id}\n")


async def big(request):
    """`?bytes=N` bytes in one piece."""
    size = int(request.query_params.get("bytes", 1_048_576))
    pattern = b"0123456789abcdef" * 64
    return Response((pattern * (size // len(pattern) + 1))[:size], media_type="application/octet-stream")


async def moved(request):
    """A redirect to the front page."""
    return RedirectResponse(request.url_for("index"), status_code=303)


async def early(request):
    """Responds without reading the body: 413, like an application with its own limit."""
    return PlainTextResponse("too much for this chat\n", status_code=413)


async def whoami(request):
    """What the application knows about the request and about itself."""
    scope = request.scope
    names = ("http_version", "method", "scheme", "path", "root_path", "server", "client")
    shown = {name: scope.get(name) for name in names}
    shown["query_string"] = scope["query_string"].decode("latin-1")
    return JSONResponse({"pid": os.getpid(), "headers": dict(request.headers), "scope": shown})


async def state(request):
    """What startup stored for every request."""
    request.state.served.append(1)
    return JSONResponse({"started": request.state.started, "served": len(request.state.served)})


async def background(request):
    """Records `X-Request-Id` after the response is sent."""
    request_id = request.headers.get("x-request-id", "")
    return PlainTextResponse("later\n", background=BackgroundTask(count, request_id))


async def echo(websocket):
    """Echoes messages, text or bytes; `close` closes with code 4000."""
    await websocket.accept(subprotocol=(websocket.scope["subprotocols"] or [None])[0])
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if message.get("text") == "close":
                await websocket.close(4000, "as you wish")
                return
            if message.get("text") is not None:
                await websocket.send_text(message["text"])
            else:
                await websocket.send_bytes(message["bytes"])
    except WebSocketDisconnect:
        return


async def refuse(websocket):
    """Rejects the handshake with 401."""
    await websocket.send_denial_response(PlainTextResponse("not you\n", status_code=401))
