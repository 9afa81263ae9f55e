"""Two applications, as frameworks have them."""


class FastAPI:
    async def __call__(self, scope, receive, send): ...


one = FastAPI()
two = FastAPI()
