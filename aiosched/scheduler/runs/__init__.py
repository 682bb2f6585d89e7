"""Which runs exist and which start: schedules, assets, backfills, and runs that are not held in memory."""
