"""Who sees which DAGs, in SQL: teams by folder, and conditions for lists."""
