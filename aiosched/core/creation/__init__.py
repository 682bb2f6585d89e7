"""Which runs should exist, and which of them may start: schedules, backfills, deadlines, SLAs."""
