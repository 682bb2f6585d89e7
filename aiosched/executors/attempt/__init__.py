"""Execution of one attempt in its process: the runner, results, log, limits."""
