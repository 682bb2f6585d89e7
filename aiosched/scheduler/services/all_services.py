"""All services for running tasks, answered from a database: for schedulers, and for the worker API of web servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from aiosched.backends.kinds import backends_of
from aiosched.config import Settings
from aiosched.db.audit.secret_reads import SecretReads
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.engine import Database
from aiosched.scheduler.services.log_services import UnwrittenLogs
from aiosched.scheduler.services.secret_services import secret_services
from aiosched.scheduler.services.service_calls import Trusted
from aiosched.scheduler.services.state_services import state_services
from aiosched.scheduler.services.task_services import SERVICES, DatabaseServices, Service, trigger_service

_NO_SERVICES: Final[Mapping[str, Service]] = MappingProxyType({})


def services_of(
    db: Database,
    settings: Settings,
    *,
    lease: Callable[[], Trusted | None] = lambda: None,
    on_unwritten_log: Callable[[], None] = lambda: None,
    more: Mapping[str, Service] = _NO_SERVICES,
) -> DatabaseServices:
    """The services of this database, and `more`. With a `lease`, calls are repeated while the database fails.

    `on_unwritten_log` is called for each attempt whose output could not be written.
    """
    states = state_services(retention_days=settings.scheduler.state_retention_days)
    reads = SecretReads(db)
    keyring = Keyring.of(settings)
    secrets = {**secret_services(keyring, backends_of(settings), reads), "trigger_dag": trigger_service(keyring)}
    logs = {"unwritten_log": UnwrittenLogs(on_unwritten_log)}
    return DatabaseServices(db, {**SERVICES, **secrets, **states, **logs, **more}, lease=lease)
