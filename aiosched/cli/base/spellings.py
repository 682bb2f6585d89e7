"""Airflow's spellings of options, accepted but not shown in any help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand


def understanding(
    options: Mapping[str, str], words: Mapping[str, Mapping[str, str]] | None = None
) -> type[TyperCommand]:
    """A command class that also accepts `options` (Airflow's name to ours; "": it changes nothing here) and other
    `words` as values of our options."""

    class Understanding(TyperCommand):
        spelled: ClassVar[Mapping[str, str]] = options
        values: ClassVar[Mapping[str, Mapping[str, str]]] = words or {}

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, self._translated(args))

        def _translated(self, args: list[str]) -> list[str]:
            translated: list[str] = []
            for arg in args:
                name, equals, value = arg.partition("=")
                before = translated[-1] if translated else ""
                if self.spelled.get(name) == "":
                    continue
                if name in self.spelled and not equals:
                    translated.append(self.spelled[name])
                elif name in self.spelled:
                    translated += [self.spelled[name], self.values.get(self.spelled[name], {}).get(value, value)]
                else:
                    translated.append(self.values.get(before, {}).get(arg, arg))
            return translated

    return Understanding


UNASKED = understanding({"--yes": "", "-y": ""})  # for a command that asks nothing, beside others that do
