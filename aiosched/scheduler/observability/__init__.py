"""What others learn of a scheduler: its figures, StatsD, whether anything is left to do."""
