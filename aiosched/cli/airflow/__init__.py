"""`aiosched airflow …`, and the command `airflow`: Airflow's words for aiosched's commands."""
