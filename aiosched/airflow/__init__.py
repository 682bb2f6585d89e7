"""Reads Airflow DAG files: answers `import airflow` with aiosched's own classes, without Airflow installed.

finder.py     answers imports of `airflow`        dialect.py     which file speaks Airflow's dialect, and of which age
modules.py    the modules that it answers with    parameters.py  old parameters: translated, ignored, refused
tables/       module, name, home: two TSV files  utils/         small functions that exist for Airflow files only

Nothing is imported before a DAG file asks for `airflow`. Source: the semantics reference, section 38.
"""
