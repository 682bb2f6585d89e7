"""Settings of alerts: notifiers by name, and rules. What a rule may say is checked when it is stored (core/alerts)."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

NOTIFIER_KINDS: Final = ("mail", "webhook")
_CLASS_PATH: Final = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
_NAME: Final = r"^[A-Za-z0-9_.-]{1,100}$"


class NotifierSettings(BaseModel):
    """One notifier: its name for rules, its kind, and the arguments of that kind."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    name: str = Field(pattern=_NAME, description="by which rules refer to it")
    kind: str = Field(description="mail, webhook, or the path of a class of notifiers, such as package.SlackNotifier")

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in NOTIFIER_KINDS and not _CLASS_PATH.match(kind):
            raise ValueError(f"{kind!r} is no notifier: give mail, webhook, or the path of a class, package.Notifier")
        return kind

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of its kind."""
        return dict(self.model_extra or {})


class AlertRuleSettings(BaseModel):
    """One rule, as in the API."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=_NAME, description="name of the rule")
    kind: str = Field(description="what it watches, such as run_failed")
    notifier: str = Field(pattern=_NAME, description="name of one of `alerts.notifiers`")
    dags: list[str] = Field(default=[], max_length=100, description="globs of DAG ids; empty: all DAGs")
    tags: list[str] = Field(default=[], max_length=100, description="tags, one of which a DAG needs; empty: any")
    owners: list[str] = Field(default=[], max_length=100, description="owners of DAGs; empty: any")
    run_types: list[str] = Field(
        default=[], max_length=10, description="types of runs, such as scheduled; empty: all, also manual and backfill"
    )
    severity: str = Field(default="warning", description="info, warning or critical; messages have it")
    seconds: float | None = Field(default=None, ge=0, le=1e9, description="seconds that it lasts at least")
    factor: float | None = Field(default=None, ge=1, le=1000, description="times the usual p95 of the DAG's runs")
    remind_seconds: float | None = Field(
        default=None, ge=60, le=1e9, description="seconds between reminders; unset: none"
    )
    quiet_from: str | None = Field(default=None, description="begin of the quiet hours, HH:MM")
    quiet_until: str | None = Field(default=None, description="end of the quiet hours, HH:MM")
    time_zone: str = Field(default="UTC", max_length=100, description="time zone of the quiet hours")


def read_tables(value: Any) -> Any:
    """A list of tables; from the environment it is JSON."""
    if not isinstance(value, str):
        return value
    try:
        value = json.loads(value)
    except ValueError:
        value = None
    if not isinstance(value, list):
        raise ValueError('must be a JSON list such as [{"name": "ops", "kind": "mail", "to": "ops@example.com"}]')
    return value


def no_two_of_a_name(tables: list[Any]) -> list[Any]:
    """The tables, if each has a name of its own."""
    names = [table.name for table in tables]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"must have {twice!r} only once: give the other one another name")
    return tables


def shown_notifiers(value: Any) -> Any:
    """Only names and kinds: the arguments of a notifier may hold its login."""
    if not isinstance(value, list):
        return "***"
    return [f"{one.name}: {one.kind}" if isinstance(one, NotifierSettings) else "***" for one in value]


def shown_rules(value: Any) -> Any:
    """Rules as tables, with what they say."""
    if not isinstance(value, list):
        return value
    return [one.model_dump(exclude_defaults=True) if isinstance(one, AlertRuleSettings) else one for one in value]
