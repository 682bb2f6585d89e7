"""Why a task instance does not run: each gate in each of its positions, and each way to have ended."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.previous_run import EarlierRuns, StoredRun
from aiosched.core.graph.spec import DagSpec, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerVerdict as Judgement
from aiosched.core.run.board import Board, Instance
from aiosched.core.slots.allocation import Needs, PoolRoom, TaskRoom
from aiosched.core.slots.rates import RecentStarts, parse_rate
from aiosched.core.values.messages import Deferral, Outcome, SkipDecision
from aiosched.core.values.states import FINISHED, RunState, TaskState
from aiosched.core.why.dependencies import dependency_gates
from aiosched.core.why.explanation import Explanation, Gate, Holder, Owner, Verdict
from aiosched.core.why.run import RunFacts, unknown_duration
from aiosched.core.why.task import BlockedLoop, OnEngine, TaskFacts, explain_task
from tests.core.board_builders import FAILED, LOST, RESCHEDULED, end, grant, of, run, seconds, started
from tests.core.board_player import NOW, board_of, new_run
from tests.core.graph_builders import dags, task
from tests.core.mapping_builders import begun, finish
from tests.core.slot_builders import dag_room, needs, room

SERVE = ("aiosched serve",)
DRAINING = Owner(name="one", is_alive=True, is_draining=True)
HANDED_OVER = dataclasses.replace(DRAINING, others=1)
ALIVE = Owner(name="one", is_alive=True)
LATER = NOW + timedelta(minutes=4, seconds=12)
BLOCKS = "blocks the event loop of its worker process for 1 m"


def facts(board: Board, instance: Instance, **changes: Any) -> TaskFacts:
    """The facts about an instance with room for everything, four minutes after the run began."""
    of_run = {name: changes.pop(name) for name in ("owner", "is_paused", "limit") if name in changes}
    run_facts = RunFacts(now=LATER, run=board.run, running=1, **({"owner": ALIVE} | of_run))
    candidate = changes.pop("candidate", None) or needs(run=board.run.key, index=instance.task)
    given = {"room": room(etl=4), "executor": "local", "candidate": candidate}
    return TaskFacts(run=run_facts, board=board, instance=instance, **(given | changes))


def ask(board: Board, name: str = "load", **changes: Any) -> Explanation:
    return explain_task(facts(board, of(board, name), **changes))


def gate_of(said: Explanation, name: str) -> Gate:
    return next(gate for gate in said.gates if gate.name == name)


def verdicts(said: Explanation) -> dict[str, str]:
    return {gate.name: gate.verdict.value for gate in said.gates}


def holder(task_id: str, *, slots: int = 1, ran: float | None = None, usual: float | None = None) -> Holder:
    return Holder(dag_id="bulk", run_id="r", task_id=task_id, slots=slots, seconds=ran, usual_seconds=usual)


GPU = needs(run=1, executor="gpu")
BUSY = dataclasses.replace(room(parallelism=3, etl=4), open=0)
FULL: dict[str, Any] = {"room": room(etl=PoolRoom(4, 0)), "pool_used": 4}
LOAD = (task("extract"), task("load", "extract"))


class TestTheWayToASlot:
    """Gates of what is ready."""

    def test_nothing_is_in_the_way(self) -> None:
        said = ask(started(task("load")))

        assert said.summary == "scheduled for 4 m 12 s, not running; nothing is in the way, it is next"
        assert set(verdicts(said).values()) == {"ok"}
        assert list(verdicts(said)) == [
            "scheduler", "DAG is active", "run is running", "upstream", "pool etl", "DAG limit", "parallelism",
            "executor local", "worker",
        ]  # fmt: skip

    def test_those_that_go_first_are_counted_where_there_is_room_for_all(self) -> None:
        said = ask(started(task("load")), ahead=(2, 2))

        assert said.summary.endswith("nothing is in the way, 2 tasks of its pool before it")
        assert said.rank == 3

    def test_a_full_pool_names_who_holds_it_and_when_it_may_be_free(self) -> None:
        holders = (holder("slow", slots=2, ran=1860, usual=360), holder("copy", slots=2, ran=240, usual=540))

        said = ask(
            started(task("load")), room=room(etl=PoolRoom(4, 0)), pool_used=4, pool_holders=holders, ahead=(0, 0)
        )

        pool = gate_of(said, "pool etl")
        assert (pool.verdict, pool.detail) == (Verdict.WAIT, "4 of 4 slots held, needs 1")
        assert (said.rank, said.likely_free_in, said.commands) == (1, 300.0, ("aiosched pools set etl 5",))
        assert gate_of(said, "executor local").verdict is Verdict.NOT_REACHED
        assert said.summary == "scheduled for 4 m 12 s, not running"

    def test_whoever_goes_first_counts_for_rank_and_guess(self) -> None:
        holders = (holder("a", slots=2, ran=60, usual=120), holder("b", slots=2, ran=60, usual=180))

        said = ask(
            started(task("load")), room=room(etl=PoolRoom(4, 0)), pool_used=4, pool_holders=holders, ahead=(2, 2)
        )

        assert gate_of(said, "pool etl").detail == "4 of 4 slots held, needs 1; 2 tasks before it"
        assert (said.rank, said.likely_free_in) == (3, 120.0)
        assert said.commands == ("aiosched pools set etl 7",)

    @pytest.mark.parametrize(
        ("ahead", "words", "seconds"),
        [
            (None, "the next start is at 2026-", 40),
            ((0, 0), "the next start is at 2026-", 40),
            ((1, 1), "1 task before it, so that it starts at 2026-", 50),
            ((4, 9), "4 tasks before it, so that it starts at 2026-", 160),  # of the third period
        ],
    )
    def test_a_rate_that_is_used_up_names_the_next_start(
        self, ahead: tuple[int, int] | None, words: str, seconds: int
    ) -> None:
        now = round(NOW.timestamp()) * 1_000_000
        starts = RecentStarts(parse_rate("2/min"), [(now - 20_000_000, 1), (now - 10_000_000, 1)], now)

        said = ask(started(task("load")), room=room(etl=PoolRoom(4, 3, starts=starts)), pool_used=1, ahead=ahead)

        pool = gate_of(said, "pool etl")
        assert pool.verdict is Verdict.WAIT
        assert pool.detail.startswith(f"2 of 2 starts in the last minute, its rate; {words}")
        assert said.earliest_start == pool.opens_at == NOW + timedelta(seconds=seconds)
        assert said.commands == ()

    def test_a_rate_that_is_not_used_up_is_part_of_the_figures(self) -> None:
        starts = RecentStarts(parse_rate("2/min"), [], 0)

        said = ask(started(task("load")), room=room(etl=PoolRoom(4, 3, starts=starts)), pool_used=1)

        assert gate_of(said, "pool etl").detail == "0 of 2 starts in the last minute, 1 of 4 slots held, needs 1"

    @pytest.mark.parametrize(
        ("pools", "slots", "verdict", "detail", "command"),
        [
            ({}, 2, Verdict.NEVER, "there is no such pool", "aiosched pools set etl 2"),
            ({"etl": 2}, 3, Verdict.NEVER, "needs 3, has 2 slots in all", "aiosched pools set etl 3"),
            ({"etl": 0}, 1, Verdict.NEVER, "needs 1, has 0 slots in all", "aiosched pools set etl 1"),
            ({"etl": -1}, 99, Verdict.OK, "no limit, needs 99", None),
        ],
        ids=["missing", "too-small", "closed", "infinite"],
    )
    def test_pools_that_never_or_always_have_room(
        self, pools: dict[str, Any], slots: int, verdict: Verdict, detail: str, command: str | None
    ) -> None:
        said = ask(started(task("load")), candidate=needs(slots, run=1), room=room(**pools))

        assert (gate_of(said, "pool etl").verdict, gate_of(said, "pool etl").detail) == (verdict, detail)
        assert said.commands == (() if command is None else (command,))

    def test_each_limit_of_the_dag_has_a_gate(self) -> None:
        dag = dag_room(limit=2, per_run=1)
        limited = TaskRoom("load", per_dag=1, per_run=1)
        dag.tasks["load"] = limited
        dag.occupy(1, limited)
        dag.occupy(2)

        said = ask(started(task("load")), candidate=needs(dag=dag, run=1, task=limited), dag_holders=(holder("load"),))

        assert {gate.name: gate.detail for gate in said.in_the_way()} == {
            "DAG limit": "2 of 2 active (max_active_tasks)",
            "run limit": "1 of 1 active (max_active_tasks_per_run)",
            "task limit max_active_tis_per_dag": "1 of 1 active",
            "task limit max_active_tis_per_dagrun": "1 of 1 active",
        }
        assert [each.task_id for each in gate_of(said, "DAG limit").holders] == ["load"]

    @pytest.mark.parametrize(
        ("what", "changes", "verdict", "detail"),
        [
            ("executor local", {"room": room(plain=0, etl=4)}, "wait", "0 slots open for plain functions"),
            (
                "executor gpu",
                {"candidate": GPU},
                "never",
                "not configured: known here is local",
            ),
            ("executor local", {"has_figures": False}, "unknown", "its scheduler has not reported"),
            (
                "parallelism",
                {"room": BUSY},
                "wait",
                "runs 3 attempts",
            ),
            ("parallelism", {"has_figures": False}, "unknown", "its scheduler has not reported"),
        ],
        ids=["no-slot", "not-configured", "unknown", "parallelism", "parallelism-unknown"],
    )
    def test_executor_and_parallelism(self, what: str, changes: dict[str, Any], verdict: str, detail: str) -> None:
        gate = gate_of(ask(started(task("load")), **changes), what)

        assert gate.verdict.value == verdict
        assert detail in gate.detail

    def test_what_begins_in_its_trigger_asks_no_executor(self) -> None:
        said = ask(started(task("load")), candidate=needs(run=1, defers=True), room=room(plain=0, etl=0))

        assert not [gate for gate in said.in_the_way() if gate.name.startswith("executor")]
        assert not said.in_the_way()

    def test_queued_means_that_a_worker_is_missing(self) -> None:
        board = started(task("load"))
        grant(board, "load")

        said = ask(board, queued_by="one", room=room(plain=0, etl=0))

        assert said.summary == "queued for 4 m 12 s, no worker has reported its start"
        assert [gate.detail for gate in said.in_the_way()] == [
            "scheduler one has it for 4 m 12 s, no worker has reported its start"
        ]

    def test_running_says_for_how_long_and_how_long_usually(self) -> None:
        said = ask(started(task("load", retries=2), running=["load"]), usual=lambda name: 60.0)

        assert said.summary == "running for 4 m 12 s, usually 1 m, try 1 of 3"
        assert not said.in_the_way()

    @pytest.mark.parametrize(
        ("by_itself", "where", "detail"),
        [
            (True, "f.py:7", f"it {BLOCKS} at f.py:7: await, or use asyncio.to_thread"),
            (False, "f.py:7", f"cannot continue: bulk.busy {BLOCKS} at f.py:7"),
            (False, "", f"cannot continue: bulk.busy {BLOCKS}, holding the interpreter, so the line is not known"),
        ],
        ids=["itself", "another", "no line"],
    )
    def test_a_blocked_loop_of_its_worker_is_named_with_who_blocks_it(
        self, by_itself: bool, where: str, detail: str
    ) -> None:
        blocked = BlockedLoop(since=LATER - timedelta(minutes=1), who="bulk.busy", where=where, by_itself=by_itself)

        said = ask(started(task("load"), running=["load"]), blocked=blocked)

        worker = gate_of(said, "worker")
        assert (worker.verdict, worker.detail) == (Verdict.WAIT, detail)

    def test_whoever_is_told_to_stop_says_so(self) -> None:
        board = started(task("load"), running=["load"])
        board.clear([of(board, "load")], NOW)

        assert ask(board).summary == "restarting: its attempt was asked to stop, then it runs again"


class TestTheFleetTheDagAndTheRun:
    """Gates before all others."""

    @pytest.mark.parametrize(
        ("owner", "detail", "commands"),
        [
            (Owner(), "no scheduler is alive", SERVE),
            (Owner(others=1), "no living scheduler owns its partition yet", ()),
            (Owner(name="one"), "no scheduler is alive", SERVE),
            (Owner(name="one", others=2), "one does not respond; another one takes over when its lease ends", ()),
            (DRAINING, "one is draining: it starts nothing new, no other one is alive", SERVE),
            (
                Owner(name="one", is_alive=True, is_draining=True, draining_others=2),
                "one is draining: it starts nothing new, every other one is draining, too",
                SERVE,
            ),
            (Owner(draining_others=2), "every scheduler that is alive is draining: none starts anything new", SERVE),
            (HANDED_OVER, "one is draining: it starts nothing new, another one takes over its DAGs", ()),
        ],
        ids=["none", "free", "all-dead", "dead", "draining", "all-draining", "nobody-takes-over", "handed-over"],
    )  # fmt: skip
    def test_somebody_must_be_there_to_decide(self, owner: Owner, detail: str, commands: tuple[str, ...]) -> None:
        said = ask(started(task("load")), owner=owner)

        assert [(gate.name, gate.detail) for gate in said.in_the_way()] == [("scheduler", detail)]
        assert said.commands == commands
        assert gate_of(said, "pool etl").verdict is Verdict.NOT_REACHED

    def test_a_paused_dag(self) -> None:
        said = ask(started(task("load")), is_paused=True)

        assert [gate.name for gate in said.in_the_way()] == ["DAG is active"]
        assert said.commands == ("aiosched dags unpause sales",)

    def test_a_run_that_is_over(self) -> None:
        board = started(task("load"))
        board.run.state, board.run.reason = RunState.FAILED, "timed_out"

        gate = gate_of(ask(board), "run is running")

        assert gate.verdict is Verdict.NEVER
        assert gate.detail == "the run has ended: failed (it ran longer than its dagrun_timeout)"

    def test_what_can_never_be_is_said_ahead(self) -> None:
        said = ask(started(*LOAD), room=room())

        assert verdicts(said)["upstream"] == "wait"
        assert verdicts(said)["pool etl"] == "never"
        assert verdicts(said)["DAG limit"] == "not-reached"


class TestDependencies:
    """Gates of what is not ready."""

    def test_upstreams_are_counted_by_the_rule_and_named(self) -> None:
        board = started(task("a"), task("b"), task("load", "a", "b"), running=["a"])
        end(board, "a")
        run(board, "b")

        said = ask(board, usual={"b": 600.0}.get)

        upstream = gate_of(said, "upstream")
        assert (upstream.verdict, upstream.detail) == (Verdict.WAIT, "1 of 2 succeeded (all_success)")
        (waits_for,) = upstream.holders
        assert (waits_for.task_id, waits_for.seconds, waits_for.usual_seconds) == ("b", 252.0, 600.0)
        assert said.summary == "waiting for 4 m 12 s, not running"

    def test_the_run_before(self) -> None:
        board = started(task("load", depends_on_past=True))
        board.set_past(EarlierRuns(StoredRun([("load", TaskState.FAILED)])))

        gate = gate_of(ask(board), "previous run")

        assert (gate.verdict, gate.detail) == (
            Verdict.WAIT, "has not succeeded in the previous run (depends_on_past)",
        )  # fmt: skip

    def test_how_often_a_mapped_task_runs(self) -> None:
        mapping = MappingSpec(inputs=(TaskOutput("extract"),))
        board = begun(task("extract"), task("load", "extract", mapping=mapping))

        gate = gate_of(ask(board), "mapping")

        assert (gate.verdict, gate.detail) == (
            Verdict.WAIT,
            "its number of instances is known once extract has returned",
        )
        assert [each.task_id for each in gate.holders] == ["extract"]

    def test_a_mapped_instance_is_named_with_its_index(self) -> None:
        mapping = MappingSpec(inputs=(TaskOutput("extract"),))
        board = begun(task("extract"), task("load", "extract", mapping=mapping))
        finish(board, "extract", value=3)

        said = explain_task(facts(board, board.upstream_counts.of(1)[2]))

        assert said.subject == "sales · manual__1 · load[2]"
        assert gate_of(said, "mapping").detail == "map index 2 of 3 instances"

    def test_a_retry(self) -> None:
        board = started(task("load", retries=2, retry_delay=300.0), running=["load"])
        end(board, "load", FAILED)

        said = ask(board)

        assert said.summary == "try 1 of 3 failed (boom), retrying at 2026-01-01 00:05:00 UTC"
        assert [(gate.name, gate.opens_at) for gate in said.in_the_way()] == [("retry delay", NOW + seconds(300))]
        assert said.earliest_start == NOW + seconds(300)

    def test_a_sensor_that_looks_again(self) -> None:
        board = started(task("load"), running=["load"])
        end(board, "load", RESCHEDULED)
        of(board, "load").next_at = NOW + seconds(600)

        said = ask(board)

        assert said.summary == "waiting for its condition, next check at 2026-01-01 00:10:00 UTC"
        assert [(gate.name, gate.detail) for gate in said.in_the_way()] == [
            ("reschedule", "until 2026-01-01 00:10:00 UTC")
        ]

    def test_a_task_that_its_worker_cannot_load(self) -> None:
        board = started(task("load"), running=["load"])
        end(board, "load", RESCHEDULED)
        of(board, "load").next_at, of(board, "load").reason = NOW + seconds(600), "the DAG has no such task; 1 of 3"

        said = ask(board)

        assert said.summary == "the DAG has no such task; 1 of 3, next check at 2026-01-01 00:10:00 UTC"
        assert [gate.detail for gate in said.in_the_way()] == [
            "until 2026-01-01 00:10:00 UTC: the DAG has no such task; 1 of 3"
        ]

    def test_a_deferred_task_says_on_what_since_when_and_until_when(self) -> None:
        board = started(task("load"), running=["load"])
        door = Deferral(classpath="triggers.Door", kwargs="{}", next_method="go_on", timeout=3600.0)
        end(board, "load", Outcome.DEFERRED, deferral=door)

        said = ask(board, deferred_since=NOW)

        assert said.summary == "deferred for 4 m 12 s, not running"
        assert gate_of(said, "trigger").detail == (
            "waits for triggers.Door for 4 m 12 s, until 2026-01-01 01:00:00 UTC at the latest"
        )

    def test_setups_and_teardown_scopes(self) -> None:
        board = started(
            task("up", is_setup=True), task("work", "up"), task("deep", "work"),
            task("down", "up", "deep", is_teardown=True, trigger_rule="all_done_setup_success"), running=["up"],
        )  # fmt: skip
        before = gate_of(ask(board, "deep"), "setups")
        end(board, "up")

        assert (before.verdict, before.detail) == (Verdict.WAIT, "0 of 1 succeeded")
        assert gate_of(ask(board, "deep"), "setups").verdict is Verdict.OK
        scope = gate_of(ask(board, "down"), "teardown scope")
        assert (scope.verdict, scope.detail) == (
            Verdict.WAIT, "2 task instances between its setup and it is unfinished",
        )  # fmt: skip

    def test_what_the_scheduler_settles_next_is_said(self) -> None:
        board = started(*LOAD, running=["extract"])
        instance = of(board, "extract")
        instance.state = TaskState.FAILED
        board.upstream_counts.moved(instance, TaskState.RUNNING, board._pending)

        gate = gate_of(ask(board), "upstream")

        assert gate.verdict is Verdict.NEVER
        assert gate.detail == (
            "0 of 1 succeeded (all_success); 1 failed: it fails with its upstreams at the next pass of its scheduler"
        )


class TestEnds:
    """What is over says how, and where it began."""

    def test_success(self) -> None:
        board = started(task("load"), running=["load"])
        end(board, "load")

        assert ask(board).summary == "succeeded in 0 ms"

    def test_failure(self) -> None:
        board = started(task("load"), running=["load"])
        end(board, "load", FAILED)

        said = ask(board)

        assert said.summary == "failed: boom"
        assert said.commands == (
            "aiosched tasks logs sales manual__1 load",
            "aiosched tasks clear sales --run manual__1 --task-id load --only-failed --downstream",
        )
        assert said.waiting_seconds is None

    def test_a_failure_of_a_task_that_the_newest_version_does_not_have(self) -> None:
        board = started(task("load"), running=["load"])
        end(board, "load", FAILED)

        assert ask(board, is_gone=True).commands == (
            "aiosched tasks logs sales manual__1 load",
            "aiosched tasks clear sales --run manual__1 --only-failed --newest-version",
        )

    def test_the_root_of_a_failure_is_found_however_far_away(self) -> None:
        board = started(task("extract"), task("clean", "extract"), task("load", "clean"), running=["extract"])
        end(board, "extract", FAILED)

        said = ask(board)

        assert said.summary == "upstream failed: the root is extract (boom)"
        (root,) = said.gates[0].holders
        assert (root.task_id, root.state) == ("extract", "failed")
        (command,) = said.commands
        assert command == "aiosched tasks clear sales --run manual__1 --task-id extract --only-failed --downstream"

    def test_several_roots(self) -> None:
        board = started(*(task(f"e{n}") for n in range(5)), task("load", *(f"e{n}" for n in range(5))))
        for number in range(5):
            run(board, f"e{number}")
            end(board, f"e{number}", FAILED)

        assert ask(board).summary == "upstream failed: the roots are e0 (boom), e1 (boom), e2 (boom) and 2 more"

    @pytest.mark.parametrize(
        ("choose", "rule", "summary"),
        [
            (SkipDecision(followed=("a",)), "all_success", "skipped by choose"),
            (SkipDecision(followed=()), "none_failed_min_one_success", "skipped by choose"),
        ],
        ids=["other-branch", "no-branch"],
    )
    def test_a_skip_names_the_branch(self, choose: SkipDecision, rule: str, summary: str) -> None:
        board = started(
            task("choose"), task("a", "choose"), task("load", "choose", trigger_rule=rule), running=["choose"]
        )

        end(board, "choose", choose)

        assert ask(board).summary == summary

    def test_a_skip_by_the_rule_says_what_the_rule_counted(self) -> None:
        board = started(*LOAD, running=["extract"])
        end(board, "extract", Outcome.SKIPPED)

        assert ask(board).summary == "skipped: 0 of 1 upstream succeeded (all_success); 1 skipped"

    def test_lost_attempts_count(self) -> None:
        board = started(task("load"), running=["load"])
        for _ in range(2):
            end(board, "load", LOST)
            run(board, "load")
        end(board, "load", LOST)

        assert ask(board).summary == "failed: lost 3 times in a row: its worker died"

    def test_removed(self) -> None:
        mapping = MappingSpec(inputs=(TaskOutput("extract"),))
        board = begun(task("extract"), task("load", "extract", mapping=mapping))
        finish(board, "extract", value=2)
        instance = board.upstream_counts.of(1)[1]
        instance.state, instance.reason = TaskState.REMOVED, "there are 1 values to map over now"

        assert explain_task(facts(board, instance)).summary == "removed: there are 1 values to map over now"


def test_a_room_refuses_what_one_of_its_parts_refuses() -> None:
    """Decision and explanation are one: the whole refusal is the first of its parts."""
    cases = [
        (room(parallelism=0, etl=0), Needs("etl")),
        (room(etl=0), Needs("etl")),
        (room(etl=4), Needs("etl", executor="gpu")),
        (room(plain=0, etl=4), Needs("etl")),
        (room(etl=4), Needs("etl")),
    ]
    for there, wanted in cases:
        parts = (there.parallelism_refusal(), there.pool_refusal(wanted), there.executor_refusal(wanted))
        assert there.refusal(wanted) == next((part for part in parts if part), None)


@given(dags(), st.randoms(use_true_random=False))
def test_dependency_gates_are_closed_where_the_board_lets_nothing_start(tasks: list[TaskSpec], dice: Any) -> None:
    compiled = Graph(DagSpec(dag_id="sales", tasks=tuple(tasks)))
    instances = new_instances(compiled, range(len(compiled)))
    for instance in instances:
        instance.state = dice.choice([TaskState.NONE, TaskState.RUNNING, *sorted(FINISHED - {TaskState.REMOVED})])
    board = board_of(compiled, new_run(), instances)

    for instance in instances:
        if instance.state is TaskState.NONE:
            closed = [each for each in dependency_gates(board, instance, NOW, unknown_duration) if each.closed]
            judgement = board.upstream_counts.judge(instance)
            assert bool(closed) == (judgement is not Judgement.RUN)
            assert any(each.verdict is Verdict.NEVER for each in closed) == judgement.settles


TROUBLE = {"celery": "Redis at here:6379 does not answer (celery.broker)"}


@pytest.mark.parametrize(
    ("name", "begun", "words"),
    [
        (
            "celery",
            False,
            "its scheduler cannot reach engine 'celery', which is to have it for 4 m 12 s: Redis at here",
        ),
        ("dask", False, "none of its workers has begun it"),
        ("celery", True, "a worker of engine 'celery' on m (process 5) runs it"),
    ],
)
def test_an_engine_that_cannot_be_reached_is_named_with_its_reason(name: str, begun: bool, words: str) -> None:
    on_engine = OnEngine(name=name, sent_at=NOW, begun_at=NOW if begun else None, hostname="m", pid=5)
    board = started(task("load"))
    grant(board, "load")
    assert words in gate_of(ask(board, on_engine=on_engine, troubles=TROUBLE), "worker").detail


def test_a_queue_of_an_engine_without_workers_is_named() -> None:
    board = started(task("load"))
    grant(board, "load")
    on_engine = OnEngine(name="celery", sent_at=NOW, unserved="gpu")
    words = "none of its workers has begun it: none takes from the queue 'gpu', so start one that does"
    assert words in gate_of(ask(board, on_engine=on_engine), "worker").detail


@pytest.mark.parametrize(("executor", "says"), [("celery", True), ("dask", False)])
def test_an_engine_without_slots_says_what_keeps_it_from_its_workers(executor: str, says: bool) -> None:
    said = ask(started(task("load")), room=room(plain=0, etl=4), executor=executor, troubles=TROUBLE)
    detail = gate_of(said, f"executor {executor}").detail
    assert "0 slots open" in detail
    assert ("Redis at here:6379 does not answer" in detail) is says
