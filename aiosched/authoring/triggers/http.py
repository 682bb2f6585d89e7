"""A trigger that polls a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiosched.authoring.runtime.http import HttpCall, checked
from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent


class HttpTrigger(BaseTrigger):
    """Fires when the status of the response is below 400; the event is `{"status": …, "text": …}`.

    A status in `response_error_codes_allowlist` means "not yet"; any other from 400 on fails the trigger.
    `poke_interval` in seconds. The parameters are those of HttpSensor.
    """

    def __init__(
        self,
        endpoint: str,
        http_conn_id: str | None = None,
        method: str = "GET",
        request_params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        extra_options: Mapping[str, Any] | None = None,
        response_error_codes_allowlist: Sequence[str] = ("404",),
        poke_interval: float = 5.0,
    ) -> None:
        self.endpoint: str = endpoint
        self.http_conn_id: str | None = http_conn_id
        self.method: str = method
        self.request_params: dict[str, Any] = dict(request_params or {})
        self.headers: dict[str, str] = dict(headers or {})
        self.extra_options: dict[str, Any] = dict(extra_options or {})
        self.response_error_codes_allowlist: list[str] = list(response_error_codes_allowlist)
        self.poke_interval = poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Send the request every `poke_interval` seconds."""
        call = HttpCall(
            method=self.method, endpoint=self.endpoint, http_conn_id=self.http_conn_id, data=self.request_params,
            headers=self.headers, options=self.extra_options,
        )  # fmt: skip
        while True:
            response = await call.send()
            if str(response.status_code) not in self.response_error_codes_allowlist:
                checked(response)
                yield TriggerEvent({"status": response.status_code, "text": response.text})
                return
            await asyncio.sleep(self.poke_interval)
