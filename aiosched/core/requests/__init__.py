"""Requests to the owner of a DAG: one struct for each kind, and how it is stored."""
