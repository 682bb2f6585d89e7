"""Each scenario in a tiny size: it measures what it says, its checks pass, its figures have their budgets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import airflow_names as airflow
from benchmarks import catalogue, scaling, takeover
from benchmarks.airflow_table import lag_table, throughput_table
from benchmarks.endurance import endurance, growth
from benchmarks.figures import Figure, Finding
from benchmarks.fleet import fleet
from benchmarks.footprint import memory, ready
from benchmarks.history import history
from benchmarks.http_requests import http_requests
from benchmarks.idle import idle
from benchmarks.many import many
from benchmarks.mapped import mapped, very_many_mapped
from benchmarks.materialise import materialise
from benchmarks.parsing import parse
from benchmarks.report import figures_of
from benchmarks.retention import retention
from benchmarks.run import run
from benchmarks.shapes import SHAPES, Shape, linear
from benchmarks.sustained import sustained
from benchmarks.unfinished import unfinished
from benchmarks.warm import warm
from tests.benchmarks.test_benchmark_report import RESULT

pytestmark = pytest.mark.usefixtures("on_test_server")


def figure(finding: Finding, what: str) -> Figure:
    """The figure of this name, of a finding whose checks passed (a slow machine may have read its DAGs late)."""
    assert [problem for problem in finding.problems if "give more time" not in problem] == []
    return next(found for found in finding.figures if found.what == what)


async def test_a_history_is_compared_with_an_empty_database_and_never_scanned() -> None:
    tiny = (Shape("chain-80", 1, 80, linear(80)),)

    finding = await history(20_000, rounds=1, shapes=tiny, lead=1.0)

    assert figure(finding, "chain-80: lag p50, full to empty").most == 1.1
    assert figure(finding, "chain-80: throughput, full to empty").least == 0.9
    assert figure(finding, "chain-80: statements").value < 2
    assert figure(finding, "chain-80: WAL").value < 2


async def test_an_idle_service_is_measured_and_nothing_runs() -> None:
    finding = await idle(3, 0.5, settle=0.0)

    assert figure(finding, "processor time").most == 2.0
    assert figure(finding, "statements").most == 5.0


async def test_a_backfill_of_many_instances_is_materialised() -> None:
    finding = await materialise(3000, 60.0)

    assert finding.about.startswith("3,000 task instances in 3 runs")
    assert figure(finding, "time for a million").most == 20.0
    assert figure(finding, "memory grew by").verdict == "reached"


async def test_a_mapped_task_expands_and_each_instance_runs_once() -> None:
    finding = await mapped(30, 60.0)

    assert figure(finding, "from the request to the end of the run").most == 20.0
    assert figure(finding, "memory of the process, at most").most == 500.0


async def test_very_many_mapped_instances_wait_for_slots() -> None:
    finding = await very_many_mapped(30, 60.0)

    assert finding.about.startswith("30 mapped instances, 1,000 at once")
    assert figure(finding, "memory of an instance").unit == "KiB"


async def test_many_dags_are_read_served_due_and_asked_for() -> None:
    """A process of `serve` with its workers: that takes some seconds."""
    finding = await many(12, 100.0, idle=0.2, settle=0.0)

    assert finding.about.startswith("12 DAGs of two tasks in 2 files")
    assert figure(finding, "serve: ready").most == 10.0
    assert figure(finding, "serve: memory of all of its processes").verdict == "reached"
    assert figure(finding, "herd: all runs created").most == 30.0
    assert figure(finding, "p95 of why, for a task that waits").most == 50.0


async def test_unfinished_task_instances_are_loaded_and_explained() -> None:
    finding = await unfinished(300, 60.0)

    assert finding.about.startswith("300 task instances in 3 runs")
    assert figure(finding, "memory of an instance").unit == "bytes"


async def test_old_history_is_removed_and_young_one_is_not_looked_at() -> None:
    finding = await retention(2_000, 60.0)

    assert figure(finding, "removed in a quarter of the time, task instances").least == 2000


async def test_files_are_parsed_cold_and_looked_at_again() -> None:
    finding = await parse(2, 60.0)

    assert figure(finding, "cold, for 1,000 files").most == 30.0
    assert figure(finding, "unchanged re-scan, slowest").verdict == "reached"


async def test_files_that_import_airflow_are_compared_with_files_that_import_aiosched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(airflow, "_IMPORTS", 2)

    finding = await airflow.airflow_names(2, 60.0)

    assert figure(finding, "import, ratio").most == 1.2
    assert figure(finding, "parsing, ratio").value > 0
    assert finding.problems == ()


async def test_arrivals_at_a_fixed_rate_are_all_served() -> None:
    finding = await sustained(20, 2, lead=1.0)

    assert figure(finding, "20/s: lag p50").value > 0
    assert figure(finding, "20/s: heap-only updates").value == 100


async def test_what_grows_in_a_service_is_measured_and_every_attempt_is_counted() -> None:
    """A process of `serve` with its workers: that takes some seconds."""
    finding = await endurance(10, 2, samples=4, lead=3.0)

    assert figure(finding, "memory of the scheduler").value > 10
    assert figure(finding, "descriptors: growth after the warm-up").most == 5
    assert figure(finding, "task_instance: dead rows").unit == "thousands"


def test_growth_is_that_of_the_trend_and_single_high_values_do_not_count() -> None:
    level = [100.0] * 50

    assert growth(level) == 0
    assert growth([*level[:-1], 900.0]) == 0
    assert growth([100.0 + number for number in range(51)]) == pytest.approx(100 * 50 / 125)
    assert growth([0.0] * 5) == 0


async def test_a_narrow_pool_is_full_and_never_overfull() -> None:
    result = await run(SHAPES["pool-5"].resized(1), executor="inline", kind="async", lead=1.0)

    assert [problem for problem in result.problems if "give more time" not in problem] == []
    assert figures_of(result)[0] == Figure("tasks at one instant", 5, "", most=5)


async def test_a_herd_of_cron_runs_is_created_at_its_instant() -> None:
    result = await run(SHAPES["herd-20000"].resized(150), executor="inline", kind="async", lead=1.0)

    assert [problem for problem in result.problems if "give more time" not in problem] == []
    assert result.tasks == 150
    assert figures_of(result)[0].what == "all runs created within"


async def test_the_death_of_a_scheduler_is_measured_until_all_of_its_dags_move_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Processes of `serve` that start and die: that takes some seconds."""
    monkeypatch.setattr(takeover, "SCHEDULERS", 2)

    finding = await takeover.takeover(1, 100.0, dags=3)

    p99 = figure(finding, "all DAGs move again, p99")
    assert p99.most == 2.0
    assert p99.value > 0


async def test_a_fleet_of_processes_shares_out_a_shape() -> None:
    """Processes of `serve` that start and stop: that takes some seconds."""
    finding = await fleet(Shape("parallel-6x2", 6, 2, ()), 2, 60.0, lead=3.0)

    assert figure(finding, "DAGs of the busiest scheduler").value <= 100
    assert figure(finding, "throughput").value > 0


async def test_what_schedulers_of_one_machine_share_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of `serve` that start and stop: that takes some seconds."""
    monkeypatch.setattr(scaling, "NUMBERS", (2,))
    work = {
        "parallel": (Shape("parallel-6x2", 6, 2, ()), False),
        "chains": (Shape("linear-2x3", 2, 3, linear(3)), True),
    }
    monkeypatch.setattr(scaling, "WORK", work)

    finding = await scaling.scaling(4, 60.0, rounds=1, lead=8.0)

    assert not finding.problems
    assert figure(finding, "parallel, 2: schedulers' processor time a task").value > 0
    assert figure(finding, "chains, 2: WAL a task").value > 0
    assert figure(finding, "chains, 2: deadlocks").value == 0


async def test_the_memory_of_serve_is_read_idle_and_under_load() -> None:
    """A process of `serve` with its workers: that takes some seconds."""
    finding = await memory(2, 60.0, lead=3.0, settle=0.0)

    idle_bytes = figure(finding, "idle, all processes of serve")
    assert (idle_bytes.most, figure(finding, "under load, all processes of serve").most) == (150, 300)
    assert figure(finding, "idle, the scheduler's process").value < idle_bytes.value


async def test_the_second_start_of_serve_is_measured() -> None:
    """Two starts of `serve` with a database of its own: that takes some seconds."""
    finding = await ready(1, 60.0)

    assert figure(finding, "second start, from the command to ready").most == 2.0
    assert figure(finding, "of that, as `serve` counts it").value > 0


async def test_first_tasks_of_slow_files_are_measured_with_and_without_warmth() -> None:
    finding = await warm(2, 60.0, rounds=1, shapes=(), ahead=4.0, lead=3.0)

    cold = figure(finding, "cold: lag p50 of first tasks, from the due instant").value
    assert cold >= 1000  # the import; how soon a warm one begins depends on the machine
    assert figure(finding, "warm: lag p99 of first tasks, from the due instant").most == 50
    assert figure(finding, "warm: imports, of each round").value >= 2


async def test_requests_of_workers_are_measured_with_each_parser_and_client() -> None:
    finding = await http_requests(5, 60.0)

    assert [one.what.partition(":")[0] for one in finding.figures] == ["client", "client", "server", "server"]
    assert all(one.value > 0 for one in finding.figures)


def test_everything_that_is_run_by_all_exists() -> None:
    names = {arguments[0] for arguments in catalogue.EVERYTHING}

    assert names <= {*SHAPES, *catalogue.SCENARIOS}
    too_long = {"endurance", "history-10m", "many-50000", "mapped-100000", "retention", "scaling", "unfinished-1m"}
    assert set(catalogue.SCENARIOS) - names == too_long


def test_airflows_figures_stand_beside_ours() -> None:
    finding = Finding("schedulers-1", "", "", [Figure("throughput", 60_000.0, "tasks a minute")])

    lags = lag_table([replace(RESULT, shape=shape) for shape in ("linear-100x10", "linear-10x100", "tree-100x10")])
    throughput = throughput_table([finding] * 3, 5000)

    assert "| linear-100x10 | 200 s | 11.6 s | 0.4 s | 0.004 s | 2.0 ms | 0.50 s |" in lags
    assert "| 2 | 541 | 60,000 |" in throughput
