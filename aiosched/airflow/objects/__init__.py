"""Objects that exist for Airflow's DAG files and provider packages only. Everything else is aiosched's own class.

helpers.py, loading.py, processes.py   small functions of `airflow.utils`     base_types.py   NOTSET and its kind
logging_mixin.py, stats.py, masking.py logs, metrics, secrets                failures.py     errors, warnings
contexts.py, scripts.py, timeouts.py   what operators do with functions      lineage.py, listeners.py   accepted, unused
providers_manager.py                   what the installed providers have      resumable.py    jobs that outlive a try
basic_hooks.py                         HTTP, SQLite, SMTP without a provider package
object_storage.py                      paths whose library may be missing
sessions.py, models.py, variables.py   a read-only face of the database; changes of variables that are given a session
"""
