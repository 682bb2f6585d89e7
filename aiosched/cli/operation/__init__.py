"""Commands for operators: database, settings, users, pools, secrets."""
