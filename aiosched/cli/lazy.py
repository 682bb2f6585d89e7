"""A command group that imports a command only when it is run.

Help and completion of the root need only names and one line for each command, which are in a table; so `aiosched
--help` imports no command. This is also the one place where our errors become a line on stderr and an exit code.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup

from aiosched.errors import AioschedError, ConfigError
from aiosched.logs import writes_json

logger: logging.Logger = logging.getLogger(__name__)

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})  # of a file that is written
UsageError: Any = typer.BadParameter.__base__  # typer carries its own click and does not export it


@dataclass(frozen=True, slots=True)
class Entry:
    """The module of a command and its line in the root's help."""

    module: str  # has a typer application named `app`
    help: str
    panel: str = ""
    hidden: bool = False
    arguments: tuple[str, ...] = ()  # inserted before the typed arguments, for aliases


class LazyGroup(TyperGroup):
    """The root. Subclasses set `entries`: all command names, in the order of the help."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperGroup(name=name, help=entry.help, hidden=entry.hidden) for name, entry in self.entries.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Load the real command in place of its placeholder."""
        if args and (entry := self.entry(args)):
            return args[0], command_of(entry.module), [*entry.arguments, *args[1:]]
        if args and not ctx.resilient_parsing:
            from aiosched.cli.suggestions import near_commands

            if meant := near_commands(args[0], self._visible()):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, meant))}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """As click's; the error of a misspelt value, option or command names the near ones."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            from aiosched.cli.suggestions import meant_options, near_options, with_command, with_suggestion

            error.message = with_suggestion(error.message)
            if (possible := getattr(error, "possibilities", None)) is not None:
                error.possibilities = near_options(error.option_name, possible)
            if (name := getattr(error, "option_name", None)) is not None and error.ctx is not None:
                known = [option for param in error.ctx.command.params for option in param.opts]
                error.possibilities = meant_options(name, known) or getattr(error, "possibilities", None)
            if error.ctx is not None and (entry := self.entries.get(error.ctx.info_name or "")) is not None:
                group = next(name for name, each in self.entries.items() if each.module == entry.module)
                error.message = with_command(error.message, group, self._visible())
            raise

    def _visible(self) -> dict[str, Any]:
        """The commands of the help, imported."""
        return {name: command_of(entry.module) for name, entry in self.entries.items() if not entry.hidden}

    def entry(self, args: Sequence[str]) -> Entry | None:
        """The entry that the arguments `args` name."""
        return self.entries.get(args[0])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if not entry.hidden:
                panels.setdefault(entry.panel, []).append((name, entry.help))
        width = max(len(name) for rows in panels.values() for name, _ in rows)
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As click's `main`, but our errors become one clear line on stderr and an exit code.

        With `--debug` (or AIOSCHED_DEBUG=1) the traceback is shown as well.
        """
        try:
            return super().main(*args, **kwargs)
        except Exception as error:
            ours = _ours(error) or _unwritable(error) or _not_utf8(error, kwargs.get("args") or sys.argv[1:])
            if ours is None:
                raise
            if wants_traceback():
                sys.excepthook(type(error), error, error.__traceback__)
            elif writes_json():
                logger.critical("%s", ours)
            else:
                from aiosched.cli.base.output import talk

                talk(f"error: {ours}")
            sys.exit(ours.exit_code)


@cache
def command_of(module: str) -> Any:
    """The command of a module; made once, since typer reads the types of all its parameters for it."""
    command = typer.main.get_command(import_module(module).app)
    add_wide(command)
    return command


def add_wide(command: Any) -> None:
    """Give each command that has `--output` the option `--wide`, too."""
    for each in getattr(command, "commands", {}).values():
        add_wide(each)
    if any(param.name == "output" for param in command.params):
        from aiosched.cli.base.wide import wide_option

        command.params.append(wide_option())


def _ours(error: BaseException) -> AioschedError | None:
    """Our error in `error`, which can be an exception group; None if the group has other errors, too."""
    if isinstance(error, BaseExceptionGroup):
        found = [_ours(inner) for inner in error.exceptions]
        return None if None in found else found[0]
    return error if isinstance(error, AioschedError) else None


def _unwritable(error: Exception) -> AioschedError | None:
    """What to say of an error, if the output cannot be written: of files, those that open say which."""
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in _FULL:
        return None
    return AioschedError(f"The output cannot be written: {error.strerror}.")


def _not_utf8(error: Exception, argv: Sequence[str]) -> AioschedError | None:
    """What to say of an error, if it may be because of an argument that is not UTF-8. Names of files may be so."""
    odd = next((word for word in argv if not word.isascii() and word.encode(errors="ignore").decode() != word), None)
    if odd is None or isinstance(error, typer.Exit | typer.Abort):
        return None
    return ConfigError(f"{odd!r} is not UTF-8, so nothing has that name: write it in UTF-8.")


def wants_traceback() -> bool:
    """Whether `--debug` was given; sets the variable, so that child processes know it, too."""
    return os.environ.get("AIOSCHED_DEBUG", "0") not in {"", "0"}
