"""`aiosched config`: settings and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from aiosched.cli.base.options import Output
from aiosched.cli.base.output import Columns, Format, chosen, show_data, show_list, write
from aiosched.cli.base.session import load
from aiosched.errors import NotFound, did_you_mean

app: typer.Typer = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Settings.")


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One line of `config list`."""

    key: str
    value: Any
    origin: str


_COLUMNS: Final[Columns[ShownSetting]] = {"SETTING": lambda s: s.key, "VALUE": lambda s: _text(s.value)}


@app.command("list")
def list_(
    origin: Annotated[bool, typer.Option("--origin", help="Also show where each value comes from.")] = False,
    output: Output = None,
) -> None:
    """List every setting with its value."""
    loaded = load()
    settings = [ShownSetting(key, value, str(loaded.origins[key])) for key, value in loaded.values().items()]
    columns = {**_COLUMNS, "FROM": lambda s: s.origin} if origin else _COLUMNS
    show_list(settings, columns, output, empty="")


@app.command()
def get(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Such as core.parallelism.", show_default=False)],
    output: Output = None,
) -> None:
    """Show one setting."""
    loaded = load()
    values = loaded.values()
    if key not in values:
        raise NotFound(f"There is no setting {key!r}.{did_you_mean(key, values)}")
    if chosen(output) in (Format.JSON, Format.YAML):
        show_data(ShownSetting(key, values[key], str(loaded.origins[key])), chosen(output))
    else:
        write(_text(values[key]))


@app.command("get-value", hidden=True)
def get_value(section: str, option: str, output: Output = None) -> None:
    """Airflow's spelling of `get`: a setting, or an option of Airflow with the value that DAG files are told."""
    key = f"{section}.{option}"
    loaded = load()
    if key in loaded.values():
        get(key, output)
        return
    from aiosched.airflow.configuration import conf
    from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults

    use_defaults(AuthoringDefaults.of(loaded.settings))
    if not conf.has_option(section, option):
        get(key, output)
    write(conf.get(section, option))


def _text(value: Any) -> str:
    """A value as the file and the environment accept it; empty if unset."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
