"""`aiosched airflow …`: reads Airflow's words, and runs what `answers.toml` says for them, in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand

from aiosched.cli.airflow import actions, installing
from aiosched.cli.airflow.answers import RefusedCall, answer_of, modern, translate
from aiosched.cli.airflow.commands import Unreadable, command_of, forms, read
from aiosched.cli.airflow.ours import Ours
from aiosched.cli.airflow.shown import FORMATS
from aiosched.cli.base.options import UsageProblem, read_json
from aiosched.cli.base.output import talk
from aiosched.cli.lazy import wants_traceback
from aiosched.errors import AioschedError, did_you_mean

USAGE: Final = 2
_SIGNALS: Final = 128  # exit codes from here on are those of signals
_UNREAD: Final = ("AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__CORE__FERNET_KEY")  # not named by the warning of services


class _Words(TyperCommand):
    """All words after the command are its own: options, `--help` and `--`, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = list(args)
        return super().parse_args(ctx, [])


app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=_Words)
def airflow(context: typer.Context) -> None:
    """Answer the words of Airflow's command line, of 1.10, 2 and 3."""
    words: list[str] = context.obj
    if words[:1] == [installing.WORD]:
        installing.install_command(words[1:])
        return
    sys.exit(answered(words, Ours(context.find_root().command)))


def answered(words: Sequence[str], ours: Ours) -> int:
    """Do what Airflow's words say; returns Airflow's exit code: 0, 1 or 2, or that of a signal."""
    try:
        code = _do(words, ours)
    except (RefusedCall, Unreadable) as error:
        usage = error.usage if isinstance(error, Unreadable) else ""
        talk(f"{usage}error: {error}")
        return USAGE
    except UsageProblem as error:
        talk(f"error: {error}")
        return USAGE
    except AioschedError as error:
        if wants_traceback():
            raise
        talk(f"error: {error}")
        return 1
    except SystemExit as ended:  # of one of aiosched's commands, which has said why
        code = ended.code if isinstance(ended.code, int) else 1
    return code if code in (0, USAGE) or code >= _SIGNALS else 1


def _do(words: Sequence[str], ours: Ours) -> int:
    command, rest = command_of(words)
    if command is None:
        return _without_command(words)
    if {"-h", "--help"} & set(rest[: rest.index("--")] if "--" in rest else rest):
        return _help(command)
    _, answer = answer_of(command)
    call = read(command, rest)
    if answer.modes:
        call = modern(call, answer)
        _, answer = answer_of(call.command)
    if answer.instead:
        raise RefusedCall(f"`airflow {command}` is not answered by aiosched: {answer.instead}.")
    output = call.text("output")
    if output is not None and output not in FORMATS:
        raise UsageProblem(f"-o {output}: there are {', '.join(FORMATS)}.{did_you_mean(output, FORMATS)}")
    done = translate(call, answer)
    for warning in done.warnings:
        talk(f"warning: {warning}")
    for option, text in done.environment.items():
        os.environ.update({key: str(value) for key, value in _object(text, f"--{option}").items()})
    if answer.settings:
        _warn_of_settings()
    work = actions.Work(call, answer, done.words, ours)
    if answer.by:
        act: Callable[[actions.Work], int | None] = getattr(actions, answer.by)
        return act(work) or 0
    return work.show() if answer.columns else ours.run(done.words)


def _without_command(words: Sequence[str]) -> int:
    group = [name for name in forms() if words and name.startswith(f"{words[0]} ")]
    if words and not words[0].startswith("-") and not group:
        raise Unreadable(f"airflow {words[0]}: no such command.{did_you_mean(words[0], forms())}")
    if group and len(words) > 1 and words[1] not in {"-h", "--help"}:
        names = [name.partition(" ")[2] for name in group]
        raise Unreadable(f"airflow {words[0]} {words[1]}: no such command.{did_you_mean(words[1], names)}")
    group_name = f" {words[0]}" if group else ""
    sys.stdout.write(f"Usage: aiosched airflow{group_name} COMMAND [ARGUMENTS]\n\n")
    actions.list_commands(group or forms())
    if not group:
        sys.stdout.write(f"\n{installing.WORD}: makes a program `airflow` that answers these words\n")
    return 0 if words and words[-1] in {"-h", "--help"} else USAGE


def _help(command: str) -> int:
    name, answer = answer_of(command)
    for form in forms()[command]:
        sys.stdout.write(form.parser().format_usage())
    sys.stdout.write(f"here: {answer.in_words or answer.instead or answer.note or f'as `airflow {name}`'}\n")
    for argument in dict.fromkeys(each.name for form in forms()[command] for each in form.arguments if each.flags):
        meaning = answer.meaning(argument) or ""
        if meaning[:1] in {"~", "!"}:
            sys.stdout.write(f"  --{argument}: {'no effect' if meaning[0] == '~' else 'refused'}: {meaning[1:]}\n")
    return 0


def _object(text: str, option: str) -> dict[str, Any]:
    found = read_json(text, option)
    if not isinstance(found, dict):
        raise UsageProblem(f"{option} must be a JSON object.")
    return found


def _warn_of_settings() -> None:
    """Say that settings of Airflow in the environment have no effect here: its database is another one, too."""
    unread = sorted(name for name in os.environ if name.startswith("AIRFLOW__") and name not in _UNREAD)
    if unread:
        some = ", ".join(unread[:3]) + (", …" if len(unread) > 3 else "")
        talk(f"warning: settings of Airflow are not read here ({some}): `aiosched migrate airflow` translates them")
