"""The Airflow scheduler, rebuilt for asyncio and PostgreSQL."""

__version__ = "0.1.0"
