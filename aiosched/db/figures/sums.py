"""Parts of statements on figures: histograms summed bucket by bucket, and numbers in the lists of pools."""

from __future__ import annotations

from aiosched.core.figures.histograms import BUCKETS


def summed(column: str) -> str:
    """SQL for the sum of histograms; a bucket that a row does not have counts as none."""
    buckets = ", ".join(f"coalesce(sum({column}[{place}]), 0)" for place in range(1, BUCKETS + 1))
    return f"ARRAY[{buckets}]::int[]"


def number(document: str, place: int) -> str:
    """SQL for a number in a JSON list; NULL for anything else."""
    return f"CASE jsonb_typeof({document} -> {place}) WHEN 'number' THEN ({document} ->> {place})::float8 END"
