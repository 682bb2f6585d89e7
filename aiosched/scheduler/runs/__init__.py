"""Which runs exist and which start: schedules, assets, backfills; and changes of runs that are not held in memory."""
