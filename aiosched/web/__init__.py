"""The web room: the REST API under `/api/v1`, health and metrics, and the web UI.

Everything here reads the database and sends requests to owners through the inbox, so it works inside a
scheduler's process as well as in its own (`aiosched serve --role web`). It never imports DAG files.
"""
