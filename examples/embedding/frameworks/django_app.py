"""A scheduler inside a Django project on ASGI. Django has no lifespan, so a function around its application has one.

pip install . django uvicorn
uvicorn --app-dir examples/embedding/frameworks django_app:app          curl localhost:8000/greetings/Ada
"""

from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from aiosched import Scheduler

scheduler = Scheduler(dags=[], migrate=True)


@scheduler.job()
async def greet(name: str) -> str:
    return f"hello {name}"


async def greeting(_: HttpRequest, name: str) -> JsonResponse:
    run = await scheduler.trigger(greet, name=name)
    return JsonResponse({"greeting": await run.result(timeout=30)})


urlpatterns = [path("greetings/<str:name>", greeting)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])  # of a project: DJANGO_SETTINGS_MODULE
django = get_asgi_application()


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()  # lifespan.startup
        async with scheduler:
            await send({"type": "lifespan.startup.complete"})
            await receive()  # lifespan.shutdown
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await django(scope, receive, send)
