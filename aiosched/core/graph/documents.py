"""Reading the serialized DAGs of `dag_version` for users; the error for an unreadable one says what to do."""

from __future__ import annotations

from aiosched.core.graph.spec import DagSpec, decode_spec
from aiosched.errors import Refused


def why_unreadable(dag_id: str, number: int, error: object) -> str:
    """The message about a version whose document this aiosched cannot read, with what to do."""
    return (
        f"Version {number} of DAG {dag_id!r} cannot be read ({error}): a newer aiosched wrote it, "
        "or it is broken. Run that aiosched, or change the DAG, so that a new version is stored."
    )


def read_document(document: str, dag_id: str, number: int) -> DagSpec:
    """The DAG of a stored version. Raises Refused for a document that this aiosched cannot read."""
    try:
        return decode_spec(document)
    except Exception as error:  # whatever the error is, the remedy is the same
        raise Refused(why_unreadable(dag_id, number, f"{type(error).__name__}: {error}")) from error
