"""Services about variables and connections for running tasks.

    variable     {get: key}                          -> {value: text or null}
                 {set: key, value, description}      -> {}
                 {delete: key}                       -> {}
    connection   {get: conn_id}                      -> {value: fields or null}

The values are decrypted here and sent to the worker over its own socket; workers have no keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.queries import task_services
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError, Refused
from aiosched.scheduler.services.questions import Question
from aiosched.scheduler.services.task_services import Service


def secret_services(keyring: Keyring) -> Mapping[str, Service]:
    """The services `variable` and `connection`, for DatabaseServices."""

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
        return {"value": await store.look_up("variable", args["get"])}

    async def connection(db: Database, question: Question) -> dict[str, Any]:
        return {"value": await SecretStore(db, keyring).look_up("connection", question.args["get"])}

    return {"variable": _refusing_bad_keys(variable), "connection": _refusing_bad_keys(connection)}


def _refusing_bad_keys(service: Service) -> Service:
    """The service, with a wrong key (an operator's mistake) turned into a refusal that the task's author reads."""

    async def call(db: Database, question: Question) -> Any:
        try:
            return await service(db, question)
        except ConfigError as error:
            raise Refused(str(error)) from error

    return call
