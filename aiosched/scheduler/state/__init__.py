"""The state of one scheduler in memory: DAGs, boards of unfinished runs, versions, attempts, wake-ups, counters."""
