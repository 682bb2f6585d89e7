"""Commands for operators: database, settings, people, pools, secrets."""
