"""Named statements of the scheduler, by subject. No decisions live here."""
