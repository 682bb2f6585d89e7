"""The audit log: which kinds of entries it has, and who is behind what is done now."""
