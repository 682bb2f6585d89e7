"""A scheduler inside a Litestar application.

pip install . litestar uvicorn
uvicorn --app-dir examples/embedding/frameworks litestar_app:app          curl localhost:8000/greetings/Ada
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, get

from aiosched import Scheduler

scheduler = Scheduler(dags=[], migrate=True)


@scheduler.job()
async def greet(name: str) -> str:
    return f"hello {name}"


@asynccontextmanager
async def with_scheduler(_: Litestar) -> AsyncIterator[None]:
    async with scheduler:
        yield


@get("/greetings/{name:str}")
async def greeting(name: str) -> dict[str, str]:
    run = await scheduler.trigger(greet, name=name)
    return {"greeting": await run.result(timeout=30)}


app = Litestar([greeting], lifespan=[with_scheduler])
