"""What Airflow's commands do that are not one command of aiosched: the functions that `answers.toml` names."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiosched.cli.airflow.answers import Answer, answer_of, folder_of
from aiosched.cli.airflow.commands import Call, forms
from aiosched.cli.airflow.ours import Ours
from aiosched.cli.airflow.shown import named, projected, show
from aiosched.cli.base.options import UsageProblem, read_instant
from aiosched.cli.base.output import talk, write
from aiosched.cli.base.session import has_database, load, open_database, with_database
from aiosched.core.values.ids import read_instance_name
from aiosched.errors import DatabaseError, NotFound, Refused, did_you_mean

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.core.graph.spec import DagSpec
    from aiosched.db.queries.queries import DagListRow, TaskRow
    from aiosched.db.server.engine import Database
    from aiosched.parsing.result import ParsedFile

_ROLES: Final = {"admin": "admin", "op": "editor", "user": "operator", "viewer": "viewer", "public": "none"}
_LOOK_SECONDS: Final = 0.5  # between two looks at a task
_MIGRATION_WAIT: Final = 60.0  # seconds
_NEXT: Final = "logical_date data_interval.start=data_interval_start data_interval.end=data_interval_end run_after"
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Work:
    """One call to answer. `words`: the answer's own command with the translated options."""

    call: Call
    answer: Answer
    words: list[str]
    ours: Ours

    def text(self, name: str) -> str | None:
        """The value of an argument."""
        return self.call.text(name)

    def given(self, name: str) -> str:
        """The value of an argument that the command needs. Raises UsageProblem."""
        value = self.text(name)
        if value is None:
            raise UsageProblem(f"airflow {self.call.command}: --{name} is needed.")
        return value

    def has(self, name: str) -> bool:
        """Whether a flag was given."""
        return self.call.given.get(name) is True

    def show(self) -> int:
        """Run the answer's command, and show its JSON as Airflow does; returns its exit code."""
        ended = self.ours.taken([*self.words[:1], *_with_json(self.words[1:])])
        if ended.code:
            return ended.code
        found = ended.data if isinstance(ended.data, list) else [ended.data or {}]
        told = {name.replace("-", "_"): self.text(name) for name in self.call.given}
        self.rows([{**told, **row} for row in found])
        return 0

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Show rows in the columns of the answer, or in those of --columns."""
        only = [one.strip() for one in (self.text("columns") or "").split(",") if one.strip()]
        known = named(self.answer.columns) | named(self.answer.more)
        if unknown := [one for one in only if one not in known]:
            talk(f"warning: there is no column {', '.join(unknown)}; there are {', '.join(known)}")
        show(projected(rows, self.answer.columns, only, self.answer.more), self.text("output"))

    def json_of(self, *words: str) -> Any:
        """The JSON of one of aiosched's commands. Raises SystemExit if it fails, which it has said itself."""
        ended = self.ours.taken([*words[:2], "-o", "json", *words[2:]])
        if ended.code:
            raise SystemExit(ended.code)
        return ended.data


def _with_json(words: Sequence[str]) -> list[str]:
    """The words of a command after its group, with `-o json` before the arguments by place."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "-o", "json", *words[at:]]


# ---- what is known of DAGs: by the database while something keeps it up to date, else by the files ----


@dataclass(frozen=True, slots=True)
class Known:
    """The DAGs in the database. `is_kept`: a scheduler or parser runs, so it has what the files say."""

    dags: Mapping[str, DagListRow]
    is_kept: bool


def _known(settings: Settings) -> Known:
    async def read() -> Known:
        from aiosched.db.lists.dag_lists import list_dags as read_dags
        from aiosched.db.queries.schedulers import list_schedulers
        from aiosched.db.statements.parsers import list_parsers

        async with open_database(settings) as db:
            kept = any(one.alive for one in await list_schedulers(db))
            async with db.acquire() as conn:
                kept = kept or any(one.alive for one in await list_parsers(conn))
            rows = await read_dags(db, limit=1_000_000)
            return Known({row.dag_id: row for row in rows}, kept)

    if not has_database(settings):
        return Known({}, False)
    try:
        return asyncio.run(read())
    except DatabaseError as error:
        talk(f"warning: the database is not asked: {error}")
        return Known({}, False)


def _settings(work: Work) -> Settings:
    """The settings, with the DAGs folder of `--subdir`."""
    subdir = work.text("subdir")
    settings: Settings = load(core__dags_folder=None if subdir is None else folder_of(subdir)).settings
    return settings


def _reads_files(work: Work, known: Known, settings: Settings) -> bool:
    """Whether the files are asked."""
    if work.has("local") or work.text("subdir") is not None:
        return True
    return not known.is_kept and (bool(settings.dags.bundles) or settings.core.dags_folder.is_dir())


def _parsed(work: Work, settings: Settings) -> list[ParsedFile]:
    from aiosched.cli.base.file_values import parse

    subdir = work.text("subdir")
    return asyncio.run(parse([] if subdir is None else [Path(subdir)], settings))


def list_dags(work: Work) -> None:
    """`dags list`."""
    settings = _settings(work)
    known = _known(settings)
    if not _reads_files(work, known, settings):
        rows = work.json_of("dags", "list")
        is_broken = bool(work.json_of("dags", "errors"))
    else:
        files = _parsed(work, settings)
        is_broken = any(file.error for file in files)
        rows = [
            {
                "dag_id": dag.dag_id,
                "file": file.name,
                "owner": dag.owner,
                "is_paused": known.dags[dag.dag_id].is_paused if dag.dag_id in known.dags else None,
                "description": dag.description,
                "schedule": dag.schedule,
                "tags": list(dag.tags),
                "max_active_runs": dag.max_active_runs,
                "max_active_tasks": dag.max_active_tasks,
                "bundle": file.bundle,
                "bundle_version": file.bundle_version,
            }
            for file in files
            for dag in file.dags
        ]
    if is_broken:
        talk("some files cannot be read: `airflow dags list-import-errors` shows why")
    work.rows(sorted((_placed(row, settings) for row in rows), key=lambda row: str(row["dag_id"])))


def _placed(row: Mapping[str, Any], settings: Settings) -> Mapping[str, Any]:
    """A DAG with the whole path of its file."""
    if not (name := row.get("file")) or row.get("bundle"):
        return row
    return {**row, "file": str(settings.core.dags_folder.absolute() / name)}


def list_import_errors(work: Work) -> int:
    """`dags list-import-errors`: 1 if there are any."""
    settings = _settings(work)
    if _reads_files(work, _known(settings), settings):
        found = [(file.name, file.error) for file in _parsed(work, settings) if file.error is not None]
        rows = [{"filepath": name, "error": error.traceback or error.message} for name, error in found]
    else:
        rows = [
            {"filepath": row["file"], "error": row.get("traceback") or row["error"]}
            for row in work.json_of("dags", "errors")
        ]
    folder = settings.core.dags_folder.absolute()
    work.rows({**row, "filepath": str(folder / row["filepath"])} for row in rows)
    return int(bool(rows))


def report(work: Work) -> None:
    """`dags report`: how long each file takes."""
    files = _parsed(work, _settings(work))
    work.rows(
        {
            "file": file.name,
            "seconds": round(file.seconds, 3),
            "dag_num": len(file.dags),
            "dags": [dag.dag_id for dag in file.dags],
        }
        for file in files
    )


def details(work: Work) -> None:
    """`dags details`: a row for each property in tables."""
    found = work.json_of("dags", "show", "--", work.given("dag-id"))
    (row,) = projected([_placed(found, load().settings)], work.answer.columns)
    output = work.text("output")
    is_table = output in (None, "table", "plain")
    rows = [{"property_name": name, "property_value": value} for name, value in row.items()] if is_table else [row]
    show(rows, output)


def _spec(work: Work) -> DagSpec:
    """The DAG of the call."""
    from aiosched.cli.dags.dag_files import find_dag
    from aiosched.db.queries.queries import get_spec

    settings, dag_id = _settings(work), work.given("dag-id")
    known = _known(settings)
    if _reads_files(work, known, settings) or (dag_id not in known.dags and not has_database(settings)):
        with contextlib.redirect_stdout(sys.stderr):  # for what the file prints
            return find_dag(dag_id, settings).to_spec()
    return with_database(None, lambda db: get_spec(db, dag_id))


def list_tasks(work: Work) -> None:
    """`tasks list`: the ids by name, or with `--tree` each below those that it runs after."""
    spec = _spec(work)
    if not work.has("tree"):
        write("\n".join(sorted(task.task_id for task in spec.tasks)))
        return
    after: dict[str, list[str]] = {task.task_id: [] for task in spec.tasks}
    for task in spec.tasks:
        for upstream in task.upstream:
            after[upstream].append(task.task_id)
    operators = {task.task_id: task.operator for task in spec.tasks}
    waiting = [(task.task_id, 0) for task in reversed(spec.tasks) if not task.upstream]
    while waiting:
        task_id, depth = waiting.pop()
        write(f"{'    ' * depth}<Task({operators[task_id]}): {task_id}>")
        waiting += [(each, depth + 1) for each in sorted(after[task_id], reverse=True)]


def show_graph(work: Work) -> None:
    """`dags show`: the graph in the language of Graphviz."""
    spec = _spec(work)
    lines = [f'digraph "{spec.dag_id}" {{', "  rankdir=LR"]
    lines += [f'  "{task.task_id}" [label="{task.task_id}" shape=rectangle]' for task in spec.tasks]
    lines += [f'  "{before}" -> "{task.task_id}"' for task in spec.tasks for before in task.upstream]
    text = "\n".join([*lines, "}"])
    if (file := work.text("save")) is None:
        write(text)
        return
    if Path(file).suffix not in {".dot", ".gv"}:
        raise UsageProblem(f"--save {file}: Graphviz draws it: save a file .dot, then `dot -Tpng`.")
    Path(file).write_text(text + "\n", encoding="utf-8")


def next_execution(work: Work) -> None:
    """`dags next-execution`: logical dates."""
    dag_id, settings = work.given("dag-id"), _settings(work)
    known = _known(settings)
    folder = [] if dag_id in known.dags and work.text("subdir") is None else [f"--dags={settings.core.dags_folder}"]
    number = work.text("num-executions") or "1"
    field = (work.text("field") or "logical_date").replace(".", "_")
    rows = work.json_of("dags", "next", f"--number={number}", *folder, "--", dag_id)
    dates = [row.get(field) for row in projected(rows, f"{' '.join(rows[0])}")] if rows else []
    if work.has("table"):
        show(projected(rows, _NEXT), "table")
        return
    if not dates:
        talk("no run follows: the DAG has no schedule by time, or its last run has been")
        dates = [None]
    for date in dates:
        write(str(date))


# ---- runs and tasks ----


def list_runs(work: Work) -> None:
    """`dags list-runs`, newest first."""
    state = work.text("state")
    words = [f"--dag={work.given('dag-id')}", "--limit=10000", *([f"--state={state.lower()}"] if state else [])]
    first, final = (
        None if (text := work.text(name)) is None else read_instant(text, f"--{name}")
        for name in ("start-date", "end-date")
    )

    def is_wanted(row: Mapping[str, Any]) -> bool:
        if work.has("no-backfill") and row["run_type"] == "backfill":
            return False
        date = None if row["logical_date"] is None else datetime.fromisoformat(row["logical_date"])
        if date is None:
            return first is None and final is None
        return (first is None or first <= date) and (final is None or date <= final)

    work.rows([row for row in work.json_of("runs", "list", *words) if is_wanted(row)])


def dag_state(work: Work) -> None:
    """`dags state`: the state of a run, with its conf if it has one; None without such a run."""
    from aiosched.db.queries.queries import RunRow, find_run, get_dag

    dag_id, run = work.given("dag-id"), work.given("run")

    async def read(db: Database) -> RunRow | None:
        await get_dag(db, dag_id)
        try:
            return await find_run(db, dag_id, run)
        except NotFound:
            return None

    found = with_database(None, read)
    conf = f", {json.dumps(found.conf)}" if found is not None and found.conf else ""
    write(f"{None if found is None else found.state}{conf}")


async def _instance(db: Database, work: Work) -> TaskRow:
    from aiosched.db.queries.queries import find_run, list_run_tasks

    found = await find_run(db, work.given("dag-id"), work.given("run"))
    number = work.text("map-index")
    task_id, map_index = read_instance_name(work.given("task-id"), None if number is None else int(number))
    wanted = -1 if map_index is None else map_index
    rows = await list_run_tasks(db, found, task_id=task_id, limit=10_000)
    for row in rows:
        if row.map_index == wanted:
            return row
    hint = f": choose one of its {len(rows)} instances with --map-index" if rows else ""
    raise NotFound(f"Run {found.run_id} of {found.dag_id} has no such instance of {task_id}{hint}.")


def task_state(work: Work) -> None:
    """`tasks state`."""
    state = with_database(None, lambda db: _instance(db, work)).state
    write("None" if state == "none" else state)


def run_task(work: Work) -> int:
    """`tasks run`: a scheduler runs the task again in its run; 1 if it fails. With --mark-success it counts as done."""
    from aiosched.cli.base.session import any_scheduler_alive
    from aiosched.core.values.states import FAILURES, FINISHED

    dag_id, run, task_id = work.given("dag-id"), work.given("run"), work.given("task-id")
    index = [] if (number := work.text("map-index")) is None else [f"--map-index={number}"]
    if work.has("mark-success"):
        return work.ours.run(["tasks", "mark", *index, "--", dag_id, run, task_id, "success"])
    if not with_database(None, any_scheduler_alive):
        raise Refused(
            f"No scheduler runs that could run {task_id} in its run: start one (`airflow scheduler`). "
            f"Alone, without a database, it runs with: airflow tasks test {dag_id} {task_id} {run}"
        )
    if code := work.ours.run(["tasks", "clear", f"--run={run}", f"--task-id={task_id}", *index, "--yes", "--", dag_id]):
        return code

    async def finished(db: Database) -> TaskRow:
        while (row := await _instance(db, work)).state not in FINISHED:  # noqa: ASYNC110  # as `runs watch`
            await asyncio.sleep(_LOOK_SECONDS)
        return row

    row = with_database(None, finished)
    talk(f"{row.name}: {row.state}" + (f", {row.reason}" if row.reason else ""))
    return int(row.state in FAILURES)


def pause(work: Work) -> None:
    """`dags pause`."""
    _switch(work, is_paused=True)


def unpause(work: Work) -> None:
    """`dags unpause`."""
    _switch(work, is_paused=False)


def _switch(work: Work, *, is_paused: bool) -> None:
    found = work.json_of("dags", "pause" if is_paused else "unpause", "--", work.given("dag-id"))
    changed = [row for row in found if not row["result"].startswith("was ")]
    if not changed:
        write(f"No {'un' if is_paused else ''}paused DAGs were found")
        return
    work.rows({"dag_id": row["dag_id"], "is_paused": is_paused} for row in changed)


# ---- connections, users ----


def list_connections(work: Work) -> None:
    """`connections get`, which shows secrets, and `connections list`, which does so with --show-values."""
    from aiosched.cli.operation.secret_files import with_store
    from aiosched.core.audit.kinds import AuditKind
    from aiosched.core.values.connections import ConnectionValue
    from aiosched.db.people.secrets import SecretStore

    wanted = work.text("conn-id")
    reveals = work.call.command == "connections get" or work.has("show-values")

    async def read(store: SecretStore) -> list[ConnectionValue]:
        if reveals:
            await store.note(AuditKind.SECRET_REVEALED, "connections" if wanted is None else f"connection {wanted}")
        if wanted is not None and work.call.command == "connections get":
            return [await store.get_connection(wanted)]
        names = [wanted] if wanted else [one.conn_id for one in await store.list_connections(limit=1_000_000)]
        return [*(await store.get_connections(names)).values()]

    shown = [value if reveals else value.masked() for value in with_store(None, read)]
    work.rows(
        {
            "conn_id": one.conn_id, "conn_type": one.conn_type, "description": one.description, "host": one.host,
            "schema": one.schema, "login": one.login, "password": one.password, "port": one.port,
            "is_encrypted": True, "is_extra_encrypted": True, "extra_dejson": one.extra_dejson,
            "get_uri": one.get_uri(),
        }
        for one in shown
    )  # fmt: skip


def _role(work: Work) -> str:
    """aiosched's role for one of Airflow's."""
    from aiosched.cli.operation.users import USER_ROLES

    word = work.given("role").lower()
    found = _ROLES.get(word, word)
    if found not in USER_ROLES:
        names = (*map(str.capitalize, _ROLES), *USER_ROLES)
        raise UsageProblem(f"--role {work.given('role')}: roles are {', '.join(names)}.{did_you_mean(word, names)}")
    return found


def _password(work: Work) -> str:
    """The password of the call; a random one is said."""
    from aiosched.cli.operation.users import ask_password

    if work.has("use-random-password"):
        made = secrets.token_urlsafe(16)
        talk(f"its password: {made}")
        return made
    given = work.text("password")
    return ask_password() if given is None else given


def create_user(work: Work) -> None:
    """`users create`; one that exists is left as it is."""
    from aiosched.db.people import accounts
    from aiosched.web.auth.passwords import check_password, hash_password

    name, role = work.given("username"), _role(work)
    if any(user.name == name for user in with_database(None, lambda db: accounts.list_users(db, limit=1_000_000))):
        write(f"{name} already exist in the db")
        return
    if not re.match(accounts.NAME_PATTERN, name):
        raise UsageProblem(f"{name!r} cannot be a user's name: letters, digits and . _ @ + - are allowed.")
    password = _password(work)
    check_password(password)

    async def make(db: Database) -> None:
        await accounts.create_user(db, name, role, await hash_password(password))

    with_database(None, make)
    write(f'User "{name}" created with role "{work.given("role")}", which is {role} here')
    talk("warning: --email, --firstname and --lastname are not stored")
    if load().settings.web.auth != "password":
        talk("warning: nobody logs in by password yet: set web.auth = password")


def delete_user(work: Work) -> int:
    """`users delete`."""
    return work.ours.run(["users", "delete", "--yes", "--", work.given("username")])


def add_role(work: Work) -> int:
    """`users add-role`: a user has one role everywhere, the higher of the two."""
    from aiosched.cli.operation.users import USER_ROLES
    from aiosched.db.people.accounts import read_user

    name, role = work.given("username"), _role(work)
    before = with_database(None, lambda db: read_user(db, name)).role
    if USER_ROLES.index(before) >= USER_ROLES.index(role):
        write(f"{name} is {before} already, which includes {role}")
        return 0
    return work.ours.run(["users", "role", "--", name, role])


def remove_role(work: Work) -> int:
    """`users remove-role`."""
    from aiosched.db.people.accounts import read_user

    name, role = work.given("username"), _role(work)
    before = with_database(None, lambda db: read_user(db, name)).role
    if before != role:
        raise Refused(f"{name} is not {role}, but {before}.")
    return work.ours.run(["users", "role", "--", name, "none"])


def reset_password(work: Work) -> None:
    """`users reset-password`."""
    from aiosched.db.people.accounts import change_user
    from aiosched.web.auth.passwords import check_password, hash_password

    name, password = work.given("username"), _password(work)
    check_password(password)

    async def change(db: Database) -> None:
        await change_user(db, name, password=await hash_password(password))

    with_database(None, change)
    write(f'User "{name}" password reset successfully')


def list_roles(work: Work) -> None:
    """`roles list`."""
    from aiosched.cli.operation.users import ROLES

    work.rows({"name": role} for role in ROLES)


# ---- the database, settings, services ----


def reset_database(work: Work) -> int:
    """`db reset`, which also makes a database that is not there yet."""
    if not has_database(load().settings):
        return work.ours.run(["db", "migrate"])
    return work.ours.run(["db", "reset", *(["--yes"] if work.has("yes") else [])])


def _again(attempt: Callable[[], object], *, times: int, pause: float) -> None:
    """Do something until it raises no DatabaseError, up to so many times."""
    for left in range(times - 1, -1, -1):
        try:
            attempt()
            return
        except DatabaseError as error:
            if not left:
                raise
            talk(f"{error} Tried again in {pause:g} s, {left} times at most.")
            time.sleep(pause)


def check_database(work: Work) -> None:
    """`db check`: whether the database answers, whatever its tables are."""
    settings = load().settings

    async def look() -> str:
        async with open_database(settings, check=False) as db:
            return db.where

    def attempt() -> None:
        write(f"ok: PostgreSQL at {asyncio.run(look())} answers")

    if not has_database(settings):
        write("ok: the embedded database is made by `airflow db migrate` or the first start")
        return
    _again(attempt, times=1 + int(work.text("retry") or 0), pause=float(work.text("retry-delay") or 1))


def check_migrations(work: Work) -> None:
    """`db check-migrations`: waits until the tables are those of this version."""

    async def look(db: Database) -> str:
        return db.where

    seconds = float(work.text("migration-wait-timeout") or _MIGRATION_WAIT)
    _again(lambda: with_database(None, look), times=1 + int(seconds), pause=1.0)


def check_jobs(work: Work) -> int:
    """`jobs check`: 0 if one is alive. Triggers run in schedulers, so these are triggerers, too."""
    from aiosched.db.queries.schedulers import list_schedulers
    from aiosched.db.statements.parsers import list_parsers

    kind = work.text("job-type")
    host = socket.gethostname() if work.has("local") else work.text("hostname")
    if kind == "TriggererJob":
        host = None  # wherever a scheduler is

    async def read(db: Database) -> int:
        found = [] if kind == "DagProcessorJob" else [row for row in await list_schedulers(db) if row.alive]
        async with db.acquire() as conn:
            parsers = [] if kind not in (None, "DagProcessorJob") else await list_parsers(conn)
        if kind == "DagProcessorJob" and not any(one.alive for one in parsers):
            found = [row for row in await list_schedulers(db) if row.alive]  # which parse, too
        hosts = [row.hostname for row in found] + [row.hostname for row in parsers if row.alive]
        return sum(host is None or each == host for each in hosts)

    number = with_database(None, read)
    if not number:
        talk("No alive jobs found.")
        return 1
    if number > 1 and not work.has("allow-multiple") and kind != "TriggererJob":
        talk(f"Found {number} alive jobs. Expected only one.")
        return 1
    write("Found one alive job." if number == 1 else f"Found {number} alive jobs.")
    return 0


def idle(work: Work) -> None:
    """A service of Airflow that is not needed here: it says so and waits to be stopped, so that nothing restarts it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    talk(f"{work.call.command}: {work.answer.note}. It does nothing until it is stopped.")
    signal.sigwait(_STOPPING)


def nothing(work: Work) -> None:
    """A command with nothing to do."""
    talk(f"{work.call.command}: {work.answer.note}")


def cheat_sheet(work: Work) -> None:
    """`cheat-sheet`: all commands of Airflow and what they are here."""
    del work
    list_commands(forms())


def list_commands(commands: Iterable[str]) -> None:
    """Write what is done for each of these commands."""
    names = [*commands]
    width = max(map(len, names))
    for command in names:
        name, answer = answer_of(command)
        told = f"as `airflow {name}`" if name != command else ""
        if answer.modes:
            told = f"as `airflow {'`, `airflow '.join([*answer.modes.values()])}`"
        told = told or answer.in_words or answer.note
        write(f"{command:<{width}}  {told or (f'not here: {answer.instead}' if answer.instead else 'as in Airflow')}")
