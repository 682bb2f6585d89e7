"""Which runs should exist, and which of them can start: schedules, backfills, deadlines, SLAs."""
