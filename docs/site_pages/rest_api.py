"""The directive `rest-api`: every address of the REST API and every model, from docs/openapi.json."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from site_pages.generated import Generated, cell


class RestApi(Generated):
    """A section for each tag, with its addresses, and one for the models."""

    def markdown(self) -> str:
        """Sections of addresses and of models."""
        document = json.loads((Path(self.env.srcdir) / "openapi.json").read_text(encoding="utf-8"))
        self.env.note_dependency("openapi.json")
        return "\n".join([*_addresses(document["paths"]), *_models(document["components"]["schemas"])])


def _addresses(paths: dict[str, Any]) -> list[str]:
    operations = sorted(
        (
            ((operation.get("tags") or ["other"])[0], path, method, operation)
            for path, methods in paths.items()
            for method, operation in methods.items()
        ),
        key=lambda one: one[:3],
    )
    lines: list[str] = []
    for tag, group in groupby(operations, key=lambda one: one[0]):
        lines += [f"## {tag.capitalize()}", ""]
        for _, path, method, operation in group:
            lines += [f"### {method.upper()} {_escaped(path)}", ""]
            lines += [_escaped(operation.get("description") or operation.get("summary", "")), ""]
            lines += _parameters(operation.get("parameters", []))
            lines += _bodies(operation)
    return lines


def _parameters(parameters: list[dict[str, Any]]) -> list[str]:
    if not parameters:
        return []
    rows = [
        f"| `{one['name']}` | {one['in']} | {_type(one.get('schema', {}))} | {cell(_escaped(words))} |"
        for one in parameters
        for words in [one.get("description", "")]
    ]
    return ["| parameter | in | type | |", "|---|---|---|---|", *rows, ""]


def _bodies(operation: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for content in operation.get("requestBody", {}).get("content", {}).values():
        lines += [f"Body: {_type(content.get('schema', {}))}", ""]
    for status, answer in operation.get("responses", {}).items():
        for content in answer.get("content", {}).values():
            if status.startswith("2"):
                lines += [f"Answer {status}: {_type(content.get('schema', {}))}", ""]
    return lines


def _models(schemas: dict[str, Any]) -> list[str]:
    lines = ["## Models", ""]
    for name, schema in sorted(schemas.items()):
        lines += [f"### {name}", "", _escaped(schema.get("description", "")), ""]
        if "enum" in schema:
            lines += [_type(schema), ""]
        required = set(schema.get("required", ()))
        if properties := schema.get("properties"):
            lines += ["| field | type | |", "|---|---|---|"]
            for field, about in properties.items():
                words = about.get("description", "") + ("" if field in required else " (optional)")
                lines.append(f"| `{field}` | {_type(about)} | {cell(_escaped(words))} |")
            lines.append("")
    return lines


def _type(schema: dict[str, Any]) -> str:
    """A type in words, with links to models."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def _escaped(text: str) -> str:
    for sign in "*[]<":
        text = text.replace(sign, "\\" + sign)
    return text
