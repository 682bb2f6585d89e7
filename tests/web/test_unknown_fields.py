"""A body with a field that a request does not have: the field is named, and nothing is done."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run
from tests.web.walks import DOCUMENT


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        (
            "POST",
            "dags/sales/runs",
            {"config": {"day": 3}, "logicaldate": "2026-01-01T00:00:00Z"},
            (
                "body.config: there is no such field. Did you mean conf?; "
                "body.logicaldate: there is no such field. Did you mean logical_date?"
            ),
        ),
        (
            "PUT",
            "pools/x",
            {"slots": 3, "include_defered": True},
            "body.include_defered: there is no such field. Did you mean include_deferred?",
        ),
        ("POST", "dags/sales/runs/r1/cancel", {"q": 1}, "body.q: there is no such field."),
        (
            "PUT",
            "connections/c",
            {"conn_type": "http", "schema_": "x"},
            "body.schema_: there is no such field. Did you mean schema?",
        ),
        (
            "POST",
            "bulk",
            {"action": "clear", "runs": [{"dag_id": "sales", "run": "r1"}]},
            "body.runs.0.run: there is no such field. Did you mean run_id?",
        ),
    ],
)
async def test_an_unknown_field_is_refused_with_the_one_probably_meant(
    db: Database, api: httpx2.AsyncClient, method: str, path: str, body: dict[str, Any], expected: str
) -> None:
    await add_run(db, "sales", await add_dag(db, "sales"), "r1")

    answer = await api.request(method, path, json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "unusable-request"), answer.text
    assert answer.json()["detail"] == expected
    assert [run["run_id"] for run in (await api.get("runs")).json()["items"]] == ["r1"]
    assert (await api.get("pools/x")).status_code == 404
    assert (await api.get("commands")).json()["items"] == []


def test_every_body_refuses_unknown_fields_and_no_answer_does() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    def names(value: Any) -> set[str]:
        """The schemas that a part of the document refers to, and those that these refer to."""
        found, waiting = set(), [value]
        while waiting:
            match waiting.pop():
                case {"$ref": str(where)} if (name := where.rpartition("/")[2]) in schemas and name not in found:
                    found.add(name)
                    waiting.append(schemas[name])
                case dict(each):
                    waiting += each.values()
                case list(each):
                    waiting += each
        return found

    operations = [
        one for path, methods in DOCUMENT["paths"].items() if path.startswith("/api/v1/") for one in methods.values()
    ]
    bodies = names([one.get("requestBody") for one in operations])
    answers = names([one["responses"] for one in operations])
    strict = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    objects = {name for name in bodies if schemas[name].get("type") == "object"}

    assert strict == objects
    assert not strict & answers
