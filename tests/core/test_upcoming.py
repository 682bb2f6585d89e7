"""Which DAG files are to be imported beforehand: the soonest, each once for each kind of worker, not too many."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.upcoming import NO_RUN, Expected, choose_upcoming
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.values.messages import RunInfo

TASKS = st.builds(
    lambda is_async, executor, user, is_empty: TaskSpec(
        operator="T", task_id="t", is_async=is_async, executor=executor, run_as_user=user, is_empty=is_empty
    ),
    st.booleans(), st.sampled_from([None, "local", "inline"]), st.sampled_from([None, None, "ann"]), st.booleans(),
)  # fmt: skip


def of(tasks: list[TaskSpec], file: str | None = "d.py", source: str = "h", version: str | None = None) -> Expected:
    run = RunInfo(
        key=NO_RUN, dag_id="d", run_id="", run_type="", run_after=datetime(2026, 1, 1, tzinfo=UTC),
        file=file, source_hash=source, bundle_version=version,
    )  # fmt: skip
    numbered = tuple(msgspec.structs.replace(task, task_id=f"t{number}") for number, task in enumerate(tasks))
    return Expected(DagSpec(dag_id="d", tasks=numbered), run)


EXPECTED = st.builds(
    of,
    st.lists(TASKS, max_size=3),
    st.sampled_from(["a.py", "b.py", "c.py", None]),
    st.sampled_from(["1", "2"]),
    st.sampled_from([None, "v"]),
)


@given(st.lists(EXPECTED, max_size=12), st.integers(0, 10))
def test_the_soonest_files_once_each_for_each_kind_of_worker(expected: list[Expected], most: int) -> None:
    chosen = choose_upcoming(expected, most)
    everything = choose_upcoming(expected, 1000)

    assert chosen == everything[:most]
    places = [(each.executor, each.is_async, each.run.file, each.run.code, each.run.source_hash) for each in everything]
    assert len(places) == len(set(places))
    order = [expected.index(next(one for one in expected if one.run is each.run)) for each in everything]
    assert order == sorted(order)
    needed = {
        (task.executor, task.is_async, one.run.file, one.run.code, one.run.source_hash)
        for one in expected
        for task in one.spec.tasks
        if one.run.file is not None and task.run_as_user is None and not task.is_empty
    }
    assert set(places) == needed


def test_dags_registered_in_the_process_and_tasks_of_other_users_need_nothing() -> None:
    plain = TaskSpec(operator="T", task_id="t")

    assert not choose_upcoming([of([plain], file=None), of([msgspec.structs.replace(plain, run_as_user="ann")])])
