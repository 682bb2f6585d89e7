"""How mapped tasks get their instances, and how these depend on each other.

Source: the semantics reference, sections 26.2 and 26.4 to 26.7.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, TaskSpec
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome, SkipDecision, XComValue
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_player import NOW, report_of
from tests.core.graph_builders import in_a_mapped_group, mapped, over, setup, task, teardown
from tests.core.mapping_builders import at, begin, begun, clear, finish, reread, seen
from tests.line_counts import lines_of

FAILED, SKIPPED = Outcome.FAILED, Outcome.SKIPPED


class TestExpanding:
    """Sections 26.2 and 26.4."""

    def test_literal_values_are_expanded_when_the_run_is_made(self) -> None:
        board = begun(mapped("m", inputs=over(2)), task("c", "m"))

        assert seen(board) == {"m[0]": "scheduled", "m[1]": "scheduled", "c": "none"}

    def test_a_return_value_expands_its_reader(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")), task("c", "m"))
        assert seen(board)["m"] == "none"

        finish(board, "p", value=3)

        assert seen(board) == {f"m[{n}]": "scheduled" for n in range(3)} | {"p": "success", "c": "none"}
        assert [i.map_index for i in board.effects.rows.expanded] == [0]
        assert [i.map_index for i in board.effects.rows.created] == [1, 2]
        finish(board, "m[0]", "m[1]")
        assert seen(board)["c"] == "none"
        finish(board, "m[2]")
        assert seen(board)["c"] == "scheduled"

    def test_the_instances_of_a_task_are_decided_in_parts(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")))
        board.grant(at(board, "p"), NOW, 1)
        value = XComValue("return_value", str(list(range(100))))
        board.apply(report_of(board.key(at(board, "p")), Outcome.SUCCESS, NOW, xcoms=(value,)), NOW)
        board.effects.slots.ready.clear()

        ready = []
        while not board.evaluate(NOW, 30):
            ready.append(len(board.effects.slots.ready))

        assert [more - less for less, more in pairwise(ready)] == [30, 30]
        assert [i.map_index for i in board.effects.slots.ready] == list(range(100))

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (0, "skipped"),
            (None, "upstream_failed"),
            ("17", "upstream_failed"),
            ('{"a": 1}', "expanded"),
        ],
    )
    def test_what_cannot_be_counted_fails_its_reader(self, value: int | str | None, expected: str) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")))

        finish(board, "p", value=value)

        assert seen(board) == {"p": "success"} | ({"m[0]": "scheduled"} if expected == "expanded" else {"m": expected})

    def test_expanding_is_done_once_however_often_one_looks(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")))
        finish(board, "p", value=2)
        before = seen(board)

        board.evaluate(NOW)
        again = reread(board, [("p", 2)])

        assert seen(board) == seen(again) == before
        assert (again.effects.rows.expanded, again.effects.rows.created) == ([], [])

    def test_behind_a_removed_index_everything_is_as_if_it_had_never_been(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")), mapped("n", "m", inputs=over(3)))
        finish(board, "p", value=2)
        finish(board, "m[0]", "m[1]")
        finish(board, "n[0]", "n[1]", "n[2]")
        clear(board, "p", "m[0]", "m[1]", "n[0]", "n[1]", "n[2]")

        finish(board, "p", value=1)
        finish(board, "m[0]")

        assert seen(board) == {
            "p": "success", "m[0]": "success", "m[1]": "removed",
            "n[0]": "scheduled", "n[1]": "scheduled", "n[2]": "scheduled",
        }  # fmt: skip


class TestLaterChanges:
    """Section 26.5."""

    @pytest.mark.parametrize(
        ("length", "states"),
        [
            (3, {"m[0]": "scheduled", "m[1]": "scheduled", "m[2]": "scheduled"}),
            (2, {"m[0]": "scheduled", "m[1]": "scheduled"}),
            (1, {"m[0]": "scheduled", "m[1]": "removed"}),
            (0, {"m[0]": "skipped", "m[1]": "removed"}),
            (None, {"m[0]": "upstream_failed", "m[1]": "removed"}),
        ],
    )
    @pytest.mark.parametrize("rebuilt", [False, True])
    def test_a_producer_that_runs_again_may_change_the_number(
        self, length: int | None, states: dict[str, str], rebuilt: bool
    ) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")))
        finish(board, "p", value=2)
        finish(board, "m[0]", "m[1]")
        clear(board, "p", "m[0]", "m[1]")
        if rebuilt:
            board = reread(board, [("p", 2)] if length is not None else [])  # whose new try has deleted it

        finish(board, "p", value=length)

        assert {name: state for name, state in seen(board).items() if name != "p"} == states

    def test_an_index_that_comes_back_is_restored(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p")))
        finish(board, "p", value=2)
        finish(board, "m[0]", "m[1]")
        clear(board, "p", "m[0]")
        finish(board, "p", value=1)
        assert seen(board)["m[1]"] == "removed"
        finish(board, "m[0]")

        clear(board, "p", "m[0]")
        finish(board, "p", value=3)

        assert seen(board) == {"p": "success"} | {f"m[{n}]": "scheduled" for n in range(3)}

    def test_a_running_index_that_is_not_needed_any_more_is_stopped(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p"), trigger_rule="all_done"))
        finish(board, "p", value=2)
        finish(board, "m[0]")
        running = at(board, "m[1]")
        board.effects.slots.ready.remove(running)
        board.grant(running, NOW, 1)
        clear(board, "p", "m[0]")

        finish(board, "p", value=1)

        assert running.state is TaskState.REMOVED
        assert board.key(running) in board.effects.cancelled


class TestProducers:
    """Section 26.6."""

    @pytest.mark.parametrize(
        ("endings", "expected"),
        [
            ([], "none"),
            ([Outcome.SUCCESS], "none"),
            ([FAILED], "upstream_failed"),  # at once, whatever the others do
            ([SKIPPED], "skipped"),
            ([Outcome.SUCCESS, FAILED], "upstream_failed"),
        ],
    )
    def test_the_producers_are_looked_at_whatever_the_rule(self, endings: list[Outcome], expected: str) -> None:
        tasks = (task("p"), task("q"), task("r"))
        board = begun(*tasks, mapped("m", "p", "q", "r", inputs=over("p", "q"), trigger_rule="all_done"))

        for name, ending in zip("qp", endings, strict=False):
            finish(board, name, ending=ending, value=1 if ending is Outcome.SUCCESS else None)

        assert seen(board)["m"] == expected

    def test_a_removed_producer_is_no_reason_to_run(self) -> None:
        board = begun(task("p"), mapped("m", "p", inputs=over("p"), trigger_rule="all_done"))
        gone = at(board, "p")
        gone.state = gone.stored_state = TaskState.REMOVED

        again = reread(board)

        assert seen(again)["m"] == "none"

    def test_an_early_rule_over_several_producers_may_pass_too_soon(self) -> None:
        board = begun(task("p"), task("q"), mapped("m", "p", "q", inputs=over("p", "q"), trigger_rule="one_success"))

        finish(board, "p", value=2)

        assert seen(board)["m"] == "upstream_failed"

    def test_a_producer_that_expanded_to_nothing_skips_its_reader(self) -> None:
        board = begun(
            mapped("m", inputs=over(0)), mapped("c", "m", inputs=over("m"), trigger_rule="all_done"), task("end", "c")
        )

        assert seen(board) == {"m": "skipped", "c": "skipped", "end": "skipped"}


class TestGroups:
    """Section 26.7."""

    def test_inside_a_group_an_index_depends_on_its_own_index_only(self) -> None:
        board = begin(in_a_mapped_group(2, task("a"), task("b", "a"), outside=(task("c", "b"),)))

        finish(board, "a[0]")
        assert seen(board) == {"a[0]": "success", "a[1]": "scheduled", "b[0]": "scheduled", "b[1]": "none", "c": "none"}
        finish(board, "b[0]")  # depth first
        finish(board, "a[1]", ending=FAILED)

        assert seen(board) == {
            "a[0]": "success", "a[1]": "failed", "b[0]": "success", "b[1]": "upstream_failed", "c": "upstream_failed",
        }  # fmt: skip

    def test_the_reason_of_an_index_counts_what_it_depends_on(self) -> None:
        board = begin(in_a_mapped_group(3, task("a"), task("b", "a", "x"), outside=(task("x"),)))

        finish(board, "x", "a[0]")
        finish(board, "a[1]", ending=Outcome.FAILED)

        assert at(board, "b[1]").reason == "1 of 2 upstreams succeeded (all_success); 1 failed"

    def test_a_group_over_a_return_value_expands_as_soon_as_it_is_known(self) -> None:
        board = begin(
            in_a_mapped_group(over("p"), task("a", "p"), task("b", "a"), task("x", "b"), outside=(task("p"),))
        )
        assert set(seen(board)) == {"p", "a", "b", "x"}

        finish(board, "p", value=2)
        assert [name for name in seen(board) if name[0] != "p"] == ["a[0]", "a[1]", "b[0]", "b[1]", "x[0]", "x[1]"]
        finish(board, "a[1]")
        finish(board, "b[1]")

        assert seen(board) == {
            "p": "success", "a[0]": "scheduled", "a[1]": "success", "b[0]": "none", "b[1]": "success",
            "x[0]": "none", "x[1]": "scheduled",
        }  # fmt: skip

    @pytest.mark.parametrize("rebuilt", [False, True])
    @pytest.mark.parametrize("ending", [FAILED, SkipDecision(followed=())])
    def test_indexes_that_are_added_do_not_depend_on_how_the_others_end(
        self, ending: Outcome | SkipDecision, rebuilt: bool
    ) -> None:
        board = begin(
            in_a_mapped_group(over("p"), task("a", "p"), task("b", "a"), task("x", "b"), outside=(task("p"),))
        )
        finish(board, "p", value=1)
        finish(board, "a[0]", ending=ending)
        clear(board, "p", "a[0]", "b[0]", "x[0]")
        if rebuilt:
            board = reread(board, [("p", 1)])

        finish(board, "p", value=2)
        finish(board, "a[0]", ending=ending)
        finish(board, "a[1]")
        finish(board, "b[1]")
        finish(board, "x[1]")

        assert [seen(board)[name] for name in ("a[1]", "b[1]", "x[1]")] == ["success"] * 3
        assert {seen(board)[name] for name in ("b[0]", "x[0]")} <= {"upstream_failed", "skipped"}

    @pytest.mark.parametrize("value", [0, None])
    def test_a_group_that_cannot_be_expanded_ends_with_all_its_tasks(self, value: int | None) -> None:
        board = begin(in_a_mapped_group(over("p"), task("a", "p"), task("b", "a"), outside=(task("p"),)))

        finish(board, "p", value=value)

        ended = "skipped" if value == 0 else "upstream_failed"
        assert seen(board) == {"p": "success", "a": ended, "b": ended}

    def test_a_group_whose_producer_fails_fails_with_all_its_tasks(self) -> None:
        inside = (task("a", "p", trigger_rule="all_done"), task("b", "a", trigger_rule="all_done"))
        board = begin(in_a_mapped_group(over("p"), *inside, outside=(task("p"),)))

        finish(board, "p", ending=FAILED)

        assert seen(board) == {"p": "failed", "a": "upstream_failed", "b": "upstream_failed"}

    @pytest.mark.parametrize("rule", ["one_success", "one_done", "none_failed_min_one_success"])
    def test_an_unexpanded_task_with_an_early_rule_looks_at_all_instances(self, rule: str) -> None:
        inside = (task("a", "p"), task("b", "a", trigger_rule=rule))
        board = begin(in_a_mapped_group(over("p"), *inside, outside=(task("p"),)))

        finish(board, "p", value=2)
        assert seen(board)["b"] == "none"
        finish(board, "a[0]")
        if rule == "none_failed_min_one_success":
            assert seen(board)["b"] == "none"
            finish(board, "a[1]")

        assert seen(board)["b[0]"] == "scheduled"
        assert seen(board)["b[1]"] == ("scheduled" if rule == "none_failed_min_one_success" else "none")

    def test_a_task_mapped_over_a_groups_output_depends_on_all_its_instances(self) -> None:
        consumer = mapped("c", "b", inputs=over("b"))
        board = begin(in_a_mapped_group(2, task("a"), task("b", "a"), outside=(consumer,)))

        finish(board, "a[0]", "a[1]")
        finish(board, "b[0]", value='"x"')
        assert seen(board)["c"] == "none"
        finish(board, "b[1]", value='"y"')

        assert (seen(board)["c[0]"], seen(board)["c[1]"]) == ("scheduled", "scheduled")

    def test_a_branch_in_a_group_decides_for_its_own_index(self) -> None:
        inside = (task("branch"), task("a", "branch"), task("b", "branch"))
        board = begin(in_a_mapped_group(2, *inside))

        finish(board, "branch[0]", ending=SkipDecision(followed=("a",)))
        finish(board, "branch[1]", ending=SkipDecision(followed=("b",)))

        assert {n: s for n, s in seen(board).items() if n[0] in "ab" and n[1] == "["} == {
            "a[0]": "scheduled", "a[1]": "skipped", "b[0]": "skipped", "b[1]": "scheduled",
        }  # fmt: skip

    def test_setups_and_teardowns_in_a_group_stay_within_their_index(self) -> None:
        inside = (setup("s"), task("w", "s"), task("v", "w"), teardown("t", "s", "v"))
        board = begin(in_a_mapped_group(2, *inside))

        finish(board, "s[0]")
        finish(board, "s[1]", ending=FAILED)
        finish(board, "w[0]")
        finish(board, "v[0]")

        assert seen(board) == {
            "s[0]": "success", "w[0]": "success", "v[0]": "success", "t[0]": "scheduled",
            "s[1]": "failed", "w[1]": "upstream_failed", "v[1]": "upstream_failed", "t[1]": "upstream_failed",
        }  # fmt: skip

    def test_with_different_lengths_instances_meet_under_the_index_of_their_common_group(self) -> None:
        tasks = (
            task("a", group_id="g"),
            task("b", "a", group_id="g.h"),
            task("c", "b", group_id="g"),
        )
        groups = (
            GroupSpec(group_id="g", mapping=over(2)),
            GroupSpec(group_id="g.h", parent_id="g", mapping=over(3)),
        )
        board = begin(Graph(DagSpec(dag_id="sales", tasks=tasks, groups=groups)))
        assert sum(name.startswith("b[") for name in seen(board)) == 6

        finish(board, "a[1]")
        assert [n for n, s in seen(board).items() if n[0] == "b" and s == "scheduled"] == ["b[3]", "b[4]", "b[5]"]
        finish(board, "b[3]", "b[4]")
        assert seen(board)["c[1]"] == "none"
        finish(board, "b[5]")

        assert (seen(board)["c[0]"], seen(board)["c[1]"]) == ("none", "scheduled")

    def test_an_inner_length_that_a_task_returns_is_scaled_too(self) -> None:
        tasks = (
            task("p"),
            task("a", "p", group_id="g"),
            task("b", "a", "p", group_id="g.h"),
            task("c", "b", group_id="g"),
        )
        groups = (
            GroupSpec(group_id="g", mapping=over(2)),
            GroupSpec(group_id="g.h", parent_id="g", mapping=over("p")),
        )
        board = begin(Graph(DagSpec(dag_id="sales", tasks=tasks, groups=groups)))

        finish(board, "p", value=2)
        finish(board, "a[1]")
        assert [n for n, s in seen(board).items() if n[0] == "b" and s == "scheduled"] == ["b[2]", "b[3]"]
        board = reread(board, [("p", 2)])
        finish(board, "b[2]", "b[3]")

        assert (seen(board)["c[0]"], seen(board)["c[1]"]) == ("none", "scheduled")

    @pytest.mark.parametrize("inner", [2, "q"])
    @pytest.mark.parametrize("rerun", [("p",), ("q",), ("p", "q")])
    def test_nested_instances_wait_for_their_own_index_while_lengths_are_unknown(
        self, inner: int | str, rerun: tuple[str, ...]
    ) -> None:
        """A board that is read again while what the groups are mapped over runs again, and has no value."""
        board = begin(_nested(inner))
        finish(board, "p", "q", value=2)
        finish(board, "a[0]", ending=FAILED)
        finish(board, "a[1]")
        clear(board, *rerun, "a[1]", "b[2]", "b[3]")

        board = reread(board, [(name, 2) for name in ("p", "q") if name not in rerun])

        waiting = dict.fromkeys(("b[2]", "b[3]", "c[1]"), "none")
        failed = dict.fromkeys(("b[0]", "b[1]", "c[0]"), "upstream_failed")
        assert {name: state for name, state in seen(board).items() if name[0] in "bc"} == waiting | failed
        finish(board, *rerun, value=2)
        if "p" not in rerun:
            assert (seen(board)["b[2]"], seen(board)["b[3]"]) == ("none", "none")
        finish(board, "a[1]")
        finish(board, "b[2]")
        assert (seen(board)["b[3]"], seen(board)["c[1]"]) == ("scheduled", "none")
        finish(board, "b[3]")

        assert (seen(board)["c[0]"], seen(board)["c[1]"]) == ("upstream_failed", "scheduled")


class TestSize:
    @pytest.mark.slow
    @pytest.mark.parametrize("shape", ["task", "group", "group with an early rule", "chain of tasks"])
    def test_ten_thousand_instances_expand_and_finish(self, shape: str) -> None:
        board = _expand_and_finish(shape, 10_000)

        assert board.run.state is RunState.SUCCESS
        assert len(seen(board)) == 20_002
        few, many = (lines_of(lambda number=number: _expand_and_finish(shape, number)) for number in (100, 400))
        assert many < 4.5 * few


def _expand_and_finish(shape: str, number: int) -> Board:
    rule = "one_success" if "early" in shape else "all_success"
    if "group" in shape:
        inside: tuple[TaskSpec, ...] = (task("a", "p"), task("b", "a", trigger_rule=rule))
        board = begin(in_a_mapped_group(over("p"), *inside, outside=(task("p"), task("c", "b"))))
    else:
        second = mapped("b", "a", inputs=over("p"), trigger_rule="one_success" if "chain" in shape else rule)
        board = begun(task("p"), mapped("a", "p", inputs=over("p")), second, task("c", "b"))
    finish(board, "p", value=number)
    _finish_all(board)
    return board


def _nested(inner: int | str) -> Graph:
    """A group in a group; as authors write them, only the first tasks of a group are behind what it is mapped over."""
    before = ("a",) if isinstance(inner, int) else ("a", inner)
    tasks = (
        task("p"),
        task("q"),
        task("a", "p", group_id="g"),
        task("b", *before, group_id="g.h"),
        task("c", "b", group_id="g"),
    )
    groups = (
        GroupSpec(group_id="g", mapping=over("p")),
        GroupSpec(group_id="g.h", parent_id="g", mapping=over(inner)),
    )
    return Graph(DagSpec(dag_id="sales", tasks=tasks, groups=groups))


def _finish_all(board: Board) -> None:
    """Everything that is ready ends, in turn, each with a look at what follows."""
    while board.effects.slots.ready:
        ready, board.effects.slots.ready = board.effects.slots.ready, []
        for instance in ready:
            board.grant(instance, NOW, 1)
        for instance in ready:
            finish(board, _name(board, instance.task, instance.map_index))


def _name(board: Board, task: int, index: int) -> str:
    return board.graph.task_ids[task] + (f"[{index}]" if index >= 0 else "")
