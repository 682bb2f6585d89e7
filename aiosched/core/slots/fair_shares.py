"""How many things of each kind are done now, if there is not room for all."""

from __future__ import annotations

from collections.abc import Mapping


def fair_shares(wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """The share of each in `room`: who wants less than an equal share gets all of it, the others share what is left.

    Each gets at least one, so the shares may be more than `room` together.
    """
    shares: dict[str, int] = {}
    for name in sorted(wanted, key=wanted.__getitem__):
        shares[name] = min(wanted[name], max(room // (len(wanted) - len(shares)), 1))
        room -= shares[name]
    return shares
