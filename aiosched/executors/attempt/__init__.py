"""One attempt in the process where it runs: the runner, its results, its log, its limits."""
