"""Which parts of a report by a worker are believed. Pure.

A worker runs code of authors, which can send any message in its name. So a report is about the attempt that the worker
was given, says what a worker can know, refers to files of its own run, and is no larger than what `collect_xcoms` lets
through.
"""

from __future__ import annotations

from typing import Final

import msgspec

from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.core.values.run_folders import is_in_run

TOTAL_FACTOR: Final = 16  # the cap of all values of an attempt, as a multiple of the cap of one value
_MOST_TEXT: Final = 16 * 2**20  # characters of a report besides its values
_OUTCOMES_OF_TASKS: Final = frozenset(Outcome) - {Outcome.STARTED, Outcome.TRIGGERED, Outcome.STUCK}
_OUTCOMES_OF_TRIGGERS: Final = _OUTCOMES_OF_TASKS - {Outcome.RESCHEDULED, Outcome.DEFERRED} | {Outcome.TRIGGERED}
_WITHOUT_TEXTS: Final = dict.fromkeys(("details", "event", "map_label", "rendered", "hostname", "source", "deferral"))


def received(report: Report, attempt: Attempt, limit: int) -> Report:
    """The report about `attempt`, whatever else it says; failed if no worker would send it.

    `limit`: bytes of one value (core.max_xcom_bytes). Called for every attempt.
    """
    key, found = attempt.key, report
    if report.key != key or report.inbox_id is not None or report.ran_by is not None:
        found = msgspec.structs.replace(report, key=key, inbox_id=None, ran_by=None)
    if report.outcome not in (_OUTCOMES_OF_TRIGGERS if key.try_number < 0 else _OUTCOMES_OF_TASKS):
        found = found.refused(f"its worker reported {report.outcome.value!r}, which only a scheduler can know")
    whole = largest = said = 0  # counted without generators
    for value in found.xcoms:
        size = len(value.value)
        whole += size
        said += len(value.key)
        if size > largest:
            largest = size
    for touch in found.assets:
        whole += len(touch.extra)
    for text in (
        found.reason, found.details, found.event, found.map_label, found.rendered, found.hostname, found.source,
    ):  # fmt: skip
        if text is not None:
            said += len(text)
    if (deferral := found.deferral) is not None:
        said += len(deferral.kwargs) + len(deferral.next_kwargs)
    if largest > limit or whole > TOTAL_FACTOR * limit:
        found = found.refused(f"its worker reported values of {whole:,} bytes, beyond core.max_xcom_bytes")
        found = msgspec.structs.replace(found, assets=())
    if said > _MOST_TEXT:
        found = found.refused(f"its worker reported texts of more than {_MOST_TEXT:,} characters")
        found = msgspec.structs.replace(found, **_WITHOUT_TEXTS)
    for stored in found.stored_xcoms:
        if not is_in_run(stored.path, attempt.run.dag_id, attempt.run.run_id):
            return found.refused(f"its worker reported the XCom {stored.key!r:.80} in a file that is not of its run")
    return found
