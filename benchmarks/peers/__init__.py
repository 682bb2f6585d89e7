"""The same shapes on other systems, on one machine and one PostgreSQL, in turns: `python -m benchmarks peers`.

driver.py        what a peer does, and the process in its own virtual environment that does it (standard library only)
dask.py, …       one file for each peer, named as the peer; ours.py: aiosched
requirements/    what is installed for each, with the date
catalogue.py     the peers, and their sizes
environments.py  virtual environments, made once
servers.py       a PostgreSQL for those that need an extension
measurements.py  what is stored of a comparison
rounds.py        who is measured when
table.py         the table (pure)
"""
