"""A real Prometheus reads a real `serve` as deploy/prometheus says, and answers what dashboard and alerts ask."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.cli.serving import serve, wait_for
from tests.deploy.test_observability import PROMETHEUS, expressions, panels, rules
from tests.patience import PATIENCE

PROGRAM = shutil.which("prometheus")
# Shown only while there is something: a pool whose tasks starve. Everything else has a figure from the beginning.
MAY_BE_EMPTY = {"Pools: tasks that wait B"}

DAG = """
from datetime import datetime, timedelta
from aiosched import dag, task

@dag(schedule=timedelta(seconds=1), start_date=datetime(2026, 1, 1), catchup=False)
def busy():
    @task
    def work(number): ...
    work.expand(number=[1, 2, 3])

busy()
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def prometheus(folder: Path, target: str, token: str) -> Iterator[httpx2.Client]:
    """With the configuration that is deployed, but for addresses and a shorter interval; a client of it."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    [job] = config["scrape_configs"]
    (folder / "token").write_text(token)
    job["authorization"]["credentials_file"] = str(folder / "token")
    job["static_configs"] = [{"targets": [target]}]
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [str(PROGRAM), f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={address}"]
    with (
        (folder / "prometheus.log").open("wb") as log,
        subprocess.Popen([*command, f"--storage.tsdb.path={folder / 'figures'}"], stdout=log, stderr=log) as process,
    ):
        try:
            with httpx2.Client(base_url=f"http://{address}/api/v1/", timeout=PATIENCE) as client:
                yield client
        finally:
            process.kill()


def ask(client: httpx2.Client, expression: str) -> list[dict[str, Any]]:
    said = client.get("query", params={"query": expression.replace("$__rate_interval", "1m")}).raise_for_status()
    answer = said.json()  # while it starts, Prometheus answers 503 in plain text
    assert answer["status"] == "success", (expression, answer)
    return list(answer["data"]["result"])


def until(client: httpx2.Client, expression: str) -> None:
    """Wait until Prometheus knows something of it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(httpx2.HTTPError):
            if ask(client, expression):
                return
        assert time.monotonic() < deadline, f"Prometheus knows nothing of {expression}"
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed (apt-get install prometheus)")
def test_every_query_of_the_dashboard_and_the_alerts_is_answered(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED__METRICS__TOKEN", "a token of metrics")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "busy.py").write_text(DAG)
    port = free_port()
    with serve(tmp_path, dsn, "--port", str(port), web=True) as process:
        wait_for(process, "ready")
        with prometheus(tmp_path, f"127.0.0.1:{port}", "a token of metrics") as client:
            until(client, "up == 1")
            until(client, 'increase(aiosched_task_finished_total{state="success"}[1m]) > 0')
            found = {where: ask(client, expression) for where, expression in expressions().items()}
            groups = client.get("rules").json()["data"]["groups"]

    asked = {f"{panel['title']} {one['refId']}" for panel in panels() for one in panel["targets"]}
    assert {where for where in asked if not found[where]} <= MAY_BE_EMPTY
    finite = {where for where in asked if any(sample["value"][1] not in ("NaN", "+Inf") for sample in found[where])}
    assert {"Running tasks A", "Finished attempts A", "From the last dependency to the start A"} <= finite
    told = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert told.keys() == {rule["alert"] for rule in rules()}
    assert {name: rule["lastError"] for name, rule in told.items() if rule.get("lastError")} == {}
    assert [name for name, rule in told.items() if rule["state"] == "firing"] == []
