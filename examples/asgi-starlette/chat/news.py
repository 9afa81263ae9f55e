"""Server-sent events on request: what is sent with `POST /news` arrives at every open `GET /news`."""

import asyncio

from starlette.responses import Response, StreamingResponse

READERS = set()


async def news(request):
    """The stream: `welcome`, then each piece of news, up to the piece `end`."""

    async def events():
        reader = asyncio.Queue()
        READERS.add(reader)
        try:
            piece = "welcome"
            while piece != "end":
                yield f"data: {piece}\n\n"
                piece = await reader.get()
        finally:
            READERS.discard(reader)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-cache"})


async def publish(request):
    """Gives the body to every reader."""
    piece = (await request.body()).decode()
    for reader in READERS:
        reader.put_nowait(piece)
    return Response(status_code=204)
