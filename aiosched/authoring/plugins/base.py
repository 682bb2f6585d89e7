"""`Plugin`: the base class of plugins, and which of its attributes have an effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from aiosched.errors import AioschedError

_WEB: Final = "the web UI and the API of aiosched take no parts from plugins; run an application of your own beside it"
_LINKS: Final = "name the links in the class of the operator (operator_extra_links)"

WITHOUT_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "admin_views": _WEB,
        "appbuilder_menu_items": _WEB,
        "appbuilder_views": _WEB,
        "external_views": _WEB,
        "fastapi_apps": _WEB,
        "fastapi_root_middlewares": _WEB,
        "flask_blueprints": _WEB,
        "menu_links": _WEB,
        "react_apps": _WEB,
        "global_operator_extra_links": _LINKS,
        "operator_extra_links": _LINKS,
        "executors": "executors are chosen by settings (executor.name, executor.class)",
        "hook_lineage_readers": "aiosched collects no lineage",
    }
)
"""Attributes that are refused: the reason, and what to do instead."""


class Plugin:
    """The base class of plugins: a subclass in the plugins folder, or named by an entry point, is loaded.

    `macros` are functions that templates call as `macros.<name>.<function>`; `listeners` are modules or objects with
    functions that `hookimpl` marks. Classes in `timetables`, `priority_weight_strategies` and the like need no
    plugin: DAG files import them, and the plugins folder is on their path. Everything else is refused with a reason.
    """

    name: ClassVar[str | None] = None
    macros: ClassVar[Sequence[Any]] = ()
    listeners: ClassVar[Sequence[Any]] = ()
    timetables: ClassVar[Sequence[Any]] = ()
    priority_weight_strategies: ClassVar[Sequence[Any]] = ()
    partition_mappers: ClassVar[Sequence[Any]] = ()
    windows: ClassVar[Sequence[Any]] = ()
    deadline_references: ClassVar[Sequence[Any]] = ()

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Called once in each process that loads the plugin."""

    @classmethod
    def validate(cls) -> None:
        """Raise PluginError for a plugin without a name."""
        if not cls.name:
            raise PluginError(f"The plugin {cls.__name__} has no name. Give it one: name = '…'.")


class PluginError(AioschedError):
    """A plugin that cannot be used."""
