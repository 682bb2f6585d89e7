"""Two teams whose DAGs have the same shape. Every name of a team holds its marker, so answers show whose they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount

from aiosched.core.access.grants import RoleGrant
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.ids import partition_of
from aiosched.db.access import grants
from aiosched.db.people import accounts
from aiosched.db.people import teams as stored_teams
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.web.auth.passwords import hash_password
from tests.cli.records import NOON, add_dag, add_file, add_run, add_task, insert, quarantine
from tests.web.logins import PASSWORD

OURS: Final = "pelican"
THEIRS: Final = "zeppelin"
LESS: Final = ("viewer", "operator", "editor")  # they see nothing that an admin of their team does not
ROLES: Final = (*LESS, "admin")
LATER: Final = NOON + timedelta(minutes=1)
NUMBERED: Final = ("backfills", "commands", "alerts", "alert-silences", "views")  # places of `SeededTeam.numbers`
OF_A_DAG: Final = frozenset(  # lists that are asked for those of one DAG
    {
        "/dag-statistics", "/runs", "/run-facets", "/task-instances", "/task-instance-facets", "/inputs", "/backfills",
        "/commands", "/schedules",
    }
)  # fmt: skip


@dataclass
class SeededTeam:
    """The names and numbers of what a team has, as they stand in addresses."""

    marker: str
    run: int = 0
    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, what: str) -> str:
        return f"{self.marker}_{what}"

    def in_path(self, path: str) -> str:
        """An address with the names of this team."""
        first = path.split("/")[1]
        values: dict[str, Any] = {
            "dag_id": self.of("etl"), "run": self.of("run"), "dag_run_id": self.of("run"), "task_id": self.of("task"),
            "map_index": -1, "try_number": 1, "other": 1, "conn_id": self.of("connection"),
            "connection_id": self.of("connection"), "path": "index.html", "team": self.of("team"), "token": 1 << 40,
            "session": 1 << 40,
            "key": self.of("xcom") if first == "dags" else self.of("variable"),
            "name": self.of(
                {"assets": "orders", "pools": "pool", "alert-rules": "rule", "dags": "schedule"}.get(first, "person")
            ),
            "number": self.numbers.get(first, 1),
        }  # fmt: skip
        for name, value in values.items():
            path = path.replace(f"{{{name}}}", str(value))
        assert "{" not in path, f"the test knows no value for a parameter of {path}"
        return path

    def query(self, path: str) -> dict[str, Any]:
        """What lists are asked for besides."""
        if path in (
            "/dag-statistics",
            "/runs",
            "/run-facets",
            "/task-instances",
            "/task-instance-facets",
            "/inputs",
            "/backfills",
            "/commands",
            "/schedules",
        ):
            return {"dag_id": self.of("etl")}
        if path == "/teams/{team}/folders":
            return {"folder": self.marker}
        if path in ("/asset", "/asset-checks", "/asset-events", "/asset-partitions"):
            return {"name": self.of("orders")}
        if path == "/dags/{dag_id}/versions/{number}/module":
            return {"name": self.of("module.py")}
        if path == "/search":
            return {"q": self.marker}
        return {"words": "x"} if path.endswith("/search") else {}

    def body(self, method: str, path: str) -> Any:
        """A body with which the request is possible."""
        date = NOON.isoformat()
        bodies: dict[tuple[str, str], Any] = {
            ("POST", "/backfills"): {"dag_id": self.of("etl"), "from_date": date, "to_date": date},
            ("POST", "/bulk"): {"action": "cancel", "runs": [{"dag_id": self.of("etl"), "run_id": self.of("run")}]},
            ("PATCH", "/dags/{dag_id}"): {"is_paused": True},
            ("PUT", "/dags/{dag_id}/schedules/{name}"): {"every": 3600},
            ("PUT", "/variables/{key}"): {"value": "1"},
            ("POST", "/variables"): {"key": self.of("variable"), "value": "1"},
            ("PATCH", "/variables/{key}"): {"key": self.of("variable"), "value": "1"},
            ("PUT", "/connections/{conn_id}"): {"conn_type": "http"},
            ("POST", "/connections"): {"connection_id": self.of("connection"), "conn_type": "http"},
            ("PATCH", "/connections/{connection_id}"): {"connection_id": self.of("connection"), "conn_type": "http"},
            ("PUT", "/pools/{name}"): {"slots": 3},
            ("POST", "/pools"): {"name": self.of("pool"), "slots": 3},
            ("PATCH", "/pools/{name}"): {"slots": 3},
            ("PUT", "/alert-rules/{name}"): {"kind": "run_failed", "notifier": "n"},
            ("PATCH", "/alert-rules/{name}"): {"is_paused": True},
            ("POST", "/alert-silences"): {"alert": self.numbers.get("alerts"), "seconds": 60, "reason": "r"},
            ("POST", "/views"): {
                "page": "runs",
                "name": self.of("new"),
                "team": self.of("team"),
                "query": "state=failed",
            },
            ("PUT", "/views/{number}"): {"name": self.of("view"), "query": "state=queued"},
            ("POST", "/users"): {"name": self.of("new"), "role": "viewer", "password": PASSWORD},
            ("POST", "/users/{name}/grants"): {"grant": "viewer@tag:x"},
            ("POST", "/tokens"): {"label": "l"},
            ("POST", "/teams"): {"name": self.of("new")},
            ("POST", "/teams/{team}/folders"): {"folder": self.of("folder")},
        }
        if path.endswith("/mark"):
            return {"state": "success"}
        if path.endswith("/note"):
            return {"note": "n"}
        if path.endswith("/answer"):
            return {"options": ["yes"]}
        return bodies.get((method, path), {} if method in ("POST", "PUT", "PATCH") else None)


async def seed_team(db: Database, store: SecretStore, marker: str) -> SeededTeam:
    """A team with a row in every table that people read."""
    team = SeededTeam(marker)
    of, dag_id, task_id = team.of, team.of("etl"), team.of("task")
    await stored_teams.create_team(db, of("team"))
    tasks = (TaskSpec(task_id=task_id, operator=of("Operator"), pool=of("pool"), retries=1),)
    facts: dict[str, Any] = {"tags": [of("tag")], "owner": of("owner"), "description": of("description"),
                             "schedule": "@daily", "next_dagrun": NOON, "next_dagrun_create_after": LATER}  # fmt: skip
    sources = {of("module.py"): "0" * 64}
    version = await add_dag(db, dag_id, tasks=tasks, sources=sources, file=f"{marker}/dag.py", **facts)
    held = await add_dag(db, of("held"), file=f"{marker}/held.py", is_paused=True)
    await quarantine(db, of("held"), error=of("error"))
    await add_run(db, of("held"), held, of("waiting"), state="queued")
    failed = await add_dag(db, of("failing"), file=f"{marker}/failing.py")
    await add_run(db, of("failing"), failed, of("failed"), state="failed", end_date=LATER)
    today = datetime.now(UTC)  # on the first page are failures of the last day
    recent = await add_run(db, of("failing"), failed, of("recent"), state="failed", start_date=today, end_date=today)
    await add_task(db, recent, 0, "failed", reason=of("reason"))
    await add_file(db, f"{marker}/dag.py", dag_ids=[dag_id], warnings=[of("warning")])
    await add_file(db, f"{marker}/bad.py", error=of("error"), error_line=3, traceback=of("traceback"))
    team.run = await add_run(db, dag_id, version, of("run"), conf={"who": of("conf")}, note=of("note"))
    await add_task(db, team.run, 0, "running", try_number=1, reason=of("reason"), scheduled_at=NOON, start_date=NOON)
    waits = await add_run(db, dag_id, version, of("waits"))
    await add_task(db, waits, 0, "scheduled", scheduled_at=NOON)
    place = {"run_id": team.run, "task_index": 0, "map_index": -1}
    partition = partition_of(dag_id)
    question = {"subject": of("question"), "options": ["yes"]}
    async with db.acquire() as conn:
        await insert(conn, "xcom", place | {"key": of("xcom"), "value": {"who": of("value")}})
        await insert(conn, "human_input", place | {"try_number": 1, "task_id": task_id, "question": question,
                                                   "asked_at": NOON})  # fmt: skip
        backfill = {"dag_id": dag_id, "partition": partition, "from_date": NOON, "to_date": LATER}
        team.numbers["backfills"] = await insert(conn, "backfill", backfill, returning="id")
        schedule = {"dag_id": dag_id, "partition": partition, "name": of("schedule"), "every": 60.0, "timezone": "UTC",
                    "since": NOON, "conf": {"who": of("conf")}}  # fmt: skip
        await insert(conn, "dag_schedule", schedule, returning="id")
        command = {"dag_id": dag_id, "partition": partition, "verb": "pause", "args": {"who": of("args")},
                   "requested_by": f"api:{of('person')}", "reason": of("why")}  # fmt: skip
        team.numbers["commands"] = await insert(conn, "request", command, returning="id")
        await insert(conn, "request", {"verb": "set_pool", "args": {"name": of("pool")}, "requested_by": "cli",
                                       "state": "applied", "applied_at": NOON, "result": {"before": None}})  # fmt: skip
        await insert(conn, "callback_outbox", {"partition": partition, "kind": "dag_failure", "dag_id": dag_id,
                                               "run_id": team.run, "given_up_at": NOON})  # fmt: skip
        asset = await insert(conn, "asset", {"name": of("orders"), "uri": f"s3://{of('orders')}"}, returning="id")
        for role in ("outlet", "schedule"):
            await insert(conn, "asset_reference", {"dag_id": dag_id, "name": of("orders"), "task_id": "", "role": role,
                                                   "kind": "asset", "uri": f"s3://{of('orders')}"})  # fmt: skip
        await conn.execute(
            "INSERT INTO asset_event (asset_id, timestamp, source_dag_id, source_run_id, source_task_index, "
            "source_map_index, extra, partition_key) VALUES ($1, $2, $3, $4, 0, -1, $5::json, $6)",
            asset, NOON, dag_id, team.run, json.dumps({"who": of("extra")}), of("key"),
        )  # fmt: skip
        checks = {"dag_id": dag_id, "name": of("orders"), "task_id": task_id, "role": "inlet", "kind": "asset"}
        await insert(conn, "asset_reference", checks | {"is_check": True})
        result = {"asset_id": asset, "dag_id": dag_id, "task_id": task_id, "run_id": team.run, "map_index": -1}
        await insert(conn, "asset_check", result | {"try_number": 1, "status": "warn", "message": of("message")})
        rule = {"name": of("rule"), "kind": "run_failed", "notifier": "n", "dags": [dag_id]}
        rule_id = await insert(conn, "alert_rule", rule, returning="id")
        alert = {"rule_id": rule_id, "subject": dag_id, "dag_ids": [dag_id], "text": of("alert"), "opened_at": NOON,
                 "last_at": NOON}  # fmt: skip
        team.numbers["alerts"] = await insert(conn, "alert", alert, returning="id")
        silence = {"dag_id": dag_id, "dag_ids": [dag_id], "reason": of("why"), "created_by": f"api:{of('person')}",
                   "created_at": NOON, "ends_at": datetime.now(UTC) + timedelta(days=1)}  # fmt: skip
        team.numbers["alert-silences"] = await insert(conn, "alert_silence", silence, returning="id")
        await insert(conn, "alert_silence", {k: v for k, v in silence.items() if k not in ("dag_id", "dag_ids")}
                     | {"tag": of("tag")})  # fmt: skip
        view = {"page": "runs", "name": of("view"), "team": of("team"), "query": "q=1", "changed_by": of("person")}
        team.numbers["views"] = await insert(conn, "list_view", view, returning="id")
        await insert(conn, "pool", {"name": of("pool"), "slots": 1, "used": 1, "description": of("description")})
    await store.set_variables({of("variable"): VariableValue("1", of("description"))})
    await store.set_connections([ConnectionValue.from_fields(of("connection"), {"conn_type": "http"})])
    async with db.acquire() as conn:
        for table, key, name in (("pool", "name", "pool"), ("variable", "key", "variable"),
                                 ("connection", "conn_id", "connection")):  # fmt: skip
            await conn.execute(f"UPDATE {table} SET team = $1 WHERE {key} = $2", of("team"), of(name))
    await stored_teams.add_folder(db, of("team"), marker)
    await accounts.create_user(db, of("person"), "viewer", None)
    return team


async def add_members(db: Database, team: SeededTeam) -> None:
    """A person of each role for a team, who is called as the role is; and somebody who is viewer everywhere."""
    for role in ROLES:
        await accounts.create_user(db, role, "none", await hash_password(PASSWORD))
        await grants.add_grant(db, role, RoleGrant.parse(f"{role}@team:{team.of('team')}"))
    await accounts.create_user(db, "boss", "admin", await hash_password(PASSWORD))


@dataclass(frozen=True)
class Asked:
    """One way to ask the application: a route behind its prefix, with one of its methods."""

    prefix: str
    method: str
    route: APIRoute

    @property
    def path(self) -> str:
        return self.route.path_format

    def __str__(self) -> str:
        return f"{self.method} {self.prefix}{self.path}"


def all_routes(app: FastAPI) -> list[Asked]:
    """Every route of the application and of those that it mounts. Fails for one of another kind."""
    return list(_routes(app.routes, ""))


def _routes(routes: Sequence[object], prefix: str) -> Iterator[Asked]:
    for route in routes:
        if isinstance(route, Mount):
            yield from _routes(route.routes, prefix + route.path)
        elif (router := getattr(route, "original_router", None)) is not None:  # what include_router makes
            yield from _routes(router.routes, prefix + route.include_context.prefix)  # type: ignore[attr-defined]
        else:
            assert isinstance(route, APIRoute), f"{route} is checked by nobody"
            yield from (Asked(prefix, method, route) for method in sorted(route.methods))
