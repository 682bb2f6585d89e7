"""Whatever is asked, allowed by the OpenAPI document or not: no answer is a failure of ours or breaks the document.

Requests go over a socket to the application of a running scheduler, so that actions have their effects. At night
there are more than 10,000 of them (`AIOSCHED_NIGHTLY=1`).
"""

from __future__ import annotations

import asyncio
import copy
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from cryptography.fernet import Fernet
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.generation.modes import GenerationMode

from aiosched import DAG, Param, task
from aiosched.config import Settings
from aiosched.scheduler import Scheduler
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import uvicorn_server as server
from tests.conftest import NIGHTLY, NIGHTLY_TIMEOUT
from tests.patience import PATIENCE

EXAMPLES: Final = {  # of each operation
    GenerationMode.POSITIVE: 90 if NIGHTLY else 2,
    GenerationMode.NEGATIVE: 60 if NIGHTLY else 1,  # break the document
}
load_all_checks()
_CHECKED: Final = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)
_UNFIT: Final = frozenset({"stream"})  # never ends
_LAST: Final = frozenset({"delete_dag", "delete_user"})  # afterwards there is less to ask about
_NOT_HTTP: Final = b"Invalid HTTP request received."  # of the HTTP server, before anything of ours is asked
KNOWN: Final = {
    "dag_id": ["sales"],
    "run": ["latest", "one"],
    "task_id": ["extract", "load"],
    "key": ["return_value", "limit"],
    "conn_id": ["warehouse"],
    "name": ["default_pool", "etl", "ann", "orders"],
    "number": [1],
    "try_number": [1],
    "token": [1],
}


def sales() -> DAG:
    @task
    async def extract() -> int:
        return 1

    @task
    async def load() -> None:
        raise RuntimeError("the warehouse is closed")

    with DAG("sales", schedule=None, params={"day": Param(1, type="integer")}) as dag:
        extract() >> load()  # type: ignore[operator]
    return dag


def _serve(dsn: str, home: Path, ready: Future[tuple[int, Callable[[], None]]]) -> None:
    """A thread: a scheduler and its web server, until what `ready` brings is called."""

    async def run() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        config = {"core": {"home": home}, "secrets": {"fernet_keys": Fernet.generate_key().decode()}}
        loaded = Settings.model_validate(config)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            async with Scheduler(dsn=dsn, dags=[sales()], settings=loaded, executor="inline") as scheduler:
                await scheduler.trigger("sales", run_id="one")
                await scheduler.wait_idle()
                request_client = RequestClient(scheduler.db, loaded)
                app: FastAPI = make_app(request_client)
                serving = asyncio.create_task(server.run(app, sock, ended))
                ready.set_result((sock.getsockname()[1], lambda: loop.call_soon_threadsafe(ended.set)))
                await serving

    try:
        asyncio.run(run())
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)


@pytest.fixture
def url(dsn: str, tmp_path: Path) -> Iterator[str]:
    """Where the application of a running scheduler answers."""
    ready: Future[tuple[int, Callable[[], None]]] = Future()
    thread = threading.Thread(target=_serve, args=(dsn, tmp_path, ready))
    thread.start()
    port, end = ready.result(PATIENCE)
    yield f"http://127.0.0.1:{port}"
    end()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def _hinted(document: dict[str, Any]) -> dict[str, Any]:
    """The document with names that exist only, so that requests get past the door."""
    document = copy.deepcopy(document)
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path" and parameter["name"] in KNOWN:
                    parameter["schema"] = {"enum": KNOWN[parameter["name"]]}
    return document


@pytest.mark.timeout(NIGHTLY_TIMEOUT if NIGHTLY else 900)
def test_no_request_makes_it_fail_or_break_its_word(url: str) -> None:
    document = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json").raw_schema
    asked = [
        (operation.ok(), mode)
        for mode, each in ((GenerationMode.NEGATIVE, document), (GenerationMode.POSITIVE, _hinted(document)))
        for operation in schemathesis.openapi.from_dict(each).get_all_operations()
        if operation.ok().definition.raw["operationId"] not in _UNFIT
    ]
    asked.sort(key=lambda one: one[0].definition.raw["operationId"] in _LAST)
    problems: dict[str, str] = {}
    number = 0

    for operation, mode in asked:
        try:
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(
                max_examples=EXAMPLES[mode],
                database=None,
                derandomize=not NIGHTLY,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def ask(case: schemathesis.Case) -> None:
                nonlocal number
                number += 1
                answer = case.call(base_url=url, timeout=PATIENCE)
                if answer.content != _NOT_HTTP:
                    case.validate_response(answer, checks=_CHECKED)

            ask()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # without parameters there is nothing to break
        except (Exception, BaseExceptionGroup) as error:
            problems[f"{operation.label} ({mode})"] = f"{error!s:.3000}"

    assert problems == {}, "\n\n".join(f"{where}\n{what}" for where, what in problems.items())
    assert number >= (10_000 if NIGHTLY else 300)
