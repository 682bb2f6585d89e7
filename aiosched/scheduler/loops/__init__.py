"""One file for each loop of a session: what it loads, decides, stores and then does. Other folders have the parts."""
