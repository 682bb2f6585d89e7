"""What a scheduler publishes about itself: its figures, StatsD, whether anything is left to do."""
