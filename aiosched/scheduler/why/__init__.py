"""Why something does not run, asked of the rows: needs no living scheduler."""
