"""A task that sends an HTTP request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.python import call_arguments
from aiosched.authoring.runtime.http import HttpCall, checked
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.errors import CommandFailed

if TYPE_CHECKING:
    import httpx2

    from aiosched.authoring.runtime.context import Context


class HttpOperator(BaseOperator):
    """Sends a request and pushes the text of the response, or what `response_filter(response)` returns.

    A status of 400 and above fails the task, as does a false `response_check(response)`; both functions may be
    coroutines and have parameters from the context. `endpoint` is a URL, or a path on the host of the connection
    `http_conn_id`. `data` is the query of a GET, else a form (dict) or a body. `extra_options` are options of the
    request: timeout, verify, allow_redirects, json, params, cookies. Needs `aiosched[http]`.
    """

    template_fields: ClassVar[Sequence[str]] = ("endpoint", "data", "headers", "extra_options")
    template_fields_renderers: ClassVar[Mapping[str, str]] = {"headers": "json", "data": "py"}
    ui_color = "#f4a460"

    def __init__(
        self,
        *,
        endpoint: str | Any = "",
        method: str = "POST",
        http_conn_id: str | None = None,
        data: Any = None,
        headers: Mapping[str, str] | Any | None = None,
        response_check: Callable[..., Any] | None = None,
        response_filter: Callable[..., Any] | None = None,
        extra_options: Mapping[str, Any] | None = None,
        log_response: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.endpoint = endpoint
        self.method = method
        self.http_conn_id = http_conn_id
        self.data = data
        self.headers: Mapping[str, str] | dict[str, str] | Any = headers or {}
        self.response_check = response_check
        self.response_filter = response_filter
        self.extra_options: dict[str, Any] = dict(extra_options or {})
        self.log_response = log_response

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """Send it once; raises CommandFailed."""
        call = HttpCall(
            method=self.method, endpoint=self.endpoint, http_conn_id=self.http_conn_id, data=self.data,
            headers=self.headers, options=self.extra_options,
        )  # fmt: skip
        response = await call.send()
        if self.log_response:
            self.log.info("%s", response.text)
        checked(response)
        if self.response_check is not None and not await apply_check(self.response_check, response, context):
            raise CommandFailed(f"The response_check of task {self.task_id!r} does not accept the answer.")
        return (
            response.text
            if self.response_filter is None
            else await apply_check(self.response_filter, response, context)
        )


async def apply_check(check: Callable[..., Any], response: httpx2.Response, context: Context) -> Any:
    """The result of `check(response)`, a plain or coroutine function; the context fills its other parameters."""
    result = check(response, **call_arguments(check, (response,), {}, context))
    return await result if inspect.isawaitable(result) else result
