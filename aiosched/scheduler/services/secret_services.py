"""Services about variables and connections for running tasks.

    variable     {get: key, by: [task, map index, try]}  -> {value: text or null}
                 {set: key, value, description}      -> {}
                 {delete: key}                       -> {}
    connection   {get: conn_id, by: …}               -> {value: fields or null}

The values are decrypted here and sent to the worker over its own socket; workers have no keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiosched.db.audit.secret_reads import Read, SecretReads
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.queries import task_services
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError, Refused
from aiosched.scheduler.services.questions import Question
from aiosched.scheduler.services.task_services import Service


def secret_services(keyring: Keyring, reads: SecretReads | None = None) -> Mapping[str, Service]:
    """The services `variable` and `connection`, for DatabaseServices. `reads` are written down in the audit log."""

    async def variable(db: Database, question: Question) -> dict[str, Any]:
        store, args = SecretStore(db, keyring), question.args
        if "get" not in args:
            async with db.acquire() as conn:
                who = await task_services.who_asks(conn, question.run)
            if "set" in args:
                new = {args["set"]: VariableValue(args["value"], args.get("description"))}
                await store.set_variables(new, requested_by=who, request=question.id)
            else:
                await store.delete_variable(args["delete"], requested_by=who, request=question.id)
            return {}
        return {"value": await _look_up(store, "variable", question, reads)}

    async def connection(db: Database, question: Question) -> dict[str, Any]:
        return {"value": await _look_up(SecretStore(db, keyring), "connection", question, reads)}

    return {"variable": _refusing_bad_keys(variable), "connection": _refusing_bad_keys(connection)}


async def _look_up(store: SecretStore, kind: str, question: Question, reads: SecretReads | None) -> Any:
    name, by = question.args["get"], question.args.get("by")
    found = await store.look_up(kind, name)
    if found is not None and reads is not None:
        reads.note(Read(question.run, None if by is None else (str(by[0]), int(by[1]), int(by[2])), f"{kind} {name}"))
    return found


def _refusing_bad_keys(service: Service) -> Service:
    """The service, with a wrong key (an operator's mistake) turned into a refusal that the task's author reads."""

    async def call(db: Database, question: Question) -> Any:
        try:
            return await service(db, question)
        except ConfigError as error:
            raise Refused(str(error)) from error

    return call
