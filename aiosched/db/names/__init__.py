"""Names that people type: short forms of run ids, and what completes a word in a shell."""
