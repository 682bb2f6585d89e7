"""How attempts run and end in a `World`."""
