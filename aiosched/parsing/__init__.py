"""Parses DAG files into serialized DAGs in the database.

service.py     the coroutines of the parser    owned_files.py which files are here, and whose
progress.py    the first pass, what is stored  storing.py     results in batches, transactions that wait
discovery.py   finds DAG files                 parse_queue.py the parsing order
pool.py        parsing processes               plugin_findings.py, plugin_report.py  what is wrong with plugins
supervisor.py  one file, one killable child    claims.py      which file owns a DAG
killable.py    fork, watch, kill, reap         store.py       one transaction for many files
child.py       the import itself               check.py       the same without a database
verdict.py     describes how a child ended     watcher.py     detects changes of the folder
tracebacks.py, code_frame.py                   result.py      messages between processes
values.py      what files read at import       heartbeat.py   says that a parser alone is there
bundle_sources.py  the bundles, as folders     bundle_keeper.py  fetches and removes their versions
"""
