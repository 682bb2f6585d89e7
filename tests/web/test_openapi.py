"""The OpenAPI document: committed, complete, and what the API does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from aiosched.web import openapi
from tests.web.walks import COMMITTED


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document of the API as it is."""
    found: dict[str, Any] = json.loads(openapi.text())
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_the_committed_document_is_that_of_the_api() -> None:
    assert COMMITTED.read_text() == openapi.text(), "write it: python -m aiosched.web.openapi > docs/openapi.json"


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does(document: dict[str, Any]) -> None:
    names = Counter(operation["operationId"] for _, operation in operations(document))

    assert [name for name, number in names.items() if number > 1] == []
    for where, operation in operations(document):
        assert operation["summary"], where
        assert len(operation["description"]) > len("\n\nNeeds the role viewer."), where
        assert operation["tags"], where


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        assert operation["responses"]["default"] == {"$ref": "#/components/responses/Problem"}, where
        errors = {code for code in operation["responses"] if code[0] in "45"}
        assert errors <= {"503"}, where  # what is not ready says what of it


def test_every_body_has_a_shape(document: dict[str, Any]) -> None:
    untyped = [
        f"{where} {code}"
        for where, operation in operations(document)
        for code, answer in (*operation["responses"].items(), ("request", operation.get("requestBody", {})))
        for content in answer.get("content", {}).values()
        if not content.get("schema")
    ]

    assert untyped == []


def test_only_what_is_open_to_everybody_needs_no_proof(document: dict[str, Any]) -> None:
    open_to_all = {where for where, operation in operations(document) if not operation["security"]}

    assert open_to_all == {
        "get /livez", "get /readyz", "get /health", "get /metrics", "post /api/v1/login", "post /api/v1/logout",
        "post /api/v1/login/link",
        "get /api/v1/login", "get /api/v1/login/oidc", "get /api/v1/login/callback",
    }  # fmt: skip
