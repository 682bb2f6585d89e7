"""A scheduler inside an aiohttp application.

pip install . aiohttp
python examples/embedding/frameworks/aiohttp_app.py          curl localhost:8000/greetings/Ada
"""

from collections.abc import AsyncIterator

from aiohttp import web

from aiosched import Scheduler

scheduler = Scheduler(dags=[], migrate=True)


@scheduler.job()
async def greet(name: str) -> str:
    return f"hello {name}"


async def with_scheduler(_: web.Application) -> AsyncIterator[None]:
    async with scheduler:
        yield


async def greeting(request: web.Request) -> web.Response:
    run = await scheduler.trigger(greet, name=request.match_info["name"])
    return web.json_response(await run.result(timeout=30))


def make() -> web.Application:
    app = web.Application()
    app.cleanup_ctx.append(with_scheduler)
    app.router.add_get("/greetings/{name}", greeting)
    return app


if __name__ == "__main__":
    import sys

    web.run_app(make(), path=sys.argv[1] if sys.argv[1:] else None, port=8000)
