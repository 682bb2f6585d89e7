"""Figures of schedulers over time: writing minutes, rolling them up to hours, removing old ones, reading."""
