"""Names that people type: short forms of run ids, what completes a word in a shell, names that exist already, days."""
