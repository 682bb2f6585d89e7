"""What a DAG file makes of its DAGs. Source: the semantics reference, sections 30.4 and 31.1.

What becomes of the rows (stale, broken, good again, gone, twice, unknown pools) is in
tests/parsing/test_parsing_store.py, files that hang or crash are in tests/parsing/test_hostile_files.py. An unknown
executor is a warning here (docs/semantics.md), and of two files with one DAG id the first keeps it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiosched import DAG, BashOperator, EmptyOperator, PythonOperator
from aiosched.core.graph.spec import encode_spec
from aiosched.parsing.check import check_paths
from tests.parsing.builders import settings_for, write

HEADER = "from aiosched import DAG, EmptyOperator, Param\n"
GOOD = HEADER + "with DAG('good', schedule=None, catchup=False):\n    EmptyOperator(task_id='t')\n"
FILES = {
    "good.py": (GOOD, None),
    "no_tasks.py": (HEADER + "empty = DAG('no_tasks', schedule=None, catchup=False)\n", None),
    "unknown_executor.py": (GOOD.replace("'t'", "'t', executor='x'").replace("'good'", "'other'"), None),
    "raises.py": (HEADER + "raise ValueError('at import')\n", "at import"),
    "bad_cron.py": (GOOD.replace("None", "'61 * * * *'"), "minute field"),
    "bad_params.py": (
        GOOD.replace("None, catchup=False", "'@daily', catchup=False, params={'p': Param('x', type='integer')}"),
        "'p'",
    ),
    "not_json.py": (GOOD.replace("catchup=False", "catchup=False, params={'p': object()}"), "'p'"),
    "twice.py": (GOOD + "    EmptyOperator(task_id='t')\n", "'t'"),
    "cycle.py": (GOOD + "    a = EmptyOperator(task_id='a')\n    a >> EmptyOperator(task_id='b') >> a\n", "a.*b|b.*a"),
    "unknown_pool.py": (GOOD.replace("'t'", "'t', pool='nobodys'").replace("'good'", "'pooled'"), None),
}


async def test_a_file_gives_its_dags_or_one_import_error(tmp_path: Path) -> None:
    for name, (source, _) in FILES.items():
        write(tmp_path, name, source)

    outcomes = {outcome.name: outcome for outcome in await check_paths([], settings_for(tmp_path))}

    assert outcomes.keys() == FILES.keys()
    for name, (_, message) in FILES.items():
        found = outcomes[name]
        assert len(found.dags) == (message is None), name
        assert (found.error is None) is (message is None), (name, found.error)
        if message is not None and found.error is not None:
            with pytest.raises(ValueError, match=message):  # the same words
                raise ValueError(found.error.message)


def test_a_stored_dag_holds_no_code_and_only_says_which_callbacks_there_are() -> None:
    """Section 31.1."""

    def secret_function_name() -> None: ...

    def secret_callback_name(context: object) -> None: ...

    with DAG("d", schedule="@daily", catchup=False, on_failure_callback=secret_callback_name, tags={"b", "a"}) as dag:
        first = PythonOperator(
            task_id="first",
            python_callable=secret_function_name,
            on_failure_callback=secret_callback_name,
            retries=2,
            pool="etl",
            priority_weight=7,
        )
        first >> BashOperator(task_id="second", bash_command="echo {{ ds }}") >> EmptyOperator(task_id="third")

    text = encode_spec(dag.to_spec()).decode()

    assert "secret_callback_name" not in text
    assert "<function" not in text
    assert " at 0x" not in text
    spec = json.loads(text)
    assert spec["has_failure_callback"]
    assert spec["tags"] == ["a", "b"]
    one, two, three = spec["tasks"]
    assert (one["retries"], one["pool"], one["priority_weight"], one["has_failure_callback"]) == (2, "etl", 7, True)
    assert two["upstream"] == ["first"]
    assert "echo {{ ds }}" in json.dumps(two)
    assert three["is_empty"]
