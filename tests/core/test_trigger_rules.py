"""The truth table of trigger rules: its worked examples, an oracle, and its finer points.

Source: the semantics reference, sections 5.2 (rules, aliases) and 5.3 (worked examples), 8.3 and 8.4 for setups.
Their counts: tests/semantics/test_trigger_rule_counts.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.trigger_rules import StateCounts, TriggerRule, TriggerVerdict, explain, judge, judge_setups
from aiosched.core.values.states import TaskState
from aiosched.errors import DagError
from tests.core.trigger_rule_oracle import PLAIN, expected

R = TriggerRule
SETUPS = tuple(f"setup:{state}" for state in PLAIN)


def counted(upstreams: Sequence[str]) -> tuple[StateCounts, int, int]:
    """Counts, total and total of setups for upstreams named as in the oracle."""
    counts = StateCounts()
    for name in upstreams:
        state = name.removeprefix("setup:")
        if state != "waiting":
            counts.add(TaskState(state), is_setup=name.startswith("setup:"))
    return counts, len(upstreams), sum(name.startswith("setup:") for name in upstreams)


def word(verdict: TriggerVerdict) -> str:
    return str(verdict.state or verdict.value)


COLUMNS = (
    "all_success all_failed all_done one_success one_failed one_done none_failed nf_min_one none_skipped all_skipped"
)
WORKED_EXAMPLES = """
S S  | run   skip run  run   skip run  run   run   run  skip
S K  | skip  skip run  run   skip run  run   run   skip skip
K K  | skip  skip run  skip  skip skip run   skip  skip run
S F  | ufail skip run  run   run  run  ufail ufail run  skip
F K  | ufail skip run  ufail run  run  ufail ufail skip skip
F F  | ufail run  run  ufail run  run  ufail ufail run  skip
UF UF| ufail run  run  ufail run  skip ufail ufail run  skip
S -  | wait  skip wait run   wait run  wait  wait  wait skip
K -  | skip  skip wait wait  wait wait wait  wait  skip wait
F -  | ufail wait wait wait  run  run  ufail ufail wait skip
"""


def worked_examples() -> Iterator[tuple[str, str, str]]:
    for line in WORKED_EXAMPLES.strip().splitlines():
        states, _, cells = line.partition("|")
        yield from ((states.strip(), rule, cell) for rule, cell in zip(COLUMNS.split(), cells.split(), strict=True))


@pytest.mark.parametrize(("states", "rule", "cell"), list(worked_examples()))
def test_the_worked_examples_of_the_reference_hold(states: str, rule: str, cell: str) -> None:
    """Section 5.3."""
    names = {"S": "success", "K": "skipped", "F": "failed", "UF": "upstream_failed", "-": "waiting"}
    words = {"skip": "skipped", "ufail": "upstream_failed"}
    upstreams = [names[letter] for letter in states.split()]
    full_name = {"nf_min_one": "none_failed_min_one_success"}.get(rule, rule)
    counts, total, setups = counted(upstreams)

    verdict = word(judge(R(full_name), counts, total, setups))

    assert verdict == words.get(cell, cell)
    assert verdict == expected(full_name, upstreams), "the oracle disagrees with the reference"


@pytest.mark.parametrize("rule", list(R))
def test_every_combination_of_up_to_four_upstreams_agrees_with_the_oracle(rule: TriggerRule) -> None:
    """Section 5.2, every row: the oracle is the table in words."""
    for size in range(5):
        for upstreams in itertools.combinations_with_replacement(PLAIN, size):
            counts, total, setups = counted(upstreams)

            assert word(judge(rule, counts, total, setups)) == expected(rule, upstreams), upstreams


def test_every_combination_of_setups_and_others_before_a_teardown_agrees_with_the_oracle() -> None:
    rule = R.ALL_DONE_SETUP_SUCCESS
    for size in range(1, 5):
        for upstreams in itertools.combinations_with_replacement(PLAIN + SETUPS, size):
            counts, total, setups = counted(upstreams)

            assert word(judge(rule, counts, total, setups)) == expected(rule, upstreams), upstreams


@given(st.sampled_from(list(R)), st.lists(st.sampled_from(PLAIN + SETUPS), max_size=12))
def test_larger_combinations_agree_with_the_oracle(rule: TriggerRule, upstreams: list[str]) -> None:
    counts, total, setups = counted(upstreams)

    assert word(judge(rule, counts, total, setups)) == expected(rule, upstreams)


@given(st.sampled_from(list(R)), st.lists(st.sampled_from(PLAIN[:-1]), min_size=1, max_size=6))
def test_a_task_whose_upstreams_are_all_done_waits_only_for_skips_of_what_was_removed(
    rule: TriggerRule, upstreams: list[str]
) -> None:
    removed_only_stands_in_the_way = "removed" in upstreams and set(upstreams) <= {"removed", "skipped"}

    waits = judge(rule, *counted(upstreams)) is TriggerVerdict.WAIT

    assert waits == (rule is R.ALL_SKIPPED and removed_only_stands_in_the_way)


def test_each_verdict_is_given_by_some_rule() -> None:
    upstreams = [(one, other) for one in PLAIN for other in PLAIN]

    assert {judge(rule, *counted(each)) for rule in R for each in upstreams} == set(TriggerVerdict)


@pytest.mark.parametrize("rule", list(R))
def test_a_task_without_upstreams_runs(rule: TriggerRule) -> None:
    assert judge(rule, StateCounts(), 0) is TriggerVerdict.RUN


@pytest.mark.parametrize("rule", [R.ALL_DONE, R.ALWAYS])
@given(upstreams=st.lists(st.sampled_from(PLAIN)))
def test_all_done_and_always_settle_nothing(rule: TriggerRule, upstreams: list[str]) -> None:
    assert not judge(rule, *counted(upstreams)).settles


@pytest.mark.parametrize(
    ("rule", "upstream"), [(R.ONE_SUCCESS, "success"), (R.ONE_FAILED, "failed"), (R.ONE_DONE, "success")]
)
def test_the_rules_that_ask_for_one_fire_before_the_others_are_done(rule: TriggerRule, upstream: str) -> None:
    assert judge(rule, *counted([upstream, "waiting", "waiting"])) is TriggerVerdict.RUN


def test_the_result_of_all_success_depends_on_what_is_seen_first() -> None:
    seen_at_once = judge(R.ALL_SUCCESS, *counted(["failed", "skipped"]))
    skip_seen_first = judge(R.ALL_SUCCESS, *counted(["waiting", "skipped"]))

    assert seen_at_once is TriggerVerdict.UPSTREAM_FAILED
    assert skip_seen_first is TriggerVerdict.SKIPPED


def test_a_sole_removed_upstream_fails_one_success() -> None:
    assert judge(R.ONE_SUCCESS, *counted(["removed"])) is TriggerVerdict.UPSTREAM_FAILED


@pytest.mark.parametrize(
    ("setups", "verdict"),
    [
        ([], TriggerVerdict.RUN),
        (["success", "success"], TriggerVerdict.RUN),
        (["success", "waiting"], TriggerVerdict.WAIT),
        (["skipped", "waiting"], TriggerVerdict.SKIPPED),
        (["failed", "skipped"], TriggerVerdict.UPSTREAM_FAILED),
        (["upstream_failed", "waiting"], TriggerVerdict.UPSTREAM_FAILED),
    ],
)
def test_setups_further_up_settle_a_task_at_once(setups: list[str], verdict: TriggerVerdict) -> None:
    counts, total, _ = counted(setups)

    assert judge_setups(counts, total) is verdict


@given(st.lists(st.tuples(st.sampled_from(list(TaskState)), st.booleans())))
def test_counting_an_upstream_and_taking_it_back_changes_nothing(upstreams: list[tuple[TaskState, bool]]) -> None:
    counts = StateCounts(success=1, failed=2)
    for state, is_setup in upstreams:
        counts.add(state, is_setup=is_setup)
    finished = sum(state in {"success", "skipped", "failed", "upstream_failed", "removed"} for state, _ in upstreams)

    assert counts.done == 3 + finished

    for state, is_setup in upstreams:
        counts.add(state, is_setup=is_setup, by=-1)

    assert counts == StateCounts(success=1, failed=2)


def test_counts_show_what_is_not_zero() -> None:
    assert repr(StateCounts(success=2, skipped=1)) == "Counts(done=3, skipped=1, success=2)"
    assert StateCounts() != "nothing"


@pytest.mark.parametrize(
    ("name", "rule"),
    [("none_failed_or_skipped", R.NONE_FAILED_MIN_ONE_SUCCESS), ("dummy", R.ALWAYS), ("all_done", R.ALL_DONE)],
)
def test_old_names_of_rules_are_understood(name: str, rule: TriggerRule) -> None:
    assert R.parse(name) is rule


def test_an_unknown_rule_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(DagError, match=r"There is no trigger rule 'all_sucess'; did you mean all_success\?"):
        R.parse("all_sucess")
    with pytest.raises(DagError, match="choose one of all_success, all_failed"):
        R.parse("xyz")


@pytest.mark.parametrize(
    ("rule", "upstreams", "text"),
    [
        (R.ALL_SUCCESS, ["success", "success", "waiting"], "2 of 3 upstreams succeeded (all_success)"),
        (R.ALL_SUCCESS, ["success"], "1 of 1 upstream succeeded (all_success)"),
        (R.ALL_SUCCESS, ["failed", "success"], "1 of 2 upstreams succeeded (all_success); 1 failed"),
        (R.ONE_SUCCESS, ["skipped", "waiting"], "0 of 2 upstreams succeeded (one_success); 1 skipped"),
        (R.ONE_FAILED, ["upstream_failed"], "1 of 1 upstream failed or upstream-failed (one_failed)"),
        (R.ALL_DONE, ["removed", "waiting"], "1 of 2 upstreams done (all_done); 1 removed"),
        (
            R.NONE_FAILED_MIN_ONE_SUCCESS,
            ["skipped"],
            "1 of 1 upstream succeeded or skipped (none_failed_min_one_success); none succeeded",
        ),
        (
            R.NONE_FAILED_MIN_ONE_SUCCESS,
            ["skipped", "success"],
            "2 of 2 upstreams succeeded or skipped (none_failed_min_one_success)",
        ),
        (
            R.ALL_DONE_MIN_ONE_SUCCESS,
            ["failed", "failed"],
            "2 of 2 upstreams done (all_done_min_one_success); none succeeded, 2 failed",
        ),
        (
            R.ALL_DONE_SETUP_SUCCESS,
            ["setup:skipped", "success"],
            "2 of 2 upstreams done (all_done_setup_success); no setup succeeded, 1 skipped",
        ),
        (R.ALL_DONE_SETUP_SUCCESS, ["setup:success", "success"], "2 of 2 upstreams done (all_done_setup_success)"),
        (R.ALL_DONE_SETUP_SUCCESS, ["success"], "1 of 1 upstream done (all_done_setup_success)"),
        (R.ALWAYS, ["waiting"], "does not wait for upstreams (always)"),
        (R.ALL_SUCCESS, [], "no upstreams"),
    ],
)
def test_the_progress_is_told_in_one_line(rule: TriggerRule, upstreams: list[str], text: str) -> None:
    counts, total, setups = counted(upstreams)

    assert explain(rule, counts, total, setups) == text


@pytest.mark.parametrize("rule", list(R))
def test_every_rule_can_be_explained(rule: TriggerRule) -> None:
    assert rule.value in explain(rule, StateCounts(success=1), 2, 0)
