"""One unfinished run: its board, its rows, and everything that changes them."""
