"""What the loops share: the session, its fixed environment, and the events that its listener hears."""
