"""Figures of schedulers over time: their histograms, a minute of them, and how finely a range is shown."""
