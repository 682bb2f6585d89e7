"""Which files speak Airflow's dialect: those whose source imports `airflow`."""

from __future__ import annotations


def use() -> None:
    """Let objects that are built from now on ask for the dialect of the file that builds them."""
