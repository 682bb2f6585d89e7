"""The inline executor: attempts run in the process of the scheduler."""
