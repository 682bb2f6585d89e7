"""Tests one connection with the hook of its provider, in a process of its own: the program behind `connections test`.

It reads `{"conn_id": …, "fields": {…}, "airflow": …}` on the standard input, and writes `{"works": …, "says": …}` as
the last line of its output. `works` is null when the hook has no test.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from aiosched.airflow.finder import install
from aiosched.authoring.runtime.connections import Connection
from aiosched.authoring.runtime.lookups import CONNECTION


def try_by_hook(conn_id: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What the hook says. The hook looks the connection up by its id, so it is put into the environment first."""
    os.environ[CONNECTION.variables(conn_id)[0]] = json.dumps(fields)
    connection = Connection.get(conn_id)
    try:
        if not callable(getattr(connection.get_hook(), "test_connection", None)):
            return {"works": None, "says": ""}
        works, says = connection.test_connection()
    except Exception as error:
        return {"works": False, "says": f"{type(error).__name__}: {error}"}
    return {"works": works, "says": says}


def main() -> None:
    """Read the connection, test it and write the result."""
    asked = json.load(sys.stdin)
    install(asked["airflow"])
    sys.stdout.write("\n" + json.dumps(try_by_hook(asked["conn_id"], asked["fields"])) + "\n")


if __name__ == "__main__":
    main()
