"""What the loops share while they run: the environment, the wake-ups, the locks and what is held in memory."""
