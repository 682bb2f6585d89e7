"""What the loops of one session share: the environment, the wake-ups, the locks and the state in memory."""
