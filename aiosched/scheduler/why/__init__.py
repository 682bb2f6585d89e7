"""Why something does not run, read from the rows: needs no running scheduler."""
