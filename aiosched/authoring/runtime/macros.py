"""What templates find under `macros`."""

from __future__ import annotations

import json
import time
import uuid
from datetime import datetime, timedelta
from random import random
from typing import Any

import dateutil.parser
import dateutil.relativedelta
import pendulum

from aiosched.authoring.plugins.loading import macros_of_plugins

__all__ = [
    "datetime",
    "datetime_diff_for_humans",
    "dateutil",
    "ds_add",
    "ds_format",
    "json",
    "pendulum",
    "random",
    "time",
    "timedelta",
    "uuid",
]


def __getattr__(name: str) -> Any:
    """The macros of the plugin with this name: `macros.<plugin>.<function>`; and `yaml`, which few files need."""
    if name == "yaml":
        import yaml

        return yaml
    if (found := macros_of_plugins().get(name)) is None:
        raise AttributeError(f"there is no macro and no plugin {name!r}")
    return found


def ds_add(ds: str, days: int) -> str:
    """The date `ds` (YYYY-MM-DD) plus `days`, which may be negative."""
    return (datetime.strptime(str(ds), "%Y-%m-%d") + timedelta(days=int(days))).strftime("%Y-%m-%d")  # noqa: DTZ007 - a date


def ds_format(ds: str, input_format: str, output_format: str) -> str:
    """The date `ds`, read by `input_format`, written by `output_format` (both as in strftime)."""
    return datetime.strptime(str(ds), input_format).strftime(output_format)  # noqa: DTZ007 - a date


def datetime_diff_for_humans(dt: datetime, since: datetime | None = None) -> str:
    """The distance between `dt` and `since` (or now) in words, such as `2 days before`."""
    moment = pendulum.instance(dt)
    return moment.diff_for_humans() if since is None else moment.diff_for_humans(pendulum.instance(since))
