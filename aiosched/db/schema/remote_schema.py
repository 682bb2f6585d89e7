"""The table of files in remote storage that no XCom refers to.

A file is entered here before a task writes it. Triggers on `xcom` delete the row when the XCom is stored, and enter the
file again when that XCom is deleted or replaced, whoever does so. Schedulers remove the files of the rows
(scheduler/effects/stored_xcoms.py).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, Table, Text

from aiosched.db.schema.columns import instant, metadata

unreferenced_xcom = Table(
    "unreferenced_xcom",
    metadata,
    Column("path", Text, primary_key=True),  # below xcom.remote
    # the try that writes it; NULL: an XCom referred to it, which is gone
    Column("run_id", BigInteger),
    Column("task_index", Integer),
    Column("map_index", Integer),
    Column("try_number", SmallInteger),
    instant("since", nullable=False),
    Index(None, "since"),
)
