"""Coming from Airflow: what its files, its configuration and its metadata database become here.

    rows.py       what is read from the metadata database    reading.py     reading it, whatever its version
    values.py     variables and connections, decrypted       planning.py    rows in, plan out
    applying.py   storing a plan                             files.py       which DAG files run, what others need
    cfg.py        airflow.cfg as settings                    cfg_table.py   each setting of Airflow, its place here
    missing.py    where a missing module may come from       generation.py  of which Airflow a project is
    report.py     what is to be done, and what differs       page.py        the report as HTML

Source: docs/migration.md.
"""
