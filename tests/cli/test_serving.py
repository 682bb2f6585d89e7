"""What tests that start `aiosched serve` wait for (serving.py)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.serving import wait_for

LATE = {"event": "dags", "text": "/dags   still parsing, watching"}
READ = {"event": "dags", "text": "/dags   5 DAGs, 0 errors", "dags": 5}
ELSEWHERE = {"event": "dags", "text": "/dags   parsed elsewhere"}
READY = {"event": "ready"}
RUN = {"event": "run_started"}


def saying(*events: Mapping[str, Any]) -> Any:
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    return SimpleNamespace(stdout=io.StringIO(lines), returncode=1, communicate=lambda: ("", "no database"))


@pytest.mark.parametrize(
    ("event", "events", "left"),
    [
        pytest.param("ready", [READ, READY, RUN], 1, id="read for the banner"),
        pytest.param("ready", [LATE, READY, RUN, READ, RUN], 1, id="read after it"),
        pytest.param("ready", [ELSEWHERE, READY, RUN], 1, id="read elsewhere"),
        pytest.param("ready", [READY, RUN], 1, id="no files"),
        pytest.param("ready", [LATE, READY], 0, id="ended before"),
        pytest.param("dags", [LATE, READY, READ, RUN], 1, id="files"),
        pytest.param("run_started", [LATE, READY, RUN, READ], 1, id="something else"),
    ],
)
def test_ready_is_who_has_read_the_dag_files(event: str, events: list[Mapping[str, Any]], left: int) -> None:
    process = saying(*events)

    found = wait_for(process, event)

    assert found["event"] == event
    assert event != "dags" or found["dags"] == 5
    assert len(process.stdout.readlines()) == left


def test_who_ends_before_says_why() -> None:
    with pytest.raises(AssertionError, match="ended with 1 before ready: no database"):
        wait_for(saying(LATE), "ready")
