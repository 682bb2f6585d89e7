"""Which fixes a PostgreSQL lacks, as far as can be known without a network. Pure; imports the standard library only.

Minor releases come on the second Thursday of February, May, August and November, and sometimes in between. Source:
https://www.postgresql.org/developer/roadmap/ and https://www.postgresql.org/support/versioning/
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final

EMBEDDED: Final = "18.4"  # in the wheel that we depend on
KNOWN_AT: Final = date(2026, 5, 14)
KNOWN: Final[Mapping[int, int]] = MappingProxyType({15: 18, 16: 14, 17: 10, 18: 4})  # the minor release of that day
_MONTHS: Final = (2, 5, 8, 11)


def rounds(after: date, until: date) -> Iterator[date]:
    """The days of scheduled minor releases after `after`, up to and including `until`."""
    for year in range(after.year, until.year + 1):
        for month in _MONTHS:
            first = date(year, month, 1)
            day = first.replace(day=1 + (3 - first.weekday()) % 7 + 7)
            if after < day <= until:
                yield day


def what_is_missing(version: str, today: date) -> str | None:
    """What to say of a server of this version, such as `18.4`; None if it lacks nothing that is known or scheduled."""
    numbers = version.split(".")[:2]
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return None  # of a developer
    major, minor = map(int, numbers)
    if major not in KNOWN:
        return None
    known = KNOWN[major]
    scheduled = list(rounds(KNOWN_AT, today))[max(minor - known, 0) :]
    older = f"it is older than {major}.{known} of {KNOWN_AT}" if minor < known else ""
    later = ""
    if scheduled:
        many = f"{len(scheduled)} rounds of" if len(scheduled) > 1 else "a round of"
        later = f"by its project's calendar {many} fixes came out since ({', '.join(map(str, scheduled))})"
    said = "; ".join(filter(None, (older, later)))
    return f"PostgreSQL {version} lacks fixes, perhaps security fixes: {said}" if said else None


def main() -> int:
    """For `make audit`: what the embedded server lacks."""
    found = what_is_missing(EMBEDDED, datetime.now(UTC).date())
    print(found or f"PostgreSQL {EMBEDDED}: nothing newer is scheduled yet")
    return found is not None


if __name__ == "__main__":
    sys.exit(main())
