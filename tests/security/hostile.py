"""Hostile requests: for each operation of an OpenAPI document, parameters and bodies that are odd, huge or broken."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

Document = Mapping[str, Any]

# fmt: off
ODD_TEXTS: Final = (
    "", " ", "\0", "a\0b", "\ud800", "\u202e\u2066", "\u0661\u0662", "\u00e9" * 300, "x" * 70_000, "[" * 500, "\\",
    "../../etc/passwd", "..%2f..", "%00", "%s%n", "\r\nX-Header: 1", "$(id)", "`id`", "<script>alert(1)</script>",
    "{{ 1/0 }}", "{% for x in range(10**9) %}{% endfor %}", "' OR 1=1 --", '"; DROP TABLE dag; --',
    "(a+)+$", "((((((((((x))))))))))*", "NaN", "Infinity", "-0", "1e400", "0x10", "null", "true", "-1", "latest", "now",
    "2026-02-30", "9999-12-31T23:59:59.999999+00:00", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00+99:99", "infinity",
    "P1000000000Y", "*/0 * * * *", "@yearly", "__proto__", "constructor",
)
ODD_NUMBERS: Final = (
    0, -1, 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.1, -0.0, 1e308, 5e-324,
)
NO_NUMBERS: Final = (math.inf, -math.inf, math.nan)  # of JSON
NO_BODIES: Final = (
    b"", b"{", b'{"a":', b"null", b"1e999", b"[" * 100_000, b"[" + b"1," * 50_000 + b"1]",
    b"\xff\xfe", b"\xef\xbb\xbf{}", b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b'{"conf": {"a": 1, "a": 2}}',
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Hostile:
    """A request. `path` is quoted, below the address of the API."""

    operation: str
    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    parameters: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any] | None  # a JSON schema


class HostileRequests:
    """Makes requests from a seed. `known`: values of path parameters that exist."""

    def __init__(self, document: Document, known: Mapping[str, Sequence[Any]], seed: int) -> None:
        self._document, self._known, self._random = document, known, random.Random(seed)
        self.operations = list(operations_of(document))

    def next(self) -> Hostile:
        return self.of(self._random.choice(self.operations))

    def of(self, operation: Operation) -> Hostile:
        """A request for this operation, in which something is wrong more often than not."""
        chance, path, query = self._random, operation.path, []
        for parameter in operation.parameters:
            name, schema = parameter["name"], parameter.get("schema", {})
            if parameter["in"] == "path":
                path = path.replace(f"{{{name}}}", quote(self._path_value(name, schema), safe=""))
            elif parameter["in"] == "query" and (parameter.get("required") or chance.random() < 0.3):
                values = [self._text(schema) for _ in range(chance.choice((1, 1, 1, 2, 40)))]
                query += [f"{quote(name)}={quote(value, safe='', errors='surrogatepass')}" for value in values]
        body, headers = None, {}
        if operation.body is not None or chance.random() < 0.02:
            body = self._body(operation.body or {})
            headers["Content-Type"] = chance.choice(("application/json",) * 18 + ("text/plain", "application/x-ndjson"))
        where = f"{path}?{'&'.join(query)}" if query else path
        return Hostile(operation.id, operation.method, where[:20_000], body, headers)

    def _path_value(self, name: str, schema: Mapping[str, Any]) -> str:
        known = self._known.get(name)
        if known and self._random.random() < 0.75:
            return str(self._random.choice(known))
        text = self._text(schema).encode("utf-8", "replace").decode()[:2_000]
        return text if text not in ("", ".", "..") else "x"

    def _text(self, schema: Mapping[str, Any]) -> str:
        if self._random.random() < 0.4:
            value = self._fitting(schema)
            return value if isinstance(value, str) else json.dumps(value)
        return str(self._random.choice(self._random.choice((ODD_TEXTS, ODD_NUMBERS))))

    def _body(self, schema: Mapping[str, Any]) -> bytes:
        kind = self._random.random()
        if kind < 0.1:
            return self._no_json()
        value = self._fitting(schema) if kind < 0.75 else self.odd(3)
        if 0.2 < kind < 0.75:
            value = self.spoiled(value)
        return json.dumps(value, ensure_ascii=self._random.random() < 0.5).encode("utf-8", "surrogatepass")

    def _no_json(self) -> bytes:
        return self._random.choice((*NO_BODIES, self._random.randbytes(200)))

    def odd(self, depth: int = 3) -> Any:
        """A value that nobody expects."""
        chance = self._random
        kind = chance.randrange(9 if depth else 5)
        if kind == 0:
            return chance.choice(ODD_TEXTS)
        if kind <= 2:
            return chance.choice(ODD_NUMBERS if chance.random() < 0.9 else NO_NUMBERS)
        if kind <= 4:
            return chance.choice((None, True, False, [], {}))
        if kind == 5:
            return _nested(chance.choice((10, 63, 64, 65, 400)), chance.random() < 0.5)
        if kind == 6:
            return [self.odd(depth - 1) for _ in range(chance.choice((1, 2, 30)))]
        if kind == 7:
            return ["x" * 1_000] * chance.choice((10, 300))
        return {str(chance.choice(ODD_TEXTS))[:300]: self.odd(depth - 1) for _ in range(chance.choice((1, 3, 30)))}

    def spoiled(self, value: Any) -> Any:
        """`value` with one place in it replaced."""
        chance = self._random
        if isinstance(value, dict) and value and chance.random() < 0.8:
            key = chance.choice(list(value))
            return {**value, key: self.spoiled(value[key])}
        if isinstance(value, list) and value and chance.random() < 0.6:
            at = chance.randrange(len(value))
            return [*value[:at], self.spoiled(value[at]), *value[at + 1 :]]
        return self.odd(3)

    def _fitting(self, schema: Mapping[str, Any], depth: int = 6) -> Any:
        """A value that the schema allows, more or less."""
        chance = self._random
        if "$ref" in schema:
            return self._fitting(self._resolved(schema["$ref"]), depth - 1)
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                return self._fitting(chance.choice(schema[word]), depth - 1)
        if "enum" in schema or "const" in schema:
            return chance.choice(schema.get("enum") or [schema["const"]])
        kind = schema.get("type")
        if kind == "object":
            wanted = schema.get("required", ())
            properties = schema.get("properties", {})
            chosen = {name: one for name, one in properties.items() if name in wanted or chance.random() < 0.5}
            return {name: self._fitting(one, depth - 1) for name, one in chosen.items()} if depth else {}
        if kind == "array":
            return (
                [self._fitting(schema.get("items", {}), depth - 1) for _ in range(chance.randrange(3))] if depth else []
            )
        if kind == "integer":
            return chance.choice((0, 1, 2, 7, 100, 1_000))
        if kind == "number":
            return chance.choice((0, 0.5, 1, 12.75))
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "null":
            return None
        if schema.get("format") == "date-time":
            return chance.choice(("2026-01-01T00:00:00Z", "2026-06-30T12:00:00+02:00", "2025-12-31T23:59:59.999999Z"))
        names = [str(value) for values in self._known.values() for value in values]
        return chance.choice((*names, "a", "x1", "success", "failed"))

    def _resolved(self, reference: str) -> Mapping[str, Any]:
        found: Any = self._document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        return dict(found)


def operations_of(document: Document) -> list[Operation]:
    """Every operation of the document, in its order."""
    found = []
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            content = said.get("requestBody", {}).get("content", {})
            schema = next((one.get("schema", {}) for one in content.values()), None)
            found.append(Operation(said["operationId"], method.upper(), path, said.get("parameters", ()), schema))
    return found


def _nested(depth: int, of_objects: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if of_objects else [value]
    return value
