"""The ordered group commit, and the asset events that are stored with it."""
