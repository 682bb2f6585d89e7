"""The names of files in bundles: `team:etl/daily.py` is `etl/daily.py` in the bundle `team`.

Files of the DAGs folder of an installation without bundles have no prefix. Everything else treats these names as keys.
"""

from __future__ import annotations

SEPARATOR = ":"


def prefix_of(bundle: str | None) -> str:
    """What the names of the files of a bundle begin with; None: the DAGs folder."""
    return "" if bundle is None else f"{bundle}{SEPARATOR}"


def path_in(bundle: str | None, file: str) -> str:
    """The path of a file relative to its bundle."""
    return file.removeprefix(prefix_of(bundle))


def short_version(version: str) -> str:
    """A version as shown to people."""
    return version[:12]
