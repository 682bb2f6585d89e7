"""Which module of Airflow has which names, and where each is at home. One file an area."""
