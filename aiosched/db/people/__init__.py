"""User-managed data in the database besides DAGs: accounts, variables, connections, pools, notes, state stores."""
