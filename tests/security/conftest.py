"""What the tests of promises use of other folders."""

from __future__ import annotations

from tests.cli.conftest import on_db

__all__ = ["on_db"]
