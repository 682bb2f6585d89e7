"""The web room: the REST API under `/api/v1`, health and metrics, and the web UI.

Everything here reads the database and asks owners through the command inbox, so it works in the process of a
scheduler as well as in one of its own (`aiosched serve --role web`). It never imports DAG files.
"""
