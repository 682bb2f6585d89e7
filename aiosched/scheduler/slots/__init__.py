"""Which tasks may run now: claims, the pools that a batch touches, revoking stuck attempts."""
