"""The standard sensors, and their triggers. Source: the semantics reference, section 24."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aiosched import DAG, BaseSensorOperator, WeekDay
from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.runtime.services import Services, offering
from aiosched.authoring.sensors import (
    BashSensor,
    DateTimeSensor,
    DayOfWeekSensor,
    ExternalTaskFailed,
    ExternalTaskSensor,
    FileSensor,
    HttpSensor,
    TimeDeltaSensor,
    TimeSensor,
)
from aiosched.authoring.triggers import (
    DagStateTrigger,
    DateTimeTrigger,
    ExternalTaskTrigger,
    FileTrigger,
    HttpTrigger,
    TriggerEvent,
)
from aiosched.authoring.triggers.external import MAX_UNANSWERED
from aiosched.clock import FakeClock
from aiosched.errors import (
    AioschedError,
    CommandFailed,
    DagError,
    NotFound,
    SkipTask,
    TaskDeferred,
)
from tests.authoring.authoring_builders import LOGICAL_DATE, FakeServices, attempt_of, context_of, not_allowed

FRIDAY = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass
class Asked(FakeServices):
    """Services whose answers a test gives, one after the other; the last one stays."""

    answers: list[Any] = field(default_factory=list)
    questions: list[tuple[str, Any]] = field(default_factory=list)

    async def call(self, run: int, name: str, args: str) -> str:
        self.questions.append((name, json.loads(args)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer)


async def poke(sensor: BaseSensorOperator, services: Any = None, **attempt: Any) -> Any:
    """One poke, as the runner would do it."""
    context = context_of(sensor, attempt_of(**attempt), services=services)
    with current_context(context):
        return await sensor.poke(sensor.render(context) and context)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock(FRIDAY)
    monkeypatch.setattr(BaseSensorOperator, "clock", clock)
    monkeypatch.setattr(DateTimeTrigger, "clock", clock)
    return clock


# ---- time


async def test_a_moment_is_waited_for_inclusive(clock: FakeClock) -> None:
    later = DateTimeSensor(task_id="t", target_time=FRIDAY + timedelta(seconds=1))

    assert not await poke(later)
    clock.advance(1)
    assert await poke(later)
    assert later.deferred_on(context_of(later)).moment == FRIDAY + timedelta(seconds=1)


async def test_a_moment_may_be_a_template_and_is_in_the_zone_of_the_dag(clock: FakeClock) -> None:
    with DAG("d", start_date="2026-01-01T00:00:00", schedule=None) as dag:
        dag.zone_name = "Europe/Amsterdam"
        sensor = DateTimeSensor(task_id="t", target_time="{{ ds }}T13:00:00")

    rendered = sensor.render(context_of(sensor))

    assert rendered.moment(context_of(sensor)) == FRIDAY


def test_a_span_counts_from_the_end_of_the_interval() -> None:
    sensor = TimeDeltaSensor(task_id="t", delta=timedelta(minutes=5))

    assert sensor.moment(context_of(sensor)) == LOGICAL_DATE + timedelta(minutes=5)
    assert sensor.moment(context_of(sensor, attempt_of(logical_date=None))) == LOGICAL_DATE + timedelta(minutes=5)


async def test_a_time_of_day_is_that_of_the_day_on_which_the_try_began(clock: FakeClock) -> None:
    with DAG("d", schedule=None) as dag:
        dag.zone_name = "America/New_York"
        sensor = TimeSensor(task_id="t", target_time=time(8, 30))
    late = {"first_started": datetime(2026, 1, 3, 2, tzinfo=UTC)}  # the evening of the second, over there

    assert sensor.moment(context_of(sensor, attempt_of(**late))) == datetime(2026, 1, 2, 13, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "options", "found"),
    [
        ("Friday", {}, True),
        (WeekDay.SATURDAY, {}, False),
        ({"saturday", WeekDay.FRIDAY}, {}, True),
        (["Thursday"], {}, False),
        ("Friday", {"use_task_logical_date": True}, True),
    ],
)
async def test_a_day_of_the_week_is_waited_for(clock: FakeClock, days: Any, options: Any, found: bool) -> None:
    assert await poke(DayOfWeekSensor(task_id="t", week_day=days, **options)) is found


def test_the_next_such_day_begins_at_midnight_in_the_dags_zone(clock: FakeClock) -> None:
    with DAG("d", schedule=None) as dag:
        dag.zone_name = "Europe/Amsterdam"
        sensor = DayOfWeekSensor(task_id="t", week_day="Monday")

    assert sensor.deferred_on(context_of(sensor)).moment == datetime(2026, 1, 4, 23, tzinfo=UTC)


async def test_a_moment_trigger_fires_once_the_clock_is_there(clock: FakeClock) -> None:
    assert [event async for event in DateTimeTrigger(FRIDAY).run()] == [TriggerEvent(FRIDAY)]


# ---- files


@pytest.mark.parametrize(
    ("pattern", "made", "recursive", "found"),
    [
        ("a.csv", "a.csv", False, True),
        ("*.csv", "a.csv", False, True),
        ("*.csv", "a.txt", False, False),
        ("in", "in/a.csv", False, True),
        ("in", "in/deep/a.csv", False, False),
        ("in", "in/deep/a.csv", True, True),
        ("**/*.csv", "in/deep/a.csv", True, True),
    ],
)
async def test_a_file_is_found_by_a_pattern(
    tmp_path: Path, pattern: str, made: str, recursive: bool, found: bool
) -> None:
    sensor = FileSensor(task_id="t", filepath=str(tmp_path / pattern), recursive=recursive)

    assert not await poke(sensor)
    (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / made).touch()
    assert await poke(sensor) is found


async def test_a_relative_path_is_below_that_of_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_CONN_INBOX", json.dumps({"conn_type": "fs", "extra": {"path": str(tmp_path)}}))
    (tmp_path / "a.csv").touch()
    sensor = FileSensor(task_id="t", filepath="a.csv", fs_conn_id="inbox", deferrable=True)

    assert await poke(sensor)
    trigger = sensor.deferred_on(context_of(sensor))
    assert [event.payload async for event in trigger.run()] == [[str(tmp_path / "a.csv")]]


async def test_a_file_trigger_looks_again(tmp_path: Path) -> None:
    events = FileTrigger(str(tmp_path / "a"), poke_interval=0).run()
    waiting = asyncio.ensure_future(anext(aiter(events)))
    await asyncio.sleep(0)
    (tmp_path / "a").touch()

    assert (await waiting).payload == [str(tmp_path / "a")]


# ---- commands


@pytest.mark.parametrize(
    ("command", "options", "found"),
    [("exit 0", {}, True), ("exit 3", {}, False), ("exit 3", {"retry_exit_code": 3}, False)],
)
async def test_a_command_is_run_until_it_succeeds(command: str, options: Any, found: bool) -> None:
    assert await poke(BashSensor(task_id="t", bash_command=command, **options)) is found


async def test_another_exit_code_than_the_one_to_retry_fails_the_sensor() -> None:
    with pytest.raises(CommandFailed, match=r"exit code 4. Its last line: 'gone'"):
        await poke(BashSensor(task_id="t", bash_command="echo gone; exit 4", retry_exit_code=3))


# ---- servers


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> list[httpx2.Response | Callable[[httpx2.Request], httpx2.Response]]:
    """Answers, one after the other; no request leaves the process."""
    answers: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        found = answers.pop(0)
        return found(request) if callable(found) else found

    transport = httpx2.MockTransport(answer)
    make = httpx2.AsyncClient
    monkeypatch.setattr(httpx2, "AsyncClient", lambda **options: make(transport=transport, **options))
    return answers


async def test_a_server_is_asked_until_it_answers_well(server: list[Any]) -> None:
    server += [httpx2.Response(404), httpx2.Response(503), httpx2.Response(200, text="no"), httpx2.Response(200)]
    sensor = HttpSensor(
        task_id="t",
        endpoint="http://there/ready",
        response_error_codes_allowlist=["404", 503],
        response_check=lambda response, ti: response.text != "no" and ti.task_id == "t",
    )

    assert [await poke(sensor) for _ in range(4)] == [False, False, False, True]


async def test_any_other_error_of_a_server_fails_the_sensor(server: list[Any]) -> None:
    server.append(httpx2.Response(500, text="broken"))

    with pytest.raises(CommandFailed, match=r"GET http://there answered 500 Internal Server Error: 'broken'"):
        await poke(HttpSensor(task_id="t", endpoint="http://there"))


async def test_an_http_trigger_gives_the_answer(server: list[Any]) -> None:
    server += [httpx2.Response(404), httpx2.Response(200, text="here")]
    sensor = HttpSensor(task_id="t", endpoint="http://there", poke_interval=0, deferrable=True)
    trigger = sensor.deferred_on(context_of(sensor))

    assert isinstance(trigger, HttpTrigger)
    assert [event.payload async for event in trigger.run()] == [{"status": 200, "text": "here"}]


# ---- other DAGs


def states(run: str | None, *tasks: str | None, unknown: Any = ()) -> dict[str, Any]:
    found = None if run is None else {"run_id": "r", "state": run}
    return {
        "dag_exists": True,
        "unknown": list(unknown),
        "run": found,
        "tasks": [[f"t{i}", -1, state] for i, state in enumerate(tasks)],
    }


@pytest.mark.parametrize(
    ("answer", "options", "found"),
    [
        (states(None), {}, False),
        (states("running"), {}, False),
        (states("success"), {}, True),
        (states("failed"), {}, False),
        (states("failed"), {"allowed_states": ["success", "failed"]}, True),
        (states("running", "success"), {"external_task_id": "t0"}, True),
        (states("running", "success", None), {"external_task_ids": ["t0", "t1"]}, False),
        (states("running", "success", "success"), {"external_task_ids": ["t0", "t1"]}, True),
        (states("running"), {"external_task_group_id": "g"}, False),
        (states("running", "success", "skipped"), {"external_task_group_id": "g"}, False),
    ],
)
async def test_another_dag_is_waited_for(answer: Any, options: Any, found: bool) -> None:
    sensor = ExternalTaskSensor(task_id="t", external_dag_id="other", **options)

    assert await poke(sensor, Asked(answers=[answer])) is found


@pytest.mark.parametrize(
    ("options", "dates"),
    [
        ({}, [LOGICAL_DATE]),
        ({"execution_delta": timedelta(hours=1)}, [LOGICAL_DATE - timedelta(hours=1)]),
        ({"execution_delta": timedelta(hours=-1)}, [LOGICAL_DATE + timedelta(hours=1)]),
        ({"execution_date_fn": lambda date: date + timedelta(days=1)}, [LOGICAL_DATE + timedelta(days=1)]),
        ({"execution_date_fn": lambda date, ds: [date, date.add(days=len(ds))]}, [None, LOGICAL_DATE + timedelta(10)]),
    ],
)
async def test_its_runs_are_found_by_logical_date(options: Any, dates: Any) -> None:
    services = Asked(answers=[states("success")])

    await poke(ExternalTaskSensor(task_id="t", external_dag_id="other", **options), services)

    asked = [datetime.fromisoformat(question["logical_date"]) for _, question in services.questions]
    assert asked == [date or LOGICAL_DATE for date in dates]


@pytest.mark.parametrize(
    ("answer", "options", "ending"),
    [
        (states("running", "failed"), {"failed_states": ["failed"]}, ExternalTaskFailed),
        (states("running", "failed"), {"failed_states": ["failed"], "soft_fail": True}, SkipTask),
        (states("running", "skipped"), {"skipped_states": ["skipped"]}, SkipTask),
        ({**states(None), "dag_exists": False}, {"check_existence": True}, NotFound),
        (states(None, unknown=["t0"]), {"check_existence": True}, NotFound),
    ],
)
async def test_what_will_not_come_is_not_waited_for(answer: Any, options: Any, ending: type[Exception]) -> None:
    sensor = ExternalTaskSensor(task_id="t", external_dag_id="other", external_task_id="t0", **options)

    with pytest.raises(ending):
        await poke(sensor, Asked(answers=[answer]))


async def test_the_trigger_waits_for_the_same_and_says_what_came() -> None:
    services = Asked(answers=[states("running", None), states("running", "running"), states("running", "failed")])
    sensor = ExternalTaskSensor(
        task_id="t", external_dag_id="other", external_task_id="t0", failed_states=["failed"], deferrable=True,
        poll_interval=0,
    )  # fmt: skip
    context = context_of(sensor, services=services)
    with current_context(context), pytest.raises(TaskDeferred) as deferred:
        await sensor.execute(context)
    with current_context(context):
        trigger = ExternalTaskTrigger(**deferred.value.trigger.serialize()[1])
        (event,) = [event async for event in trigger.run()]

    assert event.payload == {"status": "failed"}
    with pytest.raises(ExternalTaskFailed, match=r"'t0' of DAG 'other', is in one of \['failed'\]"):
        sensor.execute_complete(context, event.payload)


async def test_a_trigger_bears_it_when_the_scheduler_cannot_answer_for_a_while() -> None:
    broken: list[Any] = [OSError("no connection")] * MAX_UNANSWERED
    done = {"dag_exists": True, "run": {"run_id": "r", "state": "success"}}
    trigger = DagStateTrigger("other", "r", ["success"], poll_interval=0)

    with offering(Services(Asked(answers=[*broken, done]), 1, not_allowed)):
        (event,) = [event async for event in trigger.run()]
    with offering(Services(Asked(answers=[*broken, *broken]), 1, not_allowed)), pytest.raises(OSError, match="no conn"):
        [event async for event in trigger.run()]

    assert event.payload["state"] == "success"


async def test_a_poke_that_gets_no_answer_is_an_error_of_that_poke() -> None:
    sensor = ExternalTaskSensor(task_id="t", external_dag_id="other")

    with pytest.raises(OSError, match="no conn"):
        await poke(sensor, Asked(answers=[OSError("no connection")]))


async def test_a_run_without_a_logical_date_cannot_look_for_one() -> None:
    with pytest.raises(AioschedError, match="which has none"):
        await poke(ExternalTaskSensor(task_id="t", external_dag_id="other"), Asked(), logical_date=None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DateTimeSensor(task_id="t", target_time=datetime(2026, 1, 1)), "has no time zone"),  # noqa: DTZ001
        (lambda: TimeSensor(task_id="t", target_time="8:30"), "is not a datetime.time"),
        (lambda: DayOfWeekSensor(task_id="t", week_day="Sonday"), "week_day='Sonday' is wrong"),
        (lambda: DayOfWeekSensor(task_id="t", week_day=[]), "Give names of days"),
        (
            lambda: HttpSensor(task_id="t", endpoint="x", deferrable=True, response_check=bool),
            "response_check and deferrable=True exclude each other",
        ),
        (
            lambda: ExternalTaskSensor(task_id="t", external_dag_id="o", external_task_id="a", external_task_ids=["b"]),
            "exclude each other",
        ),
        (
            lambda: ExternalTaskSensor(task_id="t", external_dag_id="o", allowed_states=["succes"]),
            "Did you mean 'success'?",
        ),
        (
            lambda: ExternalTaskSensor(task_id="t", external_dag_id="o", failed_states=["success"]),
            "success is in more than one",
        ),
        (
            lambda: ExternalTaskSensor(
                task_id="t", external_dag_id="o", execution_delta=60, execution_date_fn=lambda date: date
            ),
            "execution_delta and execution_date_fn",
        ),
    ],
)
def test_a_wrong_sensor_is_an_error_of_its_author(make: Callable[[], object], words: str) -> None:
    with pytest.raises(DagError) as caught:
        make()

    assert words in str(caught.value)
    assert caught.value.file == __file__


def test_all_standard_sensors_wait_on_the_loop() -> None:
    sensors = [
        BashSensor(task_id="a", bash_command="true"),
        DateTimeSensor(task_id="b", target_time=FRIDAY),
        DayOfWeekSensor(task_id="c", week_day="Friday"),
        ExternalTaskSensor(task_id="d", external_dag_id="o"),
        FileSensor(task_id="e", filepath="f"),
        HttpSensor(task_id="f", endpoint="g"),
        TimeDeltaSensor(task_id="h", delta=5),
        TimeSensor(task_id="i", target_time=time(1)),
    ]

    assert all(sensor.is_async for sensor in sensors)
