"""One scheduler as a member of the fleet: its incarnation, its lease, its heartbeat."""
