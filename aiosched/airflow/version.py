"""The version of Airflow that DAG files and provider packages are told: that whose `airflow.sdk` is answered."""

from __future__ import annotations

from typing import Final

version: Final = "3.3.2"
