"""Roles: what people may do where a grant gives them one."""

from __future__ import annotations

import enum


class Role(enum.IntEnum):
    """What users may do; each role includes those below it."""

    NONE = 0  # nothing that needs a login; health, the login itself and the UI's own files are for everybody
    PUBLIC = 0
    VIEWER = 1  # read everything but secrets
    OPERATOR = 2  # trigger, pause, clear, mark, backfill, emit
    EDITOR = 3  # variables, connections, pools
    ADMIN = 4  # users, tokens, teams, settings

    @property
    def word(self) -> str:
        """The role as settings, rows and answers have it."""
        return self.name.lower()


def find_role(word: str) -> Role | None:
    """The role of a lower-case word; None for one that this version does not know."""
    return Role.__members__.get(word.upper()) if word != "public" else None
