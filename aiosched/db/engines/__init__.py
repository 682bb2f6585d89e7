"""Statements on attempts that run on engines: of the schedulers that send them, and of the workers that run them."""
