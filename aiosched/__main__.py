"""`python -m aiosched` is the command line."""

from __future__ import annotations

from aiosched.cli import main

if __name__ == "__main__":
    main()
