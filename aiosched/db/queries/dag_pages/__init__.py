"""Queries for the pages of one DAG: its runs by date, trends, comparisons of runs."""
