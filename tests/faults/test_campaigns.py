"""The short form of the fault campaigns; the long one is `make faults`, its counts are in docs/reliability.md."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.conftest import NIGHTLY
from tests.engines.brokers import RABBITMQ, REDIS, WHY_NO_RABBITMQ, WHY_NO_REDIS
from tests.faults.campaign import campaigns, engine_faults
from tests.faults.campaign.__main__ import play
from tests.faults.campaign.campaigns import CAMPAIGNS, Campaign, Size
from tests.faults.campaign.engine_faults import FAULTS
from tests.faults.campaign.fleet import ROOT, Service, children
from tests.faults.campaign.poison_round import POISON, POISONED
from tests.faults.campaign.results import Result, table
from tests.faults.campaign.stage import NOTICED, Inject, Setting, Stage
from tests.faults.campaign.troubles import TROUBLES
from tests.faults.campaign.workload import Workload
from tests.faults.checker import Violation
from tests.patience import PATIENCE


def needs(found: object, why: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(found is None, reason=why if " " in why else f"{why} is not installed")


# What is done to one fleet, one campaign after the other, by the name under which it is counted.
SHORT: dict[str, dict[str, tuple[str, Size]]] = {
    "schedulers": {
        "kills": ("kills", Size(faults=4, tasks=210, gap=1.0, seed=101, lease=4.0)),
        "pauses": ("pauses", Size(faults=2, tasks=0, gap=0.5, seed=101, lease=4.0)),
    },
    "peers": {"kills": ("peers", Size(faults=4, tasks=150, gap=1.5, seed=102, lease=3.0))},
    "postgresql": {
        "cut commits": ("cuts", Size(faults=9, tasks=270, gap=0.4, seed=107, lease=6.0)),
        "ended backends": ("backends", Size(faults=8, tasks=0, gap=0.4, seed=107, lease=6.0)),
        "restarts": ("restarts", Size(faults=2, tasks=0, gap=1.0, seed=107, lease=6.0)),
    },
}


def one_after_the_other(parts: Sequence[tuple[str, Size]]) -> Campaign:
    """The faults of these campaigns, on the fleet and with the tasks of the first one."""

    def prepare(size: Size) -> tuple[Setting, Workload, Inject]:
        prepared = [CAMPAIGNS[name].prepare(each) for name, each in parts]
        setting, work, _ = prepared[0]

        async def inject(stage: Stage) -> None:
            for _, _, fault in prepared:
                await fault(stage)

        seconds = sum(each.faults * (each.gap + (each.lease if name == "pauses" else 0)) for name, each in parts)
        return setting, replace(work, seconds=min(8 * 1.1 * seconds / work.tasks, 0.6)), inject

    first = parts[0][1]
    return Campaign("the short ones", first, first, prepare, lambda size: {})


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
async def test_a_short_campaign_breaks_no_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = one_after_the_other(list(SHORT[name].values()))
    monkeypatch.setitem(CAMPAIGNS, "short", campaign)
    result = await play("short", campaign.size, deadline=2 * PATIENCE)

    assert not result.violations, result.text()
    assert not result.troubles, result.text()
    for counted, (_, size) in SHORT[name].items():
        assert result.counts.get(counted, 0) >= size.faults // 2, result.text()


@pytest.mark.slow
async def test_healthy_dags_do_not_notice_wrong_content_beside_them() -> None:
    result = await play(POISON, POISONED, deadline=2 * PATIENCE)

    assert result.passed, result.text()


# What RabbitMQ loses, keeps and repeats under load is in test_celery.py; the rest of Celery is in the round on Redis.
nightly = pytest.mark.skipif(not NIGHTLY, reason="a round on a second broker, in nightly runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("engines-dask", marks=needs(importlib.util.find_spec("distributed"), "distributed")),
        pytest.param("engines-redis", marks=needs(REDIS, WHY_NO_REDIS)),
        pytest.param("engines-rabbitmq", marks=[needs(RABBITMQ, WHY_NO_RABBITMQ), nightly]),
        pytest.param("engines-pods", marks=needs(importlib.util.find_spec("kubernetes_asyncio"), "kubernetes_asyncio")),
    ],
)
async def test_attempts_on_an_engine_survive_whatever_ends(name: str) -> None:
    tasks = 30 if name == "engines-pods" else 100  # each pod is a process that starts
    size = Size(faults=len(FAULTS), tasks=tasks, gap=0.8, seed=114, schedulers=2, lease=4.0)
    result = await play(name, size, deadline=2 * PATIENCE)

    assert not result.violations, result.text()
    assert not result.troubles, result.text()
    assert result.counts["faults"] >= len(FAULTS) // 2, result.text()


def result(**values: object) -> Result:
    return replace(Result("kills", "python -m …", seed=1, tasks=10), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({}, "passed: 0 violations", id="good"),
        pytest.param({"violations": [Violation("no_run_lost", "d/r is queued")]}, "VIOLATION of no_run_lost", id="bad"),
        pytest.param({"minima": {"kills": 3}, "counts": {"kills": 2}}, "VACUOUS: 2 kills", id="vacuous"),
        pytest.param({"takeovers": [1.0, 3.0], "takeover_limit": 2.0}, "SLOW: take-over p99 3.00 s", id="slow"),
        pytest.param({"troubles": ["1 of 2 runs had ended"]}, "TROUBLE: 1 of 2 runs", id="did not end"),
    ],
)
def test_the_verdict_says_why(values: dict[str, object], words: str) -> None:
    judged = result(**values)

    assert words in judged.text()
    assert judged.passed is (not values)


def test_the_table_sums_the_rounds_of_each_campaign() -> None:
    rounds = [
        {"campaign": "kills", "tasks": 100, "counts": {"kills": n}, "violations": [], "troubles": [], "takeovers": [n]}
        for n in (1, 2)
    ]

    assert table(rounds).splitlines()[2:] == ["| kills | 2 | 200 | 3 kills | 0 | 1.00 s / 2.00 s of 2 |"]


def test_every_campaign_says_what_it_must_have_seen() -> None:
    for campaign in CAMPAIGNS.values():
        assert all(least > 0 for least in campaign.minima(campaign.long).values())


def test_what_is_counted_is_what_the_product_says() -> None:
    source = "".join(file.read_text() for file in (ROOT / "aiosched" / "scheduler").rglob("*.py"))

    assert [words for words in NOTICED if words not in source] == []


async def test_who_is_to_be_hit_is_waited_for_while_all_are_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were killed are no members until they have registered: there may be nobody for a while."""
    stage = _stage(monkeypatch, [[], [], [1]])

    assert await stage.victim() is stage.services[1]


@pytest.mark.parametrize("fault", ["pauses", "usurpers", "takeovers", "kills", "engines-dask", "chaos"])
async def test_a_campaign_ends_with_the_work_though_nobody_is_left_to_be_hit(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    stage = _stage(monkeypatch, [])
    monkeypatch.setattr(campaigns, "TROUBLES", {"kill_scheduler": TROUBLES["kill_scheduler"]})
    monkeypatch.setattr(engine_faults, "FAULTS", {"killed schedulers": FAULTS["killed schedulers"]})
    _, _, inject = CAMPAIGNS[fault].prepare(Size(faults=1, tasks=10, gap=0.0, seed=1))

    await inject(stage)

    assert stage.over.is_set()
    assert not stage.blows


def _stage(monkeypatch: pytest.MonkeyPatch, answers: list[list[int]]) -> Stage:
    """A stage of two schedulers that runs nothing: who is a member, look after look; then its work is over."""
    stage = Stage(Setting(), Workload(dags=1, runs=1, seconds=0.0, seed=1), Path())
    stage.services = [Service(f"s{number}", "local", "", Path()) for number in range(2)]
    for number, service in enumerate(stage.services):
        service.process = Mock(pid=number, returncode=None)

    async def ask(statement: str) -> list[tuple[int]]:
        if not answers:
            stage.over.set()
        return [(pid,) for pid in (answers.pop(0) if answers else [])]

    monkeypatch.setattr(stage.postgres, "ask", ask)
    return stage


def test_a_process_that_has_gone_has_no_children() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert children(gone.pid) == []
