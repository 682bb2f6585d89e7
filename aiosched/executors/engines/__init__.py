"""Attempts elsewhere: the worker's side of engines, what an engine is, and those that come with aiosched."""
