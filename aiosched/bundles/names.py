"""The names of files in bundles: `team:etl/daily.py` is `etl/daily.py` in the bundle `team`.

Files of the DAGs folder of an installation without bundles have no prefix. Everything else treats these names as keys.
"""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = ":"


def prefix_of(bundle: str | None) -> str:
    """What the names of the files of a bundle begin with; None: the DAGs folder."""
    return "" if bundle is None else f"{bundle}{SEPARATOR}"


def path_in(bundle: str | None, file: str) -> str:
    """The path of a file relative to its bundle."""
    return file.removeprefix(prefix_of(bundle))


def file_place(file: str, bundles: Iterable[str]) -> tuple[str, str]:
    """The bundle of a file (empty: the DAGs folder), and its path there.

    >>> file_place("team:etl/daily.py", ["team"]), file_place("etl/daily.py", [])
    (('team', 'etl/daily.py'), ('', 'etl/daily.py'))
    """
    bundle = next((name for name in bundles if file.startswith(prefix_of(name))), None)
    return bundle or "", path_in(bundle, file)


def short_version(version: str) -> str:
    """A version as shown to people."""
    return version[:12]
