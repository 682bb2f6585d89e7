"""Which DAG files run here, and what others need first. docs/migration.md."""

from __future__ import annotations

import pytest

from aiosched.migration.files import Readiness, judge_file
from aiosched.parsing.result import FileError, ParsedFile


@pytest.mark.parametrize(
    ("message", "verdict", "remedy"),
    [
        ("No module named 'airflow.providers.amazon'", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-amazon"),
        ("No module named 'airflow.providers.cncf.kubernetes.operators'", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-cncf-kubernetes"),
        ("airflow.contrib.hooks.ssh_hook is in apache-airflow-providers-ssh: install it", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-ssh"),
        ("No module named 'pandas.core'", Readiness.PACKAGE, "pip install pandas"),
        ("No module named 'airflow.www'", Readiness.FAILS, None),
        ("invalid syntax", Readiness.FAILS, None),
    ],
)  # fmt: skip
def test_an_error_is_a_missing_provider_a_missing_package_or_final(
    message: str, verdict: Readiness, remedy: str | None
) -> None:
    parsed = ParsedFile(name="a.py", digest="", seconds=0.1, error=FileError(type="X", message=message, line=3))

    found = judge_file(parsed)

    assert (found.verdict, found.remedy, found.details) == (verdict, remedy, (f"line 3: {message}",))


def test_a_file_runs_with_or_without_warnings() -> None:
    parsed = ParsedFile(name="a.py", digest="", seconds=0.1)

    assert judge_file(parsed).verdict is Readiness.RUNS
    warned = ParsedFile(name="a.py", digest="", seconds=0.1, warnings=("email_on_failure has no effect",))
    assert judge_file(warned).details == ("email_on_failure has no effect",)
    assert judge_file(warned).verdict is Readiness.WARNING
