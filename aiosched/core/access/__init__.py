"""Who may see and do what: roles, where they are granted, and what of them holds for one DAG. Pure."""
