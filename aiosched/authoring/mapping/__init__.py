"""Mapped tasks, and what tasks and groups are mapped over."""
