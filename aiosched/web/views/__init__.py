"""What pages need beyond rows: positions of boxes, blocks of logs, live changes, health."""
