"""A sensor that polls a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.http import apply_check
from aiosched.authoring.operators.sensor import BaseSensorOperator
from aiosched.authoring.runtime.http import HttpCall, checked
from aiosched.authoring.triggers.http import HttpTrigger

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class HttpSensor(BaseSensorOperator):
    """Waits until the status of a response is below 400 and, if given, `response_check(response)` returns true.

    A status in `response_error_codes_allowlist` (404) means "not yet"; any other from 400 on fails the sensor.
    `endpoint` is a URL, or a path on the host of the connection `http_conn_id`. Needs `aiosched[http]`.
    """

    template_fields: ClassVar[Sequence[str]] = ("endpoint", "request_params", "headers")

    def __init__(
        self,
        *,
        endpoint: str | Any,
        http_conn_id: str | None = None,
        method: str = "GET",
        request_params: Mapping[str, Any] | Any | None = None,
        headers: Mapping[str, Any] | Any | None = None,
        response_error_codes_allowlist: Sequence[str | int] | None = None,
        response_check: Callable[..., Any] | None = None,
        extra_options: Mapping[str, Any] | None = None,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if deferrable and response_check is not None:
            raise self.fail(
                f"Sensor {self.task_id!r}: a trigger cannot carry a function, so response_check and deferrable=True "
                "exclude each other. Keep one."
            )
        self.endpoint = endpoint
        self.http_conn_id = http_conn_id
        self.method = method
        self.request_params: Mapping[str, Any] | dict[str, Any] | Any = request_params or {}
        self.headers: Mapping[str, Any] | dict[str, Any] | Any = headers or {}
        codes = ("404",) if response_error_codes_allowlist is None else response_error_codes_allowlist
        self.response_error_codes_allowlist: list[str] = [str(code) for code in codes]
        self.response_check = response_check
        self.extra_options: dict[str, Any] = dict(extra_options or {})
        self.deferrable = deferrable

    @for_plain_callers
    async def poke(self, context: Context) -> bool:
        """Send the request once."""
        call = HttpCall(
            method=self.method, endpoint=self.endpoint, http_conn_id=self.http_conn_id, data=self.request_params,
            headers=self.headers, options=self.extra_options,
        )  # fmt: skip
        response = await call.send()
        if str(response.status_code) in self.response_error_codes_allowlist:
            return False
        checked(response)
        return self.response_check is None or bool(await apply_check(self.response_check, response, context))

    def deferred_on(self, context: Context) -> HttpTrigger:
        """A trigger with the same request."""
        return HttpTrigger(
            self.endpoint, self.http_conn_id, self.method, self.request_params, self.headers, self.extra_options,
            self.response_error_codes_allowlist, self.poke_interval,
        )  # fmt: skip
