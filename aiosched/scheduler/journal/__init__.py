"""The ordered group commit, and the asset events that go with it."""
