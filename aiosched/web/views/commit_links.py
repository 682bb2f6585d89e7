"""Where a commit of a bundle's repository can be seen: the address of its page at the host of the repository. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP: Final = re.compile(r"(?:[\w.-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]+):(?P<path>[^:/]+/[^:]+)")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


def commit_link(url: str | None, commit: str | None) -> str | None:
    """The page of a commit for people; None if none can be known, as for repositories in folders.

    Pages of GitLab and Bitbucket have ways of their own; all others are as GitHub, Gitea and Forgejo have them.

    >>> commit_link("git@github.com:shop/dags.git", "0" * 40)
    'https://github.com/shop/dags/commit/0000000000000000000000000000000000000000'
    """
    if url is None or commit is None or not _COMMIT.fullmatch(commit):
        return None
    if found := _SCP.fullmatch(url):
        host, path, port = found["host"], found["path"], None
    else:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname or "", parts.path
            port = parts.port if parts.scheme in ("http", "https") else None
        except ValueError:
            return None
        if parts.scheme not in ("http", "https", "ssh"):
            return None
    path = path.strip("/").removesuffix(".git")
    if not _HOST.fullmatch(host) or not path or {"", ".", ".."} & set(path.split("/")):
        return None
    page = "-/commit" if "gitlab" in host else "commits" if "bitbucket" in host else "commit"
    return f"https://{host}{f':{port}' if port else ''}/{quote(path)}/{page}/{commit}"
