"""`ResumableJobMixin`: operators whose job runs elsewhere and outlives the try that submitted it.

The id of the job is kept in the task's state store, `context["task_state_store"]`, so that a retry continues to wait
for the job instead of submitting it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class ResumableJobMixin:
    """Base of operators that call `execute_resumable`.

    They have `submit_job(context)` -> id, `get_job_status(id, context)`, `is_job_active(status)`,
    `is_job_succeeded(status)`, `poll_until_complete(id, context)` and `get_job_result(id, context)`.
    """

    external_id_key: str = "remote_job_id"
    log: logging.Logger

    def __init__(self, *, durable: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.durable = durable

    def execute_resumable(self, context: Context) -> Any:
        """Wait for the job of an earlier try if it is active or has succeeded; else submit a new one."""
        job: Any = self  # the methods of the class that this is mixed into
        store = context.get("task_state_store") if self.durable else None
        external_id = store.get(self.external_id_key) if store is not None else None
        if external_id is not None:
            status = job.get_job_status(external_id, context)
            if job.is_job_succeeded(status):
                self.log.info("the job %s of an earlier try has succeeded", external_id)
                return job.get_job_result(external_id, context)
            if not job.is_job_active(status):
                self.log.info("the job %s of an earlier try is %s: submitting another one", external_id, status)
                external_id = None
        if external_id is None:
            external_id = job.submit_job(context)
            if store is not None:
                store.set(self.external_id_key, external_id)
        job.poll_until_complete(external_id, context)
        return job.get_job_result(external_id, context)
