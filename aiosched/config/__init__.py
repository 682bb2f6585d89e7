"""Settings, their defaults and where they come from.

The sections are in sections.py, what reads flags, environment and files in sources.py. Each name is imported on first
use: processes that run tasks get what they need in messages, and do without the settings and pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.errors import ConfigError
from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.config.bundles import BundleSettings
    from aiosched.config.secrecy import hide_password
    from aiosched.config.secret_backends import BackendSettings
    from aiosched.config.sections import (
        EXECUTOR_PLUGINS,
        EXECUTORS,
        CoreSettings,
        DagsSettings,
        DatabaseSettings,
        ExecutorSettings,
        LogLevel,
        LogSettings,
        MetricsSettings,
        ParsingSettings,
        SchedulerSettings,
        SecretsSettings,
        Settings,
        SortMode,
        WebSettings,
        WeightRule,
        XComSettings,
    )
    from aiosched.config.sources import (
        FLAGS,
        SHORT_NAMES,
        Loaded,
        Origin,
        SettingField,
        Source,
        load_settings,
        setting_fields,
        shown,
    )

_MODULES = {
    "bundles": "BundleSettings",
    "secrecy": "hide_password",
    "secret_backends": "BackendSettings",
    "sections": (
        "EXECUTORS EXECUTOR_PLUGINS CoreSettings DagsSettings DatabaseSettings ExecutorSettings LogLevel LogSettings "
        "MetricsSettings ParsingSettings SchedulerSettings SecretsSettings Settings SortMode WebSettings WeightRule "
        "XComSettings"
    ),
    "sources": "FLAGS SHORT_NAMES Loaded Origin SettingField Source load_settings setting_fields shown",
}

__getattr__, __dir__ = imported_on_demand(__name__, _MODULES)

__all__ = [
    "EXECUTORS",
    "EXECUTOR_PLUGINS",
    "FLAGS",
    "SHORT_NAMES",
    "BackendSettings",
    "BundleSettings",
    "ConfigError",
    "CoreSettings",
    "DagsSettings",
    "DatabaseSettings",
    "ExecutorSettings",
    "Loaded",
    "LogLevel",
    "LogSettings",
    "MetricsSettings",
    "Origin",
    "ParsingSettings",
    "SchedulerSettings",
    "SecretsSettings",
    "SettingField",
    "Settings",
    "SortMode",
    "Source",
    "WebSettings",
    "WeightRule",
    "XComSettings",
    "hide_password",
    "load_settings",
    "setting_fields",
    "shown",
]
