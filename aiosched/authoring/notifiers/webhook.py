"""A notifier that calls a URL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.notifiers.base import BaseNotifier
from aiosched.authoring.runtime.http import HttpCall, checked
from aiosched.errors import CommandFailed

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


_MOST_BYTES: Final = 65_536  # of an answer: only the beginning is shown, in an error


class WebhookNotifier(BaseNotifier):
    """Sends `payload` as JSON to a URL; by default `{"text": "sales.load: ValueError: bad", "dag_id": …}`.

    `endpoint` is a URL, or a path on the host of the connection `http_conn_id`, which is the place for secrets.
    A status of 400 and above is an error, and so is no answer within `timeout` seconds. Needs `aiosched[http]`.
    """

    template_fields: ClassVar[Sequence[str]] = ("endpoint", "payload", "headers")

    def __init__(
        self,
        endpoint: str = "",
        payload: Mapping[str, Any] | None = None,
        http_conn_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        timeout: float = 30.0,
    ) -> None:
        self.endpoint: str = endpoint
        self.http_conn_id: str | None = http_conn_id
        self.method: str = method
        self.payload: dict[str, Any] | None = None if payload is None else dict(payload)
        self.headers: dict[str, str] = dict(headers or {})
        self.timeout = timeout

    async def notify(self, context: Context) -> None:
        """Send it once."""
        body = _facts(context) if self.payload is None else self.payload
        options = {"json": body, "timeout": self.timeout}
        call = HttpCall(
            method=self.method, endpoint=self.endpoint, http_conn_id=self.http_conn_id, headers=self.headers,
            options=options, most_bytes=_MOST_BYTES,
        )  # fmt: skip
        try:
            async with asyncio.timeout(self.timeout):
                checked(await call.send())
        except TimeoutError:
            raise CommandFailed(f"The webhook has not answered within {self.timeout:g} s.") from None


def _facts(context: Context) -> dict[str, Any]:
    """The default payload: ids, try and reason."""
    ti, dag_id = context.get("ti"), context.run.dag_id
    what = f"{dag_id}.{ti.task_id}" if ti is not None else dag_id
    facts = {"text": f"{what}: {context.get('reason') or 'done'}", "dag_id": dag_id, "run_id": context.run.run_id}
    if ti is not None:
        facts |= {"task_id": ti.task_id, "map_index": ti.map_index, "try_number": ti.try_number}
    return facts


send_webhook = WebhookNotifier
