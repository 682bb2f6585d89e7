"""What one scheduler holds in memory: DAGs, boards of unfinished runs, versions, attempts, wake-ups, counters."""
