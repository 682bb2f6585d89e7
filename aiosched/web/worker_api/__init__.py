"""The worker API: what workers on engines ask, under `/worker/v1`."""
