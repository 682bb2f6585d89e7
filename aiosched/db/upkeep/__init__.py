"""Named statements that keep the rows in order: removing old history, counting again, files without an XCom."""
