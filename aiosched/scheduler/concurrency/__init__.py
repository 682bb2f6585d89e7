"""How loops rest, wake, stop, take turns on the event loop and wait for each other."""
