"""The effects of a commit: commit, then act.

`EFFECTS` lists them all in order; each is one function. Source: docs/architecture.md, "The journal".
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from aiosched.core.run.board import Board, Instance
from aiosched.core.run.deferral import is_trigger
from aiosched.core.values.messages import Outcome
from aiosched.core.values.states import SUCCEEDED, RunState, TaskState
from aiosched.errors import FencedOut
from aiosched.scheduler.effects.attempt_control import is_held, stop_attempt
from aiosched.scheduler.effects.deadlines import watch_deadlines
from aiosched.scheduler.effects.notify import announce_answers, asset_conditions_changed, notify_schedulers
from aiosched.scheduler.failures.isolation import concerning, failure_of, raise_failures
from aiosched.scheduler.memory.changes import Committed
from aiosched.scheduler.session.events import SchedulerEvent
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)


def after_commit(session: Session, committed: Committed) -> None:
    """Act on what is now stored. Raises FencedOut if the lease has expired meanwhile."""
    for effect in EFFECTS:
        effect(session, committed)


def forget_storing(session: Session, committed: Committed) -> None:
    """The batch was committed."""
    if session.cache.unstored.storing is committed.changes:
        session.cache.unstored.storing = None
    session.locks.progress.set()


def go_on_evaluating(session: Session, committed: Committed) -> None:
    """Evaluate the runs that waited for this commit, since very much was to be decided; see to timers of triggers."""
    if session.cache.work.to_evaluate or committed.changes.effects.triggers:
        session.wakeups.evaluation.wake()


def publish_runs(session: Session, committed: Committed) -> None:
    """Collect the changed runs for browsers."""
    session.changed_runs.add_batch(committed.changes)


def trace(session: Session, committed: Committed) -> None:
    """Make the OpenTelemetry spans."""
    if session.tracing is not None:
        try:
            session.tracing.trace(committed.changes, session.cache)
        except Exception:
            logger.exception("OpenTelemetry: the spans of a commit could not be made")


def check_lease(session: Session, committed: Committed) -> None:
    """Hand out nothing once a peer may have taken over. Raises FencedOut."""
    effects, held = committed.changes.effects, session.context.held
    if (effects.claimed or held or effects.triggers or session.triggers) and not session.env.holds_lease():
        raise FencedOut("The lease of this scheduler expired before it could hand out what it had queued.")


def stop_cancelled(session: Session, committed: Committed) -> None:
    """Stop the attempts whose result is no longer wanted, here and in other schedulers."""
    if not (cancelled := committed.changes.effects.cancelled):
        return
    attempts = session.env.attempts
    for key in cancelled:
        if key in attempts.in_flight or key in attempts.triggers:
            attempts.triggers.discard(key)  # its report is no longer wanted either
            stop_attempt(session, key)
    if session.cache.elsewhere:
        notify_schedulers(session, "attempts", ())


def hand_out_claims(session: Session, committed: Committed) -> None:
    """Submit the attempts that were queued to the executor, unless one of the same task instance is still ending."""
    claimed = committed.changes.effects.claimed
    if session.context.held:
        claimed = [*_still_held(session), *claimed]
    if not claimed:
        return
    env, ending = session.env, session.env.attempts.ending
    attempts, waited, failures = [], [], []
    made = {new.attempt.key: new.attempt for new in committed.changes.messages.attempts}
    for board, instance in claimed:
        try:
            if instance.state is not TaskState.QUEUED:
                continue
            if ending and board.key(instance)[:3] in ending:
                session.context.held.append((board, instance))
                continue
            attempts.append((made and made.get(board.key(instance))) or board.attempt(instance))
            waited.append(instance.scheduled_at)
        except Exception as error:
            failures.append(failure_of(error, board.run.dag_id, "handing out an attempt"))
    env.attempts.in_flight.update(dict.fromkeys([attempt.key for attempt in attempts], env.clock.monotonic()))
    if env.engines:
        env.attempts.on_engines.update(attempt.key for attempt in attempts if env.engines.runs(attempt))
        env.engines.have_rows(committed.changes.messages.attempts, committed.engine_rows)
    env.attempts.stuck_attempts.handed_out(env.clock.now())
    env.executor.submit(env.confs.open_for_tasks(attempts))
    env.engines.drop_rows()
    env.metrics.claimed(waited, env.clock.now())
    raise_failures(failures)


def _still_held(session: Session) -> list[tuple[Board, Instance]]:
    """The claims that were held back, without those whose partition was given away meanwhile."""
    held, session.context.held = session.context.held, []
    return [(board, instance) for board, instance in dict.fromkeys(held) if is_held(session, board)]


def hand_out_triggers(session: Session, committed: Committed) -> None:
    """Submit as many triggers to the executor as there is room for."""
    session.triggers.add(committed.changes.effects.triggers)
    if not session.triggers or session.membership.draining:
        return
    env = session.env
    triggers = session.triggers.take(
        env.attempts, env.settings.scheduler.max_triggers, lambda board: is_held(session, board)
    )
    env.attempts.triggers.update(trigger.key for trigger in triggers)
    env.executor.submit(env.confs.open_for_tasks(triggers))


def deliver_callbacks(session: Session, committed: Committed) -> None:
    """Put the requested callbacks into the delivery queue."""
    if committed.outbox:
        partitions = session.cache.partitions
        session.outbox.waiting.add({i: each for i, each in committed.outbox.items() if each.partition in partitions})
        session.wakeups.callbacks.wake()


def watch_moved_deadlines(session: Session, committed: Committed) -> None:
    """Watch the new deadlines of cleared runs."""
    watch_deadlines(session, committed.changes.runs.deadlines)


def pause_failing_dags(session: Session, committed: Committed) -> None:
    """Pause in memory the DAGs that the transaction paused because their newest runs failed."""
    for dag_id in committed.paused:
        with concerning(dag_id, "pausing it"):
            session.cache.pause(dag_id)
        logger.warning(
            "paused: its newest %d runs failed", committed.changes.runs.failing[dag_id], extra={"dag_id": dag_id}
        )  # fmt: skip


def count_outcomes(session: Session, committed: Committed) -> None:
    """Count the reports by outcome, for the metrics."""
    finished = session.env.metrics.finished
    for report in committed.changes.effects.reports:
        finished[report.outcome] += 1


def announce(session: Session, committed: Committed) -> None:
    """Notify the clients that wait for answers to their requests."""
    if committed.changes.messages.answers:
        announce_answers(session, [number for number, _ in committed.changes.messages.answers])


def notify_pool_winners(session: Session, committed: Committed) -> None:
    """Notify the schedulers that pool slots were yielded to."""
    if committed.changes.effects.slots_left_to:
        notify_schedulers(session, "slots", committed.changes.effects.slots_left_to)


def check_asset_conditions(session: Session, committed: Committed) -> None:
    """Check the asset conditions of the DAGs that events were queued for."""
    if committed.consumers:
        asset_conditions_changed(session, committed.consumers)


def log_failures(session: Session, committed: Committed) -> None:
    """Log each try that failed or was lost, and with DEBUG how each one ended."""
    all_of_them = logger.isEnabledFor(logging.DEBUG)
    ended = {board.run.key: board for board in committed.changes.effects.finished}
    for report in committed.changes.effects.reports:
        has_failed = report.outcome in (Outcome.FAILED, Outcome.LOST)
        if is_trigger(report.key) or not (has_failed or all_of_them):
            continue
        key, board = report.key, ended.get(report.key.run) or session.cache.boards.get(report.key.run)
        if board is None or not 0 <= key.task_index < len(board.graph.tasks):
            continue
        about = {"dag_id": board.run.dag_id, "run_id": board.run.run_id}
        about["task_id"] = board.graph.tasks[key.task_index].task_id
        number = {"map_index": key.map_index if key.map_index >= 0 else None, "try": key.try_number}
        fields = {"reason": report.reason} if report.reason else {}
        level = logging.INFO if has_failed else logging.DEBUG
        logger.log(level, "task_%s", report.outcome, extra={**about, **number, "fields": fields})


def log_pass(session: Session, committed: Committed) -> None:
    """Log with DEBUG at most one line per pass, and none when nothing happened."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    changes = committed.changes
    happened = (
        (len(changes.effects.started), "runs started"),
        (len(changes.effects.claimed), "tasks queued"),
        (len(changes.effects.reports), "tasks reported"),
        (len(changes.effects.finished), "runs ended"),
    )
    words = ", ".join(f"{count} {what}" for count, what in happened if count)
    if words:
        boards = {board for board, _ in changes.effects.claimed} | {*changes.effects.started, *changes.effects.finished}
        runs = {(board.run.dag_id, board.run.run_id) for board in boards}
        about = dict(zip(("dag_id", "run_id"), *runs, strict=True)) if len(runs) == 1 else None
        logger.debug(words, extra=about)


def publish_starts(session: Session, committed: Committed) -> None:
    """Call the listener for each run that has started."""
    for board in committed.changes.effects.started:
        session.env.metrics.run_started(board.run.run_after, board.run.start_date)
        _call_listener(session, "run_started", board)


def release_finished_runs(session: Session, committed: Committed) -> None:
    """Drop finished runs from memory, which makes room for others."""
    if not (finished := committed.changes.effects.finished):
        return
    attempts = session.env.attempts
    attempts.stuck_attempts.forget({board.run.key for board in finished})
    for board in finished:
        with concerning(board.run.dag_id, "the end of a run"):
            session.cache.release_run(board)
        _call_listener(session, "run_finished", board)
        session.context.on_run_end(board.run)
    session.wakeups.creation.wake()


EFFECTS: Final[tuple[Callable[[Session, Committed], None], ...]] = (
    forget_storing,
    go_on_evaluating,
    publish_runs,
    trace,
    check_lease,
    stop_cancelled,
    hand_out_claims,
    hand_out_triggers,
    deliver_callbacks,
    watch_moved_deadlines,
    pause_failing_dags,
    count_outcomes,
    announce,
    notify_pool_winners,
    check_asset_conditions,
    log_failures,
    log_pass,
    publish_starts,
    release_finished_runs,
)


def _first_error(board: Board) -> str | None:
    failed = (instance for instance in board if instance.state is TaskState.FAILED)
    return next((f"{board.graph.task_ids[each.task]}: {each.reason or 'failed'}" for each in failed), None)


def _call_listener(session: Session, kind: str, board: Board) -> None:
    listener = session.env.observers.listener
    if listener is None:
        return
    run = board.run
    seconds = (run.end_date - run.start_date).total_seconds() if run.end_date and run.start_date else None
    done = sum(instance.state in SUCCEEDED for instance in board)
    now = session.env.clock.now()
    error = _first_error(board) if run.state is RunState.FAILED else None
    event = SchedulerEvent(kind, now, run.dag_id, run.run_id, run.state, seconds, done, board.total, run.reason, error)
    try:
        listener(event)
    except Exception:
        logger.exception("the listener failed on %s", kind, extra={"dag_id": run.dag_id, "run_id": run.run_id})
