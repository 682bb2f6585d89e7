"""Requests from the inbox, applied by the owner of their DAG."""
