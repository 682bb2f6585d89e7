"""Runs that have not ended although nothing of them is at work: part of the statements that tell people."""

from __future__ import annotations

from typing import Final

NOTHING_AT_WORK: Final = ": no task of it is at work now"  # what is said of a run that only waits
# Whether something of a run `r` is left to do, and nothing of it is at work; one with more instances counts as working.
# Index: the primary key of task_instance.
ONLY_WAITS: Final = """
    SELECT count(*) <= 5000 AND bool_or(state IS NULL OR state = 'scheduled') AND NOT bool_or(state IS NOT NULL AND
           state IN ('queued', 'running', 'restarting', 'shutdown', 'deferred', 'up_for_reschedule', 'up_for_retry'))
      FROM (SELECT state FROM task_instance WHERE run_id = r.id LIMIT 5001) AS these
"""
