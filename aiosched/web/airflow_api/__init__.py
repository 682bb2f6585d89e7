"""A subset of Airflow's REST API v2 over aiosched's own, for scripts that use it: docs/migration.md."""
