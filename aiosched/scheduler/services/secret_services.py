"""Services about variables and connections for running tasks.

    variable     {get: key, by: [task, map index, try]}  -> {value: text or null, backend: where it is, if in one,
                                                           is_secret: true if it is one whatever its name is}
                 {set: key, value, description}      -> {}
                 {delete: key}                       -> {}
    connection   {get: conn_id, by: …}               -> {value: fields or null, backend: where it is, if in one}

With `file` and `bundle` in place of `by` a file asks that is imported before there is a run (decision 55).

The values are decrypted here and sent to the worker over its own socket; workers have neither keys nor logins of
backends. What belongs to a team is not there for tasks of other teams' DAGs; that one asked for it is logged here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from aiosched.backends.asking import NO_BACKENDS, Backends
from aiosched.backends.backend import Kind
from aiosched.backends.values import SecretValues
from aiosched.bundles.names import path_in
from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.secret_names import Reader
from aiosched.db.access.owners import reader_of_file, reader_of_run
from aiosched.db.audit.secret_reads import Read, SecretReads
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import OfAnotherTeam, SecretStore, VariableValue
from aiosched.db.queries import task_services
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError, Refused, SecretBackendError
from aiosched.scheduler.services.service_calls import ServiceCall
from aiosched.scheduler.services.task_services import Service

logger: Final = logging.getLogger(__name__)


def secret_services(
    keyring: Keyring, backends: Backends = NO_BACKENDS, reads: SecretReads | None = None
) -> Mapping[str, Service]:
    """The services `variable` and `connection`, for DatabaseServices. `reads` are written down in the audit log."""

    async def look_up(db: Database, kind: Kind, call: ServiceCall) -> dict[str, Any]:
        async with db.acquire() as conn:
            reader = await _reader(conn, call)
        try:
            found = await SecretValues(db, keyring, backends).look_up(kind, call.args["get"], reader)
        except OfAnotherTeam as error:
            who = call.args.get("file") or await task_services.who_asks(db, call.run)
            logger.warning("refused: a task of %s asked for %s", who, error.what)
            return {"value": None}
        answer = found.as_answer()
        if reads is not None and answer["value"] is not None and call.run != NO_RUN:
            reads.note(_read_by(call, kind))
        return answer

    async def variable(db: Database, call: ServiceCall) -> dict[str, Any]:
        store, args = SecretStore(db, keyring), call.args
        if "get" in args:
            return await look_up(db, "variable", call)
        async with db.acquire() as conn:
            who = await task_services.who_asks(conn, call.run)
            reader = await reader_of_run(conn, call.run)
        if "set" in args:
            new = {args["set"]: VariableValue(args["value"], args.get("description"))}
            await store.set_variables(new, requested_by=who, request=call.id, reader=reader)
        else:
            await store.delete_variable(args["delete"], requested_by=who, request=call.id, reader=reader)
        return {}

    async def connection(db: Database, call: ServiceCall) -> dict[str, Any]:
        return await look_up(db, "connection", call)

    return {"variable": _refusing_mistakes(variable), "connection": _refusing_mistakes(connection)}


async def _reader(conn: DatabaseConnection, call: ServiceCall) -> Reader:
    """Whose values may be read: by the run, or by the file, which an executor names while there is no run yet."""
    if call.run != NO_RUN:
        return await reader_of_run(conn, call.run)
    if "file" not in call.args:
        raise Refused("No run asks: values can be read by a task, or while its file is imported.")
    return await reader_of_file(conn, call.args["bundle"], path_in(call.args["bundle"], call.args["file"]))


def _read_by(call: ServiceCall, kind: Kind) -> Read:
    """The entry of the audit log: which task instance has read what."""
    by = call.args.get("by")
    who = None if by is None else (str(by[0]), int(by[1]), int(by[2]))
    return Read(call.run, who, f"{kind} {call.args['get']}")


def _refusing_mistakes(service: Service) -> Service:
    """The service, with what operators have to put right turned into a refusal that the task's author reads.

    These are a wrong key and a backend that fails: only the attempt fails, and may be tried again later.
    """

    async def refusing(db: Database, call: ServiceCall) -> Any:
        try:
            return await service(db, call)
        except (ConfigError, SecretBackendError) as error:
            raise Refused(str(error)) from error

    return refusing
