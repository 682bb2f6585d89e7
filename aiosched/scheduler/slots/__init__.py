"""Which tasks may run now: evaluation, the critical section, revoking stuck attempts."""
