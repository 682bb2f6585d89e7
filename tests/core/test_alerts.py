"""Alerts: which rules are met, and what is to be said."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.alerts.decision import (
    LONGEST_PAUSE,
    Alert,
    AlertMessage,
    Change,
    Fact,
    Facts,
    OpenAlert,
    RepeatAlert,
    UpdateAlert,
    decide,
    due,
    meets,
    pause_after,
)
from aiosched.core.alerts.rules import AlertKind, AlertRule, DagLabels, DagSelection, problem_of, quiet_hours
from aiosched.core.alerts.silences import Silence, problem_of_silence, silent_until

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NIGHT = NOON + timedelta(hours=11)
SECOND = timedelta(seconds=1)


def a_rule(kind: AlertKind = AlertKind.RUN_LATE, **fields: object) -> AlertRule:
    return replace(AlertRule(1, "one", kind, "ops", since=NOON - timedelta(days=1)), **fields)  # type: ignore[arg-type]


def a_fact(kind: AlertKind = AlertKind.RUN_LATE, subject: str = "sales", **fields: object) -> Fact:
    return replace(Fact(kind, subject, "it is so", NOON, (subject,), seconds=100.0), **fields)  # type: ignore[arg-type]


def an_alert(**fields: object) -> Alert:
    return replace(Alert(7, 1, "sales", opened_at=NOON, last_at=NOON), **fields)  # type: ignore[arg-type]


def changes(rule: AlertRule, *facts: Fact, alerts: tuple[Alert, ...] = (), now: datetime = NOON, over: bool = False,
            cut: bool = False) -> list[Change]:  # fmt: skip
    known = Facts(facts, over={(rule.kind, "sales")} if over else (), cut={rule.kind} if cut else ())
    return decide([rule], known, alerts, now, handled={})


@pytest.mark.parametrize(
    ("selection", "is_met"),
    [
        (DagSelection(), True),
        (DagSelection(dags=("sa*",)), True),
        (DagSelection(dags=("other", "SALES")), False),
        (DagSelection(tags=("etl", "gold")), True),
        (DagSelection(tags=("etl",)), False),
        (DagSelection(owners=("ann",)), True),
        (DagSelection(owners=("bob",)), False),
        (DagSelection(dags=("sa*",), tags=("gold",), owners=("bob",)), False),
    ],
)
def test_a_rule_selects_by_id_tag_and_owner(selection: DagSelection, is_met: bool) -> None:
    labels = {"sales": DagLabels(("gold",), "ann")}

    assert meets(a_rule(selection=selection), a_fact(), labels) is is_met


@pytest.mark.parametrize(
    ("rule", "fact", "is_met"),
    [
        (a_rule(seconds=100.0), a_fact(), True),
        (a_rule(seconds=101.0), a_fact(), False),
        (a_rule(), a_fact(seconds=59.0), False),
        (a_rule(AlertKind.POOL_STARVING), a_fact(AlertKind.POOL_STARVING, dag_ids=()), False),
        (a_rule(AlertKind.POOL_STARVING, seconds=60.0), a_fact(AlertKind.POOL_STARVING, dag_ids=()), True),
        (a_rule(AlertKind.RUN_LONG), a_fact(AlertKind.RUN_LONG, usual=60.0), True),
        (a_rule(AlertKind.RUN_LONG), a_fact(AlertKind.RUN_LONG, usual=70.0), False),
        (a_rule(AlertKind.RUN_LONG), a_fact(AlertKind.RUN_LONG), False),
        (a_rule(AlertKind.RUN_LONG, factor=3.0), a_fact(AlertKind.RUN_LONG, usual=60.0), False),
        (a_rule(AlertKind.RUN_LONG, factor=3.0, seconds=30.0), a_fact(AlertKind.RUN_LONG, usual=60.0), True),
        (a_rule(AlertKind.RUN_LONG, seconds=40.0), a_fact(AlertKind.RUN_LONG, usual=60.0), False),
        (a_rule(AlertKind.RUN_LONG, seconds=39.0), a_fact(AlertKind.RUN_LONG, usual=60.0), True),
        (a_rule(AlertKind.RUN_FAILED), a_fact(), False),
        (a_rule(run_types=("scheduled",)), a_fact(run_type="scheduled"), True),
        (a_rule(run_types=("scheduled",)), a_fact(run_type="backfill"), False),
        (a_rule(run_types=("scheduled",)), a_fact(), True),
    ],
)
def test_a_rule_is_met_by_what_lasts_long_enough(rule: AlertRule, fact: Fact, is_met: bool) -> None:
    assert meets(rule, fact, {}) is is_met


def test_what_is_true_opens_one_alert_and_no_second_one() -> None:
    rule, fact = a_rule(), a_fact()

    assert changes(rule, fact) == [OpenAlert(rule, fact, NOON)]
    assert changes(rule, fact, alerts=(an_alert(),)) == []


def test_what_is_no_longer_true_has_recovered_unless_not_everything_was_read() -> None:
    told = an_alert(told_at=NOON)

    assert changes(a_rule(), alerts=(told,)) == [UpdateAlert(7, AlertMessage.RECOVERED, NOON, recovers=True)]
    assert changes(a_rule(), alerts=(told,), cut=True) == []


def test_an_event_opens_an_alert_even_if_it_is_over_and_the_next_pass_recovers_it() -> None:
    rule, fact = a_rule(AlertKind.RUN_FAILED), a_fact(AlertKind.RUN_FAILED)

    assert changes(rule, fact, over=True) == [OpenAlert(rule, fact, NOON)]
    assert changes(rule, fact, over=True, alerts=(an_alert(told_at=NOON),)) == [
        UpdateAlert(7, AlertMessage.RECOVERED, NOON, recovers=True)
    ]
    assert changes(rule, fact, alerts=(an_alert(told_at=NOON),)) == []


def test_an_event_that_was_acted_on_or_is_older_than_its_rule_opens_nothing() -> None:
    rule, fact = a_rule(AlertKind.RUN_FAILED), a_fact(AlertKind.RUN_FAILED)

    assert decide([rule], Facts([fact]), [], NOON, handled={(1, "sales"): NOON}) == []
    assert decide([replace(rule, since=NOON)], Facts([fact]), [], NOON, handled={}) == []
    assert decide([rule], Facts([fact]), [], NOON, handled={(1, "sales"): NOON - SECOND}) != []


def test_a_newer_event_belongs_to_the_open_alert() -> None:
    rule, fact = a_rule(AlertKind.RUN_FAILED), a_fact(AlertKind.RUN_FAILED, at=NOON + SECOND)

    assert changes(rule, fact, alerts=(an_alert(),), over=True) == [RepeatAlert(7, fact)]


def test_a_reminder_is_due_so_long_after_the_last_delivery() -> None:
    rule, told = a_rule(remind_seconds=600.0), an_alert(told_at=NOON)

    later = NOON + timedelta(minutes=10)
    assert changes(rule, a_fact(), alerts=(told,), now=later - SECOND) == []
    assert changes(rule, a_fact(), alerts=(told,), now=later) == [
        UpdateAlert(7, AlertMessage.REMINDER, later, recovers=False)
    ]
    assert changes(rule, a_fact(), alerts=(replace(told, owes=AlertMessage.REMINDER),), now=later) == []


def test_what_opens_in_quiet_hours_is_said_when_they_end_unless_it_is_over_by_then() -> None:
    rule = a_rule(quiet=quiet_hours("22:00", "07:00", "UTC"))
    (opened,) = changes(rule, a_fact(), now=NIGHT)
    morning = datetime(2026, 3, 3, 7, tzinfo=UTC)
    held = an_alert(opened_at=NIGHT, owes=AlertMessage.OPENED, deliver_at=morning)

    assert isinstance(opened, OpenAlert)
    assert opened.deliver_at == morning
    assert due({1: rule}, [held], morning - SECOND) == []
    assert due({1: rule}, [held], morning) == [held]
    assert changes(rule, alerts=(held,), now=NIGHT) == [UpdateAlert(7, None, None, recovers=True)]
    assert changes(rule, alerts=(replace(held, failures=1),), now=NIGHT) == [
        UpdateAlert(7, AlertMessage.RECOVERED, morning, recovers=True)
    ]


@pytest.mark.parametrize(("failures", "hours"), [(0, 0), (2, 8)], ids=["held for quiet hours", "delivery has failed"])
def test_a_recovery_waits_for_the_pause_of_failures_but_not_for_quiet_hours_that_are_no_more(
    failures: int, hours: int
) -> None:
    reminder = an_alert(
        told_at=NOON, owes=AlertMessage.REMINDER, deliver_at=NIGHT + timedelta(hours=8), failures=failures
    )  # fmt: skip

    assert changes(a_rule(), alerts=(reminder,), now=NIGHT) == [
        UpdateAlert(7, AlertMessage.RECOVERED, NIGHT + timedelta(hours=hours), recovers=True)
    ]


def test_what_is_silenced_opens_and_is_said_when_the_silence_ends_unless_it_is_over_by_then() -> None:
    rule = a_rule()
    held = an_alert(owes=AlertMessage.OPENED, deliver_at=None)
    told = an_alert(told_at=NOON, owes=AlertMessage.RECOVERED, recovered_at=NOON, deliver_at=NOON)

    assert decide([rule], Facts([a_fact()]), [], NOON, handled={}, is_silenced=everything) == [
        OpenAlert(rule, a_fact(), None)
    ]
    assert due({1: rule}, [held, told], NOON, is_silenced=everything) == []
    assert due({1: rule}, [held, told], NOON) == [held, told]
    assert changes(rule, alerts=(held,)) == [UpdateAlert(7, None, None, recovers=True)]


def everything(rule: int, subject: str, dag_ids: Collection[str]) -> bool:
    return True


def test_who_has_an_alert_in_hand_is_not_reminded_but_told_that_it_recovered() -> None:
    rule, known = a_rule(remind_seconds=60.0), an_alert(told_at=NOON, is_acknowledged=True)
    later = NOON + timedelta(hours=1)

    assert changes(rule, a_fact(), alerts=(known,), now=later) == []
    assert changes(rule, alerts=(known,), now=later) == [UpdateAlert(7, AlertMessage.RECOVERED, later, recovers=True)]


SOON, LATER = NOON + timedelta(minutes=1), NOON + timedelta(hours=2)
ONE_ALERT = Silence(LATER, rule=1, subject="sales")
ONE_DAG = Silence(LATER, dag_id="sales")


@pytest.mark.parametrize(
    ("silences", "dag_ids", "until"),
    [
        ([ONE_ALERT], ("sales",), LATER),
        ([replace(ONE_ALERT, rule=2)], ("sales",), None),
        ([replace(ONE_ALERT, ends_at=NOON)], ("sales",), None),  # the instant of the end is no longer in it
        ([replace(ONE_ALERT, ends_at=NOON + timedelta(microseconds=1))], (), NOON + timedelta(microseconds=1)),
        ([ONE_DAG], ("sales",), LATER),
        ([ONE_DAG], ("sales2",), None),
        ([ONE_DAG], (), None),  # of the fleet
        ([Silence(LATER, tag="gold")], ("sales",), LATER),
        ([Silence(LATER, tag="iron")], ("sales",), None),
        ([Silence(LATER, tag="gold")], ("unknown",), None),
        ([ONE_DAG], ("sales", "theirs"), None),  # a file with DAGs of two teams
        ([ONE_DAG, Silence(SOON, dag_id="theirs")], ("sales", "theirs"), SOON),
        ([ONE_DAG, Silence(SOON, dag_id="sales")], ("sales",), LATER),
    ],
)
def test_a_silence_holds_what_it_is_about_and_nothing_of_others(
    silences: list[Silence], dag_ids: tuple[str, ...], until: datetime | None
) -> None:
    assert silent_until(silences, 1, "sales", dag_ids, {"sales": DagLabels(("gold",))}, NOON) == until


@pytest.mark.parametrize(
    ("seconds", "reason", "problem"),
    [
        (59.0, "why", "between one minute"),
        (31 * 86_400.0, "why", "between one minute"),
        (float("nan"), "why", "between one minute"),
        (60.0, "  ", "needs a reason"),
        (60.0, "a\x1b[31mb", "one line"),
        (60.0, "a\nb", "one line"),
        (60.0, "x" * 1001, "one line"),
        (60.0, "<b>they know</b> \N{PARTY POPPER}", None),
    ],
)
def test_a_wrong_silence_is_refused_in_words(seconds: float, reason: str, problem: str | None) -> None:
    found = problem_of_silence(seconds, reason)

    assert found is problem is None or (found is not None and problem is not None and problem in found)


def test_a_test_of_a_rule_knows_no_quiet_hours_and_no_silence() -> None:
    rule = a_rule(quiet=quiet_hours("22:00", "07:00", "UTC"))
    test = an_alert(owes=AlertMessage.TEST, recovered_at=NIGHT, deliver_at=NIGHT)

    assert due({1: rule}, [test], NIGHT, is_silenced=everything) == [test]
    assert due({1: rule}, [replace(test, in_flight=True)], NIGHT) == []
    assert due({}, [test], NIGHT) == []


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-03-28T21:59:59+01:00", None),
        ("2026-03-28T22:00:00+01:00", "2026-03-29T07:00:00+02:00"),  # clocks go forward in this night
        ("2026-03-29T06:59:59+02:00", "2026-03-29T07:00:00+02:00"),
        ("2026-03-29T07:00:00+02:00", None),
    ],
)
def test_quiet_hours_follow_the_clock_of_their_zone(now: str, until: str | None) -> None:
    quiet = quiet_hours("22:00", "07:00", "Europe/Amsterdam")

    assert quiet is not None
    assert quiet.until(datetime.fromisoformat(now)) == (None if until is None else datetime.fromisoformat(until))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "run_faild"}, "there is no kind"),
        ({"kind": "pool_starving", "selection": DagSelection(tags=("a",))}, "concerns no DAG"),
        ({"kind": "run_late", "factor": 2.0}, "factor is for"),
        ({"kind": "run_failed", "severity": "bad"}, "these are info, warning, critical"),
        ({"kind": "run_late", "run_types": ("manual",)}, "takes no run_types"),
        ({"kind": "run_failed", "run_types": ("manuel",)}, "no run type 'manuel'"),
        ({"kind": "run_failed", "run_types": ("scheduled", "manual"), "severity": "critical"}, None),
        ({"kind": "run_failed", "seconds": 2.0}, "takes no seconds"),
        ({"kind": "run_failed", "remind_seconds": 2.0}, "too many"),
        ({"kind": "run_failed", "quiet_from": "22:00"}, "both"),
        ({"kind": "run_failed", "quiet_from": "25:00", "quiet_until": "07:00"}, "no time of day"),
        ({"kind": "run_failed", "quiet_from": "07:00", "quiet_until": "07:00"}, "never over"),
        ({"kind": "run_failed", "quiet_from": "22:00", "quiet_until": "07:00", "time_zone": "Mars"}, "no time zone"),
        ({"kind": "run_long", "factor": 2.0, "seconds": 60.0, "remind_seconds": 60.0}, None),
    ],
)
def test_a_wrong_rule_is_refused_in_words(fields: dict[str, object], problem: str | None) -> None:
    found = problem_of(**{"selection": DagSelection(), **fields})  # type: ignore[arg-type]

    assert found is problem is None or (found is not None and problem is not None and problem in found)


def test_deliveries_that_fail_are_repeated_ever_more_rarely() -> None:
    pauses = [pause_after(failures) for failures in range(1, 12)]

    assert pauses == sorted(pauses)
    assert (pauses[:3], pauses[-1]) == ([30.0, 60.0, 120.0], LONGEST_PAUSE)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.booleans())
def test_each_opening_is_announced_once_and_each_recovery_follows_it(
    passes: list[tuple[bool, bool]], is_quiet: bool
) -> None:
    """Whatever is true in each pass, and whether the delivery succeeds: opened and recovered alternate."""
    rule = a_rule(quiet=quiet_hours("13:00", "15:00", "UTC") if is_quiet else None)
    alerts: dict[int, Alert] = {}
    said: list[tuple[int, AlertMessage]] = []
    for number, (is_true, succeeds) in enumerate(passes):
        now = NOON + timedelta(minutes=10 * number)
        facts = Facts([a_fact(at=now)] if is_true else [])
        for change in decide([rule], facts, list(alerts.values()), now, handled={}):
            if isinstance(change, OpenAlert):
                alerts[number] = Alert(
                    number, 1, "sales", now, now, owes=AlertMessage.OPENED, deliver_at=change.deliver_at
                )  # fmt: skip
            elif isinstance(change, UpdateAlert):
                over = now if change.recovers else None
                alerts[change.alert] = replace(
                    alerts[change.alert], owes=change.message, deliver_at=change.deliver_at, recovered_at=over
                )  # fmt: skip
        for alert in due({1: rule}, alerts.values(), now):
            assert rule.allows(now) == now
            assert alert.owes is not None
            if succeeds:
                said.append((alert.id, alert.owes))
                alerts[alert.id] = replace(alert, owes=None, told_at=now, failures=0)
            else:
                alerts[alert.id] = replace(alert, failures=alert.failures + 1)
        open_alerts = [alert for alert in alerts.values() if alert.is_open]
        assert len(open_alerts) == int(is_true)
        assert [alert.subject for alert in open_alerts] == ["sales"] * is_true

    for alert in alerts.values():
        messages = [message for number, message in said if number == alert.id]
        assert messages in (
            [],
            [AlertMessage.OPENED],
            [AlertMessage.RECOVERED],
            [AlertMessage.OPENED, AlertMessage.RECOVERED],
        )
        if messages == []:
            assert alert.was_held or alert.owes is not None or not alert.is_open
