"""Which DAG files run here, and what others need first. docs/migration.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiosched.migration.files import FileVerdict, Readiness, judge_file, provider_of
from aiosched.migration.missing import ProjectModules, public_package
from aiosched.parsing.result import FileError, ParsedFile
from tests.parsing.builders import write

BEFORE = "${PYTHONPATH:+:$PYTHONPATH}"


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    """The DAGs folder of a project with modules of its own in many places."""
    for name in (
        "etl/dags/sub/inner.py", "etl/lib/acme_ops/__init__.py", "etl/lib/acme_ops/sensors.py",
        "etl/src/acme/deep/a.py", "etl/config/google/notes.txt",
        "etl/node_modules/hidden_one.py", "etl/plugins/json/shadowed.py",
    ):  # fmt: skip
        write(tmp_path, name, "")
    write(tmp_path, "etl/requirements.txt", "pandas==2.0\nacme-internal>=1\nacme.dotted\n# acme-comment\n")
    return tmp_path / "etl" / "dags"


def judged(message: str, dags: Path) -> FileVerdict:
    parsed = ParsedFile(name="a.py", digest="", seconds=0.1, error=FileError(type="X", message=message, line=3))
    return judge_file(parsed, ProjectModules(dags))


@pytest.mark.parametrize(
    ("message", "verdict", "remedy"),
    [
        ("No module named 'airflow.providers.amazon'", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-amazon"),
        ("No module named 'airflow.providers.cncf.kubernetes.operators'", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-cncf-kubernetes"),
        ("airflow.contrib.hooks.ssh_hook is in apache-airflow-providers-ssh: install it", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-ssh"),
        ("No module named 'airflow.providers.facebook.ads'", Readiness.PROVIDER,
         "aiosched providers install apache-airflow-providers-facebook"),
        ("No module named 'pandas.core'", Readiness.PACKAGE, "pip install pandas"),
        ("No module named 'yaml'", Readiness.PACKAGE, "pip install PyYAML"),
        ("No module named 'google.cloud.bigquery.enums'", Readiness.PACKAGE, "pip install google-cloud-bigquery"),
        ("No module named 'cosmos'", Readiness.PACKAGE, "aiosched providers install astronomer-cosmos"),
        ("No module named 'dagfactory'", Readiness.PACKAGE, "aiosched providers install dag-factory"),
        ("No module named 'airflow.www'", Readiness.FAILS, None),
        ("No module named 'urllib2'", Readiness.FAILS, None),
        ("cannot import name 'batched' from 'itertools' (unknown location)", Readiness.PYTHON, None),
        ("cannot import name 'UTC_2' from 'datetime' (/usr/lib/python3/datetime.py)", Readiness.PYTHON, None),
        ("No module named 'compression.zstd'", Readiness.PYTHON, None),
        ("cannot import name 'x' from 'etl' (/srv/etl.py)", Readiness.FAILS, None),
        ("There is no variable 'PGHOST' here, because no database is used here. Set …", Readiness.VALUE, None),
        ("There is no connection 'a b'. Set …", Readiness.VALUE, None),
        ("invalid syntax", Readiness.FAILS, None),
    ],
)  # fmt: skip
def test_an_error_is_a_missing_provider_a_missing_package_or_final(
    dags: Path, message: str, verdict: Readiness, remedy: str | None
) -> None:
    found = judged(message, dags)

    assert (found.verdict, found.remedy, found.details[0]) == (verdict, remedy, f"line 3: {message}")


@pytest.mark.parametrize(
    ("module", "where"),
    [("acme_ops", "lib"), ("acme_ops.sensors", "lib"), ("acme.deep.a", "src"), ("inner", "dags/sub")],
)
def test_a_module_of_the_project_is_found_wherever_it_is(dags: Path, module: str, where: str) -> None:
    found = judged(f"No module named {module!r}", dags)

    assert found.verdict is Readiness.MODULE
    assert found.remedy == f"export PYTHONPATH={dags.parent / where}" + BEFORE


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("No module named 'acme_ops.hooks'", "acme_ops of this project (lib/acme_ops) has no acme_ops.hooks."),
        ("No module named 'hidden_one'", "neither in this project nor a public package"),
        ("No module named 'acme_internal.x'", "requirements.txt names it: install it from where you get it"),
        ("No module named 'acme_dotted'", "requirements.txt names it"),
        ("No module named 'acme_comment'", "neither in this project"),
        ("No module named 'google.ours'", "Decide where google comes from"),
        ("No module named 'json.shadowed'", "is in plugins/json/shadowed, but another json is found before it"),
        ("No module named 'airflow.providers.acme.hooks'", "No module named"),
        ("Install apache-airflow-providers-acme to use it", "Install"),
        ("No module named 'requestss'", "Decide where requestss comes from"),
    ],
)
def test_nothing_is_installed_that_is_not_known_to_be_public(dags: Path, message: str, said: str) -> None:
    found = judged(message, dags)

    assert found.remedy is None
    assert found.verdict in (Readiness.MODULE, Readiness.FAILS)
    assert said in found.details[-1]
    assert not any("pip install" in line or "providers install" in line for line in found.details)


@pytest.mark.parametrize(
    ("message", "code", "remedy"),
    [
        (
            "No module named 'snowflake'",
            "  > 3 | from snowflake.connector import connect",
            "snowflake-connector-python",
        ),
        ("No module named 'google'", "    | import google.cloud.storage as gcs", "google-cloud-storage"),
        ("cannot import name 'storage' from 'google.cloud' (unknown location)", "", "google-cloud-storage"),
        ("No module named 'snowflake'", "  > 3 | import snowflake.ours", None),
        ("cannot import name 'x' from 'acme' (unknown location)", "", None),
    ],
)
def test_a_package_of_a_namespace_is_known_by_the_whole_name(
    dags: Path, message: str, code: str, remedy: str | None
) -> None:
    error = FileError(type="ImportError", message=message, code_frame=f"    2 | import os\n{code}\n")

    found = judge_file(ParsedFile(name="a.py", digest="", seconds=0.1, error=error), ProjectModules(dags))

    assert found.remedy == (remedy and f"pip install {remedy}")


def test_a_library_that_the_project_requires_is_not_looked_for_in_its_files(dags: Path) -> None:
    write(dags.parent, "notebooks/pandas.py", "")
    write(dags.parent, "notebooks/requests.py", "")

    assert judged("No module named 'pandas'", dags).remedy == "pip install pandas"
    assert (
        judged("No module named 'requests'", dags).remedy == f"export PYTHONPATH={dags.parent / 'notebooks'}" + BEFORE
    )


def test_names_of_packages_are_names() -> None:
    table = Path(__file__).parents[2] / "aiosched/migration/public_packages.tsv"
    header, *rows = [line.split("\t") for line in table.read_text().splitlines()]

    assert header == ["module", "package"]
    assert rows == sorted(rows)
    assert [row for row in rows if not all(re.fullmatch(r"[A-Za-z0-9][\w.-]*", cell) for cell in row)] == []
    assert public_package("google.cloud") is None
    assert provider_of("airflow.providers.apache is a folder") is None


def test_a_file_runs_with_or_without_warnings(tmp_path: Path) -> None:
    parsed = ParsedFile(name="a.py", digest="", seconds=0.1)
    modules = ProjectModules(tmp_path)

    assert judge_file(parsed, modules).verdict is Readiness.RUNS
    warned = ParsedFile(name="a.py", digest="", seconds=0.1, warnings=("email_on_failure has no effect",))
    assert judge_file(warned, modules).details == ("email_on_failure has no effect",)
    assert judge_file(warned, modules).verdict is Readiness.WARNING
