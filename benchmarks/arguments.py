"""Types of command line arguments."""

from __future__ import annotations

import argparse


def at_least_one(text: str) -> int:
    """A number of 1 or more: for `type=`."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too small: it must be 1 or more")
    return number
