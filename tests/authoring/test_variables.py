"""Variables and connections in DAG code: where they are looked for, and what is said when they are not there.

Source: the semantics reference, section 27.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aiosched import BaseHook, BaseOperator, Connection, Variable
from aiosched.airflow.objects.sessions import NoSession
from aiosched.airflow.objects.variables import Variable as AirflowVariable
from aiosched.authoring.dag.loader import load_file
from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.runtime.lookups import answering
from aiosched.core.values.masking import secrets
from aiosched.errors import AioschedError, DagError, NotFound, Refused, TemplateError
from tests.authoring.authoring_builders import FakeServices, context_of, without_loop

pytestmark = pytest.mark.usefixtures("no_secrets")

URI = "postgres://user:hunter2@db:5432/sales?api_key=sk-123&mode=x"


@dataclass
class Stored(FakeServices):
    """A scheduler that knows variables and connections."""

    variables: dict[str, str] = field(default_factory=dict)
    connections: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def call(self, run: int, name: str, args: str) -> str:
        asked = json.loads(args)
        if "set" in asked:
            self.variables[asked["set"]] = asked["value"]
            return "{}"
        if "delete" in asked:
            if self.variables.pop(asked["delete"], None) is None:
                raise NotFound("There is no such variable.")
            return "{}"
        known: dict[str, Any] = self.variables if name == "variable" else self.connections
        return json.dumps({"value": known.get(asked["get"])})


class Echo(BaseOperator):
    """Has one templated argument."""

    template_fields = ("value",)

    def __init__(self, value: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value = value


@pytest.fixture
def stored() -> Stored:
    """What a task's scheduler knows; a task runs during the test."""
    return Stored()


@pytest.fixture
def in_a_task(stored: Stored) -> Iterator[Stored]:
    with current_context(context_of(Echo(task_id="t", value=""), services=stored, blocking=without_loop)):
        yield stored


def rendered(stored: Stored, template: str) -> Any:
    task = Echo(task_id="t", value=template)
    context = context_of(task, services=stored, blocking=without_loop)
    with current_context(context):
        return task.render(context).value


@pytest.mark.parametrize(
    ("environment", "database", "found"),
    [
        ({"AIOSCHED_VAR_REGION": "ours", "AIRFLOW_VAR_REGION": "theirs"}, "stored", "ours"),
        ({"AIRFLOW_VAR_REGION": "theirs"}, "stored", "theirs"),
        ({}, "stored", "stored"),
        ({"AIOSCHED_VAR_REGION": ""}, "stored", ""),
        ({}, None, "default"),
    ],
)
def test_the_environment_wins_over_the_database(
    in_a_task: Stored, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], database: str | None, found: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if database is not None:
        in_a_task.variables["region"] = database

    assert Variable.get("region", "default") == found
    assert Variable.get("region", default_var="default") == found
    assert asyncio.run(Variable.aget("region", "default")) == found


def test_the_environment_wins_for_connections_too(in_a_task: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_task.connections["sales"] = {"conn_type": "http", "host": "stored"}
    stored = Connection.get("sales")
    monkeypatch.setenv("AIRFLOW_CONN_SALES", '{"conn_type": "http", "host": "theirs"}')
    theirs = BaseHook.get_connection("sales")
    monkeypatch.setenv("AIOSCHED_CONN_SALES", URI)
    ours = asyncio.run(Connection.aget("sales"))

    assert [one.host for one in (stored, theirs, ours)] == ["stored", "theirs", "db"]
    assert (ours.login, ours.password, ours.port, ours.schema) == ("user", "hunter2", 5432, "sales")
    assert isinstance(ours, Connection)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        {"a": (1, Decimal("1.50"))},
        {1: "a"},
        [{2}],
        None,
        float("inf"),
        {"$aiosched": 1},
        UUID(int=1),
    ],
)
def test_what_is_set_as_json_comes_back_with_its_type(in_a_task: Stored, value: Any) -> None:
    Variable.set("v", value, serialize_json=True)

    assert repr(Variable.get("v", deserialize_json=True)) == repr(value)
    with pytest.raises(AioschedError, match=r"The variable 'v' cannot be JSON: \['a'\] is a"):
        Variable.set("v", {"a": in_a_task}, serialize_json=True)


def test_a_variable_can_be_json(in_a_task: Stored) -> None:
    in_a_task.variables.update(limits='{"cpu": 2}', broken="{cpu: 2}")

    assert Variable.get("limits", deserialize_json=True) == {"cpu": 2}
    assert Variable.get("limits") == '{"cpu": 2}'
    with pytest.raises(AioschedError, match="The variable 'broken' is not JSON"):
        Variable.get("broken", deserialize_json=True)


def test_a_task_sets_and_deletes(in_a_task: Stored) -> None:
    Variable.set("cursor", 5)
    Variable.set("limits", {"cpu": 2}, serialize_json=True)
    asyncio.run(Variable.aset("gone", "x"))
    Variable.delete("gone")

    assert in_a_task.variables == {"cursor": "5", "limits": '{"cpu": 2}'}


def test_airflows_changes_of_variables_may_have_a_session(in_a_task: Stored) -> None:
    session = NoSession()

    AirflowVariable.set("cursor", 5, session=session)
    AirflowVariable.set("limits", {"cpu": 2}, None, True, session)
    AirflowVariable.update("cursor", 6, session=session)

    assert in_a_task.variables == {"cursor": "6", "limits": '{"cpu": 2}'}
    assert [AirflowVariable.delete(key, session=session) for key in ("cursor", "nowhere")] == [1, 0]
    assert AirflowVariable.get("limits", deserialize_json=True) == {"cpu": 2}
    with pytest.raises(KeyError):
        AirflowVariable.update("nowhere", 1)


@pytest.mark.parametrize("key", ["a\0b", "a\ud800b", "a\nb"])
def test_a_name_that_none_can_have_is_missing_and_is_not_asked_for(in_a_task: Stored, key: str) -> None:
    in_a_task.variables[key] = "asked for"

    assert Variable.get(key, default="d") == "d"
    assert asyncio.run(Variable.aget(key, default="d")) == "d"
    with pytest.raises(NotFound, match="There is no connection"):
        Connection.get(key)


def test_half_of_a_character_is_refused_where_it_is_sent(in_a_task: Stored) -> None:
    with pytest.raises(Refused, match=r"variable\['value'\] has half of a surrogate pair"):
        Variable.set("cursor", "a\ud800b")
    with pytest.raises(Refused, match=r"variable\['delete'\] has half"):
        Variable.delete("\udfff")
    Variable.set("cursor", "\N{PILE OF POO} \\ud800")

    assert in_a_task.variables == {"cursor": "\N{PILE OF POO} \\ud800"}


def test_what_is_nowhere_is_said_with_where_to_put_it(in_a_task: Stored) -> None:
    with pytest.raises(NotFound, match=r"'region'. Set AIOSCHED_VAR_REGION .*aiosched variables set region VALUE"):
        Variable.get("region")
    with pytest.raises(NotFound, match=r"'sales'. Set AIOSCHED_CONN_SALES .*aiosched connections add sales --uri URI"):
        Connection.get("sales")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("Variable.get('region')", r"AIOSCHED_VAR_REGION.*{{ var.value.region }}"),
        ("Variable.get('region', 'default')", r"AIOSCHED_VAR_REGION.*{{ var.value.region }}"),
        ("Variable.set('region', 1)", "can be set only inside a task"),
        ("Connection.get('sales')", r"AIOSCHED_CONN_SALES.*{{ conn.sales.host }}"),
    ],
)
def test_a_dag_file_that_asks_the_database_is_told_to_use_a_template(tmp_path: Path, code: str, advice: str) -> None:
    file = tmp_path / "d.py"
    file.write_text(f"from aiosched import Connection, DAG, Variable\n{code}\n")

    with answering(None), pytest.raises(DagError, match=advice):
        load_file(file, root=tmp_path)


def test_a_dag_file_may_ask_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_VAR_NAME", "from_environment")
    file = tmp_path / "d.py"
    file.write_text("from aiosched import DAG, Variable\nd = DAG(Variable.get('name'), schedule=None)\n")

    assert [dag.dag_id for dag in load_file(file, root=tmp_path).dags] == ["from_environment"]


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ var.value.region }}", "eu"),
        ("{{ var.value['region'] }}", "eu"),
        ("{{ var.value.get('region', 'x') }}", "eu"),
        ("{{ var.value.get('nothing', 'x') }}", "x"),
        ("{{ var.json.limits.cpu }}", "2"),
        ("{{ var.json.get('nothing', {}).cpu is defined }}", "False"),
        ("{{ conn.sales.host }}:{{ conn.sales.port }}/{{ conn['sales'].schema }}", "db:5432/sales"),
        ("{{ conn.sales.extra_dejson.mode }}", "x"),
        ("{{ conn.get('nothing') }}", "None"),
        ("{{ conn.sales.password }}", "hunter2"),
        ("{{ conn.sales.get_uri() }}", URI),
    ],
)
def test_templates_have_var_and_conn(stored: Stored, template: str, value: str) -> None:
    stored.variables.update(region="eu", limits='{"cpu": 2}')
    stored.connections["sales"] = Connection.from_uri("sales", URI).as_fields()

    assert rendered(stored, template) == value


@pytest.mark.parametrize("template", ["{{ var.value.region }}", "{{ var.json.region }}", "{{ conn.region.host }}"])
def test_a_template_with_an_unknown_name_fails_and_says_where_to_put_it(stored: Stored, template: str) -> None:
    with pytest.raises(TemplateError, match=r"Task 't', field 'value': There is no \w+ 'region'. Set AIOSCHED_"):
        rendered(stored, template)


def test_reading_a_secret_hides_it_from_then_on(in_a_task: Stored) -> None:
    in_a_task.variables.update(region="eu-west-1", stripe_api_key="sk-live-1", config='{"password": "opensesame"}')
    in_a_task.connections["sales"] = Connection.from_uri("sales", URI).as_fields()

    Variable.get("region")
    Variable.get("stripe_api_key")
    Variable.get("config")
    Connection.get("sales")
    Variable.set("db_password", "brandnew")

    said = "eu-west-1 sk-live-1 opensesame hunter2 sk-123 user db:5432 brandnew"
    assert secrets.redact(said) == "eu-west-1 *** *** *** *** user db:5432 ***"
