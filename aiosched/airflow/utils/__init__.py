"""Small functions of Airflow's `utils` that only its DAG files and provider packages need."""
