"""Reads Airflow DAG files: answers `import airflow` with aiosched's own classes, without Airflow installed."""
