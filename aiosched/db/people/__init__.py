"""What people keep in the database beside DAGs: accounts, variables, connections, pools, notes."""
