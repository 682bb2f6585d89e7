"""Requests to the owner of a DAG: one struct for each verb, and how it is stored."""
