"""What people type for the params of a DAG, by its newest version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from aiosched.core.graph.given_texts import TypedConf, fitted
from aiosched.core.graph.spec import ParamSpec
from aiosched.db.server.engine import Database

# Index: uq_dag_version_dag_id_number, backwards.
PARAMS: Final = "SELECT (spec -> 'params')::text FROM dag_version WHERE dag_id = $1 ORDER BY number DESC LIMIT 1"


async def fitted_conf(db: Database, dag_id: str, conf: Mapping[str, Any]) -> dict[str, Any]:
    """The conf of a command line as the params of this DAG mean it; as it is, if the DAG has none that can be read."""
    if not isinstance(conf, TypedConf) or not conf.texts:
        return dict(conf)
    found = await db.fetchval(PARAMS, dag_id)
    try:
        return fitted(conf, msgspec.json.decode(found or "{}", type=dict[str, ParamSpec]))
    except msgspec.MsgspecError:  # of another release: the owner says what is wrong with it
        return dict(conf)
