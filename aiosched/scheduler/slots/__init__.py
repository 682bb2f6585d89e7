"""Who may run now: evaluation, the critical section, fairness between schedulers in a pool."""
