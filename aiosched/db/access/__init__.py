"""Who may see what: grants, teams and their folders, owners of secrets and pools, and conditions of queries."""
