"""Requests to the owner of a DAG, and their answers."""
