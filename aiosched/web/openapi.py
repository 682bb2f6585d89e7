"""The committed OpenAPI document: `python -m aiosched.web.openapi > docs/openapi.json` writes it."""

from __future__ import annotations

import json
import sys

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient


def text() -> str:
    """The text of the committed document."""
    settings = Settings()
    nowhere = Database("postgresql://unused@localhost/nothing", settings.database, "openapi")  # never opened
    return json.dumps(make_app(RequestClient(nowhere, settings)).openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
