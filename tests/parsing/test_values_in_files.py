"""DAG files that read variables and connections at their top level, with real children and a database.

Source: the semantics reference, sections 27 and 30.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiosched.backends.values import Value
from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.errors import DatabaseUnreachable, Refused
from aiosched.parsing import values
from aiosched.parsing.discovery import DagFile
from aiosched.parsing.pool import ParsingPool
from aiosched.parsing.result import ParsedFile
from aiosched.parsing.values import LookUp, NoDatabase, ValueServer
from aiosched.scratch import scratch_folder
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source, settings_for, write
from tests.parsing.kept_supervisors import KeptSupervisors
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("no_secrets")

OURS = "from aiosched import BaseHook, Connection, Variable\n"
AIRFLOWS = "from airflow.models import Connection, Variable\nfrom airflow.hooks.base import BaseHook\n"


@pytest.fixture(autouse=True)
def _kept_supervisors(supervisors: KeptSupervisors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ParsingPool", supervisors)


class Stored:
    """Variables and connections, and what was asked of them."""

    def __init__(self, **found: Any) -> None:
        self.found = found
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, kind: str, name: str, file: str) -> Value:
        self.asked.append((kind, name))
        return Value(self.found.get(name))


@contextlib.asynccontextmanager
async def pool_with(folder: Path, look_up: LookUp, *, patience: float = 30.0, **limits: float) -> AsyncIterator[Any]:
    """A function that parses the text of a file."""
    pool = ParsingPool(settings_for(folder, **limits), root=str(folder), values=ValueServer(look_up, patience=patience))

    async def parse(text: str) -> ParsedFile:
        path = write(folder, "d.py", text)
        return await pool.parse(DagFile(path.name, path, "digest", path.stat().st_mtime_ns))

    try:
        yield parse
    finally:
        await pool.close()


def ids(outcome: ParsedFile) -> list[str]:
    assert outcome.error is None, outcome.error
    return [dag.dag_id for dag in outcome.dags]


# ---- one file ----


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("imports", [OURS, AIRFLOWS])
async def test_a_file_reads_variables_and_connections_at_its_top(tmp_path: Path, imports: str) -> None:
    stored = Stored(region="eu", limits='{"cpu": 2}', sales={"conn_type": "postgres", "host": "db", "password": "pw12"})
    text = f"""{imports}
parts = [Variable.get("region"), str(Variable.get("limits", deserialize_json=True)["cpu"])]
parts += [Variable.get("no", "default")]
parts += [BaseHook.get_connection("sales").host, Connection.get("sales").password]
"""
    async with pool_with(tmp_path, stored) as parse:
        outcome = await parse(text + dag_source("x").replace("'x'", "'_'.join(parts)"))

    assert ids(outcome) == ["eu_2_default_db_pw12"]
    assert outcome.reads_values
    assert not outcome.unanswered
    assert stored.asked == [("variable", "region"), ("variable", "limits"), ("variable", "no"), ("connection", "sales")]


async def test_the_environment_goes_before_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_NAME", "from_environment")
    stored = Stored(name="from_database")

    async with pool_with(tmp_path, stored) as parse:
        outcome = await parse(OURS + dag_source("x").replace("'x'", "Variable.get('name')"))

    assert ids(outcome) == ["from_environment"]
    assert (stored.asked, outcome.reads_values) == ([], False)


async def test_a_missing_one_is_an_error_of_the_file_that_says_what_to_do(tmp_path: Path) -> None:
    async with pool_with(tmp_path, Stored()) as parse:
        variable = (await parse(f"{OURS}\nVariable.get('region')\n")).error
        connection = (await parse(f"{OURS}\nBaseHook.get_connection('sales')\n")).error

    assert variable is not None
    assert variable.line == 3
    assert variable.message == (
        "There is no variable 'region'. Set AIOSCHED_VAR_REGION in the environment, or store it: "
        "aiosched variables set region VALUE"
    )
    assert connection is not None
    assert "aiosched connections add sales --uri URI" in connection.message


@pytest.mark.slow
async def test_without_a_database_there_are_defaults_and_the_environment(tmp_path: Path) -> None:
    async def nothing(kind: str, name: str, file: str) -> Value:
        raise NoDatabase

    async with pool_with(tmp_path, nothing) as parse:
        with_default = await parse(OURS + dag_source("x").replace("'x'", "Variable.get('name', 'default')"))
        without = await parse(f"{OURS}\nVariable.get('region')\n")

    assert ids(with_default) == ["default"]
    assert without.error is not None
    assert "no database is used here. Set AIOSCHED_VAR_REGION" in without.error.message


async def test_a_value_that_no_key_decrypts_is_an_error_of_the_file(tmp_path: Path) -> None:
    async def refuse(kind: str, name: str, file: str) -> Value:
        raise Refused("No key fits.")

    async with pool_with(tmp_path, refuse) as parse:
        outcome = await parse(f"{OURS}\nVariable.get('region', 'default')\n")

    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message, outcome.unanswered) == ("Refused", "No key fits.", False)


LEAKS = """
import os, subprocess, sys
password = Connection.get("sales").password
print("printed", password)
os.write(1, b"written " + password.encode() + bytes([10]))
subprocess.run(["echo", "child", password], check=True)
"""


@pytest.mark.parametrize("end", ["raise ValueError('cannot log in with ' + password)", "os._exit(3)"])
async def test_secrets_are_masked_in_what_a_file_says_and_prints(tmp_path: Path, end: str) -> None:
    stored = Stored(sales={"conn_type": "postgres", "host": "db", "password": "hunter2"})

    async with pool_with(tmp_path, stored) as parse:
        error = (await parse(f"{OURS}{LEAKS}{end}\n")).error

    assert error is not None
    assert "hunter2" not in f"{error}"
    said = error.traceback or ""
    assert [words for words in ("printed ***", "written ***", "child ***") if words not in said] == []


async def test_a_file_is_told_nothing_but_what_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", "the-keys")
    text = "import os\nname = 'has_keys' if 'the-keys' in os.environ.values() else 'has_none'\n"

    async with pool_with(tmp_path, Stored()) as parse:
        assert ids(await parse(text + dag_source("x").replace("'x'", "name"))) == ["has_none"]


async def test_a_pool_leaves_no_socket_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def new_folder(mark: str) -> Any:
        made.append((folder := scratch_folder(mark)).name)
        return folder

    monkeypatch.setattr(values, "scratch_folder", new_folder)
    async with pool_with(tmp_path, Stored()) as parse:
        outcome = await parse(dag_source("a"))
        assert [Path(folder).exists() for folder in made] == [True]  # noqa: ASYNC240

    assert [Path(folder).exists() for folder in made] == [False]  # noqa: ASYNC240
    assert (outcome.reads_values, outcome.unanswered) == (False, False)


async def test_a_socket_that_a_long_temporary_folder_would_not_hold_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))

    async with pool_with(tmp_path, Stored(name="a")) as parse:
        assert ids(await parse(OURS + dag_source("x").replace("'x'", "Variable.get('name')"))) == ["a"]


async def test_a_file_that_writes_to_the_socket_by_itself_harms_no_other(tmp_path: Path) -> None:
    rude = f"""{OURS}
import socket
from aiosched.authoring.runtime import lookups
path = lookups._answers_here.get()._address.path
lines = []
for said in (b"nonsense\\n", b"x" * 100_000, b'{{"kind": "variable"}}\\n'):
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    try: line.sendall(said)
    except OSError: pass
    lines.append(line)
"""
    async with pool_with(tmp_path, Stored(name="a")) as parse:
        assert ids(await parse(rude + dag_source("rude"))) == ["rude"]
        assert ids(await parse(OURS + dag_source("x").replace("'x'", "Variable.get('name')"))) == ["a"]


# ---- a database that is gone ----


@pytest.mark.slow
async def test_a_look_up_waits_for_a_database_that_comes_back(tmp_path: Path) -> None:
    failures = iter(range(2))

    async def restarting(kind: str, name: str, file: str) -> Value:
        if next(failures, None) is not None:
            raise DatabaseUnreachable("No server answers.")
        return Value("back")

    async with pool_with(tmp_path, restarting) as parse:
        outcome = await parse(OURS + dag_source("x").replace("'x'", "Variable.get('name')"))

    assert ids(outcome) == ["back"]


@pytest.mark.slow
@pytest.mark.parametrize("default", ["", ", 'default'"])
async def test_a_database_that_stays_away_makes_the_outcome_void(tmp_path: Path, default: str) -> None:
    async def gone(kind: str, name: str, file: str) -> Value:
        raise DatabaseUnreachable("No server answers at db:5432.")

    async with pool_with(tmp_path, gone, patience=0.3) as parse:
        outcome = await parse(f"{OURS}\nVariable.get('region'{default})\n")
        caught = await parse(f"{OURS}\ntry: Variable.get('region')\nexcept Exception: pass\n" + dag_source("a"))

    assert outcome.error is not None
    assert "The variable 'region' cannot be read now: " in outcome.error.message
    assert (outcome.unanswered, caught.unanswered) == (True, True)


@pytest.mark.slow
async def test_an_import_that_ends_while_it_waits_for_an_answer_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(kind: str, name: str, file: str) -> Value:
        await asyncio.Event().wait()

    async with pool_with(tmp_path, never, import_timeout=1.5) as parse:
        outcome = await parse(f"{OURS}\nVariable.get('region')\n")

    assert outcome.error is not None
    assert (outcome.error.type, outcome.unanswered) == ("Timeout", True)


# ---- a parser with its database ----


@pytest.fixture
def store(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretStore:
    """The variables and connections of the bench's database."""
    from cryptography.fernet import Fernet

    keys = Fernet.generate_key().decode()
    monkeypatch.setattr(Bench, "settings", property(lambda bench: _with_keys(bench, keys)))
    return SecretStore(bench.db, Keyring.of(bench.settings))


def _with_keys(bench: Bench, keys: str) -> Any:
    settings = settings_for(bench.folder)
    settings.parsing.processes = 1
    settings.database.dsn = bench.db.dsn
    settings.secrets.fernet_keys = keys
    return settings


NAMED = OURS + dag_source("x").replace("'x'", "Variable.get('name')")


async def test_a_parser_answers_from_its_database(bench: Bench, store: SecretStore) -> None:
    await store.set_variables({"name": VariableValue("stored")})
    await store.set_connections([ConnectionValue(conn_id="sales", conn_type="postgres", host="db")])
    bench.write("a.py", NAMED)
    bench.write("b.py", OURS + dag_source("x").replace("'x'", "BaseHook.get_connection('sales').host"))

    async with bench.running():
        assert sorted(await bench.dags()) == ["db", "stored"]


async def test_a_changed_value_is_seen_when_the_file_is_parsed_again(bench: Bench, store: SecretStore) -> None:
    await store.set_variables({"name": VariableValue("before")})
    bench.write("a.py", NAMED)
    async with bench.running() as parser:
        assert await bench.heard.next() == ["before"]
        await store.set_variables({"name": VariableValue("after")})

        parser.request(["a.py"])

        assert await bench.heard.next() == ["after", "before"]
        dags = await bench.dags()
    assert [dags[name][1] for name in ("before", "after")] == [True, False], "the old one is stale"


async def test_a_variable_that_is_added_later_mends_the_file_by_itself(bench: Bench, store: SecretStore) -> None:
    bench.write("a.py", NAMED)
    async with bench.running():
        assert "aiosched variables set name VALUE" in str((await bench.errors())["a.py"])

        await store.set_variables({"name": VariableValue("added")})

        assert await bench.heard.next() == ["added"], "without a request: it is parsed often"


@pytest.mark.slow
async def test_a_file_keeps_its_dags_while_the_database_does_not_answer(
    bench: Bench, store: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.set_variables({"name": VariableValue("stored")})
    bench.write("a.py", NAMED)
    monkeypatch.setattr(values, "PATIENCE", 0.3)
    settings = bench.settings
    settings.parsing.min_file_process_interval = 3600.0  # nothing but requests
    async with bench.running(settings=settings) as parser:
        await bench.heard.next()
        await bench.execute("ALTER TABLE variable RENAME TO elsewhere")

        parser.request(["a.py"])
        async with asyncio.timeout(PATIENCE):
            while parser._parse_queue.unfinished:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await bench.errors() == {"a.py": None}

        await bench.execute("ALTER TABLE elsewhere RENAME TO variable")
        await store.set_variables({"name": VariableValue("again")})
        assert await bench.heard.next() == ["again", "stored"]
