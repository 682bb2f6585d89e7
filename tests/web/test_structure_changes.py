"""The differences of two versions in words, and the page of a commit."""

from __future__ import annotations

import pytest

from aiosched.core.graph.spec import DagSpec, GroupSpec, ParamSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.web.views.commit_links import commit_link
from aiosched.web.views.structure_changes import MOST, structure_changes

SHA = "0123456789abcdef0123456789abcdef01234567"


def spec(*tasks: TaskSpec, **more: object) -> DagSpec:
    return DagSpec(dag_id="d", tasks=tasks, **more)  # type: ignore[arg-type]


def words(one: DagSpec, two: DagSpec) -> list[str]:
    return [f"{about}: {what}" for about, what in structure_changes(one, two)]


def test_tasks_edges_arguments_and_limits() -> None:
    extract, clean = TaskSpec(task_id="extract", operator="O"), TaskSpec(task_id="clean", operator="O")
    load = TaskSpec(task_id="load", operator="O", upstream=("clean",), template_fields={"sql": "SELECT 1", "x": 1})
    later = TaskSpec(
        task_id="load", operator="O", upstream=("extract",), retries=3, template_fields={"sql": "a\nb", "y": 2, "x": 1}
    )
    check = TaskSpec(task_id="check", operator="O", upstream=("load",))

    assert words(spec(extract, clean, load), spec(extract, later, check)) == [
        "task clean: removed",
        (
            "task load: now runs after extract; runs no longer after clean; retries 0 → 3; "
            "argument sql changed; argument y none → 2"
        ),
        "task check: added, after load",
    ]


def test_schedule_params_groups_and_the_dag() -> None:
    one = spec(params={"a": ParamSpec(value=1), "b": ParamSpec(value=1)}, timetable=parse_schedule("0 5 * * *"))
    two = spec(
        params={"b": ParamSpec(value="x", json_schema={"type": "string"}), "c": ParamSpec(required=True)},
        timetable=parse_schedule("0 6 * * *"),
        max_active_runs=1,
        tags=("gold", "sales"),
        groups=(GroupSpec(group_id="g"),),
    )

    assert words(one, two) == [
        "schedule: 0 5 * * * → 0 6 * * *",
        "DAG: most active runs 16 → 1",
        "DAG: tags none → gold, sales",
        "param a: removed",
        'param b: value 1 → x; json schema none → {"type":"string"}',
        "param c: added",
        "group g: added",
    ]
    assert words(two, two) == []


def test_so_many_and_no_more() -> None:
    found = words(spec(), spec(*(TaskSpec(task_id=f"t{number}", operator="O") for number in range(2_000))))

    assert (len(found), found[-1]) == (MOST + 1, ": and 1,800 more")


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://github.com/shop/dags.git", f"https://github.com/shop/dags/commit/{SHA}"),
        ("https://me@git.example.com:8443/a/b", f"https://git.example.com:8443/a/b/commit/{SHA}"),
        ("git@gitlab.example.com:a/b/c.git", f"https://gitlab.example.com/a/b/c/-/commit/{SHA}"),
        ("ssh://git@bitbucket.org:22/a/b.git", f"https://bitbucket.org/a/b/commits/{SHA}"),
        ("https://host/a b/<c>", f"https://host/a%20b/%3Cc%3E/commit/{SHA}"),
        ("/srv/git/dags", None),
        ("file:///srv/dags", None),
        ("javascript:alert(1)", None),
        ("https://host/../x", None),
        ("https://ho st/a", None),
        ("https://[bad/a", None),
        ("https://host:99999/a", None),
        (None, None),
    ],
)
def test_the_page_of_a_commit(url: str | None, page: str | None) -> None:
    assert commit_link(url, SHA) == page


@pytest.mark.parametrize("commit", [None, "main", SHA.upper(), SHA + "/..", SHA[:7]])
def test_only_a_commit_has_a_page(commit: str | None) -> None:
    assert commit_link("https://github.com/a/b", commit) is None
