"""The FastAPI application, and its OpenAPI document.

FastAPI describes the endpoints; this module adds what it does not know: errors are problems everywhere, the role that
an operation needs, and how callers authenticate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute

from aiosched.web.auth import cookies
from aiosched.web.auth.access import Role, RoleScope, Rule, rule_of

_PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
_UNUSED: Final = ("HTTPValidationError", "ValidationError")
_WHERE: Final[Mapping[RoleScope | None, str]] = {
    RoleScope.DAG: " for this DAG",
    RoleScope.SEEN: "; shows and changes only what its sender may see and change",
    RoleScope.EVERYWHERE: " everywhere",
}
_SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"session": []}]


class Application(FastAPI):
    """FastAPI with our additions to the document."""

    _document: ClassVar[dict[str, Any] | None] = None

    def openapi(self) -> dict[str, Any]:
        """The document, made once: all applications have the same routes."""
        if Application._document is None:
            Application._document = _completed(super().openapi(), _rules())
        return Application._document


def operation_id(route: APIRoute) -> str:
    """The name of the endpoint's function: stable, and unique (a test checks that)."""
    return route.name


def _rules() -> Mapping[str, Rule]:
    from aiosched.web.api import ROUTERS
    from aiosched.web.api.operation import probes

    routes = [route for router in (*ROUTERS, probes.router) for route in router.routes if isinstance(route, APIRoute)]
    return {route.name: rule for route in routes if (rule := rule_of(route.endpoint)) is not None}


def _completed(document: dict[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    parts = document["components"]
    for name in _UNUSED:
        parts["schemas"].pop(name, None)
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    parts["responses"] = {
        "Problem": {
            "description": "An error, as a problem of RFC 9457: `code` is stable, `detail` says what to do",
            "content": {"application/problem+json": {"schema": schema}},
        }
    }
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token of `aiosched tokens create`"},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookies.sent_name(cookies.SESSION, tls=True),
            "description": "The cookie of POST /api/v1/login, over plain HTTP without `__Host-`; requests that change "
            "something send X-CSRF-Token, too",
        },
    }
    for operation in _operations(document):
        operation["responses"] = {
            code: answer for code, answer in operation["responses"].items() if code not in ("default", "422")
        } | {"default": _PROBLEM}
        role, scope = rules[operation["operationId"]]
        if role is Role.PUBLIC:
            operation["security"] = []
        else:
            operation["security"] = _SECURITY
            operation["description"] += f"\n\nNeeds the role {role.word}{_WHERE.get(scope, '')}."
        operation["summary"] = operation["description"].partition("\n")[0].partition(". ")[0].removesuffix(".")
    return document


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()
