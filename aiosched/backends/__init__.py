"""Backends of secrets: where variables and connections are, besides the environment and the database.

backend.py   what a backend is                    files.py    a file for each secret
kinds.py     the backends of the settings         vault.py    HashiCorp Vault
asking.py    asks them in turn, keeps answers     aws.py      AWS Secrets Manager, Parameter Store
values.py    backends, then the database          gcp.py      Google Secret Manager
sources.py   where each name comes from           airflow.py  backends written for Airflow
"""
