"""Named statements that keep the rows in order: removing old history, counting again."""
