"""What keeps the rows in order: removing DAGs and old history, counting again, files without XComs, backups."""
