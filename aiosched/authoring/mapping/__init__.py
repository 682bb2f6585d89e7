"""Mapped tasks and groups: what they are mapped over, and which instances belong together."""
