"""The audit log: adding entries, reading and removing them."""
