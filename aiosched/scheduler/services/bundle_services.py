"""The service by which a worker gets the code of a version that its machine does not have yet.

    bundle   {bundle: name or null, version}  -> {}

The scheduler fetches it, because it has the logins; workers of its machine share the folder. Source: decision 33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiosched.db.server.engine import Database
from aiosched.errors import BundleError, Refused
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.scheduler.services.questions import Question
from aiosched.scheduler.services.task_services import Service


def bundle_services(keeper: BundleKeeper) -> Mapping[str, Service]:
    """The service `bundle`, for DatabaseServices."""

    async def bundle(db: Database, question: Question) -> dict[str, Any]:
        try:
            await keeper.prepare(question.args["bundle"], question.args["version"])
        except BundleError as error:
            raise Refused(str(error)) from error
        return {}

    return {"bundle": bundle}
