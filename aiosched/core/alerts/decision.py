"""What to do about alerts, from the rules, what is true now, and the alerts that are open. Pure.

A rule and a subject (a DAG, a run, a file, a pool, a scheduler) have one open alert at most. It is announced when it
opens, again every `remind_seconds` if the rule wants that, and when it has recovered. What is to be said waits while
the rule's quiet hours or a silence (silences.py) last; an alert that has recovered by then, and was never announced,
is not mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from aiosched.core.alerts.rules import DEFAULT_FACTOR, EVENTS, AlertKind, AlertRule, DagLabels, Labels

FIRST_PAUSE: Final = 30.0  # seconds after a delivery that failed; doubled with each one in a row
LONGEST_PAUSE: Final = 3600.0


class AlertMessage(StrEnum):
    """What is said about an alert."""

    OPENED = "opened"
    REMINDER = "reminder"
    RECOVERED = "recovered"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that rules watch: an event `at` an instant, or a state since then.

    `seconds` is how long a state has lasted, `usual` how long it usually lasts.

    `dag_ids`: the DAGs that it concerns; for a file those that it has, none for what concerns the fleet.
    """

    kind: AlertKind
    subject: str
    text: str
    at: datetime
    dag_ids: tuple[str, ...] = ()
    run_id: str | None = None
    seconds: float = 0.0
    usual: float | None = None
    run_type: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts. `cut`: kinds of which not all could be read; `over`: subjects that have recovered."""

    found: Sequence[Fact] = ()
    labels: Labels = field(default_factory=dict)
    over: Collection[tuple[AlertKind, str]] = frozenset()
    cut: Collection[AlertKind] = frozenset()


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that is open, or whose last message is still to be delivered.

    `owes` is the message to deliver, not before `deliver_at`; `in_flight`: its delivery is under way. `told_at` is when
    a message was delivered last; `last_at` is its newest event.
    """

    id: int
    rule: int
    subject: str
    opened_at: datetime
    last_at: datetime
    recovered_at: datetime | None = None
    owes: AlertMessage | None = None
    deliver_at: datetime | None = None
    in_flight: bool = False
    told_at: datetime | None = None
    failures: int = 0
    dag_ids: tuple[str, ...] = ()
    is_acknowledged: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has not recovered."""
        return self.recovered_at is None

    @property
    def was_held(self) -> bool:
        """Whether nobody has been told of it, only because of quiet hours or a silence."""
        held = self.deliver_at is None or self.deliver_at > self.opened_at
        return self.told_at is None and not self.in_flight and not self.failures and held


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """Open an alert, and announce it at `deliver_at`; None: it is silenced."""

    rule: AlertRule
    fact: Fact
    deliver_at: datetime | None


@dataclass(frozen=True, slots=True)
class RepeatAlert:
    """An open alert has another event."""

    alert: int
    fact: Fact


@dataclass(frozen=True, slots=True)
class UpdateAlert:
    """An open alert has another message to deliver, or (None) no more. `recovers`: the alert ends."""

    alert: int
    message: AlertMessage | None
    deliver_at: datetime | None
    recovers: bool = False


Change = OpenAlert | RepeatAlert | UpdateAlert
IsSilenced = Callable[[int, str, Collection[str]], bool]  # of a rule, a subject and its DAGs
Handled = Mapping[tuple[int, str], datetime]  # the newest event of a rule and subject that has been acted on


def _nothing_silenced(rule: int, subject: str, dag_ids: Collection[str]) -> bool:
    return False


def decide(
    rules: Iterable[AlertRule],
    facts: Facts,
    alerts: Collection[Alert],
    now: datetime,
    *,
    handled: Handled,
    is_silenced: IsSilenced = _nothing_silenced,
) -> list[Change]:
    """What changes about alerts: those that open, have another event, are to be mentioned again, or have recovered."""
    changes: list[Change] = []
    open_alerts: dict[int, dict[str, Alert]] = {}
    for alert in alerts:
        if alert.is_open:
            open_alerts.setdefault(alert.rule, {})[alert.subject] = alert
    for rule in rules:
        changes += _of_rule(rule, facts, open_alerts.get(rule.id, {}), now, handled, is_silenced)
    return changes


def _of_rule(
    rule: AlertRule,
    facts: Facts,
    there: Mapping[str, Alert],
    now: datetime,
    handled: Handled,
    is_silenced: IsSilenced,
) -> Iterator[Change]:
    met = {fact.subject: fact for fact in _newest_last(facts.found) if meets(rule, fact, facts.labels)}
    for subject, fact in met.items():
        if subject in there:
            if rule.kind in EVENTS and fact.at > there[subject].last_at:
                yield RepeatAlert(there[subject].id, fact)
        elif rule.kind not in EVENTS or fact.at > handled.get((rule.id, subject), rule.since):
            silenced = is_silenced(rule.id, subject, fact.dag_ids)
            yield OpenAlert(rule, fact, None if silenced else rule.allows(now))
    for alert in there.values():
        if _is_over(rule, facts, alert, met):
            yield _recovery(rule, alert, now)
        elif _is_to_remind(rule, alert, now):
            yield UpdateAlert(alert.id, AlertMessage.REMINDER, rule.allows(now))


def _newest_last(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: fact.at)


def meets(rule: AlertRule, fact: Fact, labels: Labels) -> bool:
    """Whether a fact is what the rule watches."""
    if rule.kind is not fact.kind:
        return False
    if rule.run_types and fact.run_type is not None and fact.run_type not in rule.run_types:
        return False
    if not rule.selection.is_all and not any(
        rule.selection.has(dag_id, labels.get(dag_id, DagLabels())) for dag_id in fact.dag_ids
    ):
        return False
    if rule.kind is AlertKind.RUN_LONG:
        return _is_long(rule, fact)
    return fact.seconds >= rule.least_seconds


def _is_long(rule: AlertRule, fact: Fact) -> bool:
    """Longer than so many times what is usual, or than so many seconds more than that; each if the rule has it."""
    if fact.usual is None:  # too few runs say what is usual
        return False
    factor = DEFAULT_FACTOR if rule.factor is None and rule.seconds is None else rule.factor
    by_factor = factor is not None and fact.seconds > factor * fact.usual
    return by_factor or (rule.seconds is not None and fact.seconds > fact.usual + rule.seconds)


def _is_over(rule: AlertRule, facts: Facts, alert: Alert, met: Mapping[str, Fact]) -> bool:
    if rule.kind in EVENTS:
        newest = met.get(alert.subject)
        return (rule.kind, alert.subject) in facts.over and (newest is None or newest.at <= alert.last_at)
    return alert.subject not in met and rule.kind not in facts.cut


def _recovery(rule: AlertRule, alert: Alert, now: datetime) -> UpdateAlert:
    if alert.was_held:
        return UpdateAlert(alert.id, None, None, recovers=True)
    again = alert.deliver_at if alert.failures and alert.deliver_at is not None else now  # it goes on pausing
    return UpdateAlert(alert.id, AlertMessage.RECOVERED, rule.allows(max(now, again)), recovers=True)


def _is_to_remind(rule: AlertRule, alert: Alert, now: datetime) -> bool:
    if alert.is_acknowledged or rule.remind_seconds is None or alert.told_at is None or alert.owes is not None:
        return False
    return (now - alert.told_at).total_seconds() >= rule.remind_seconds


def due(
    rules: Mapping[int, AlertRule],
    alerts: Iterable[Alert],
    now: datetime,
    *,
    is_silenced: IsSilenced = _nothing_silenced,
) -> list[Alert]:
    """The alerts of which something is to be said now. Tests of a rule know no quiet hours and no silences."""
    return [
        alert
        for alert in alerts
        if alert.owes is not None
        and not alert.in_flight
        and alert.rule in rules
        and (alert.deliver_at is None or alert.deliver_at <= now)
        and (
            alert.owes is AlertMessage.TEST
            or (rules[alert.rule].allows(now) <= now and not is_silenced(alert.rule, alert.subject, alert.dag_ids))
        )
    ]


def pause_after(failures: int) -> float:
    """Seconds until the next delivery after so many failures in a row."""
    return float(min(FIRST_PAUSE * 2 ** min(max(failures - 1, 0), 20), LONGEST_PAUSE))
