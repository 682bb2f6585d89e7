"""Backends of secrets: where variables and connections are, besides the environment and the database.

backend.py   what a backend is                    files.py    a file for each secret
kinds.py     the backends of the settings         vault.py    HashiCorp Vault
asking.py    asks them in turn, keeps answers     aws.py      AWS Secrets Manager, Parameter Store
threads.py   threads that a hanging call may keep gcp.py      Google Secret Manager
values.py    backends, then the database          airflow.py  backends written for Airflow
sources.py   where each name comes from
"""
