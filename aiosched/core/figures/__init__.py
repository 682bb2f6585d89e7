"""Figures of schedulers: their counters and histograms, a minute of them, and how finely a range is shown."""
