"""Statements on assets: their events and queues, partitions, and watchers."""
