"""HTTP requests for operators, sensors, triggers and notifiers, with httpx2 (the extra `aiosched[http]`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiosched.authoring.runtime.connections import Connection
from aiosched.errors import AioschedError, CommandFailed

if TYPE_CHECKING:
    import httpx2


def require_httpx2() -> Any:
    """The module httpx2; raises AioschedError saying how to install it."""
    try:
        import httpx2
    except ImportError:
        raise AioschedError("HTTP requests need httpx2: install it with `pip install 'aiosched[http]'`.") from None
    return httpx2


@dataclass(frozen=True, kw_only=True)
class HttpCall:
    """A request. `endpoint` is a URL, or a path on the host of the connection `http_conn_id`.

    Without a URL and a connection id, the connection `http_default` is used.
    """

    method: str
    endpoint: str
    http_conn_id: str | None = None
    data: Any = None  # query of GET and HEAD, else a form (dict) or a body (str, bytes)
    headers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)  # timeout, verify, allow_redirects, json, params …

    async def send(self) -> httpx2.Response:
        """Send the request; the response, whatever its status. Raises AioschedError without httpx2."""
        http = require_httpx2()
        is_url = "://" in self.endpoint
        base, headers, auth = await _address(self.http_conn_id or (None if is_url else "http_default"))
        options = dict(self.options)
        client_options = {
            "verify": options.pop("verify", True),
            "timeout": options.pop("timeout", 60.0),
            "follow_redirects": options.pop("allow_redirects", True),
        }
        method = self.method.upper()
        if self.data:
            if method in {"GET", "HEAD", "DELETE"}:
                options.setdefault("params", self.data)
            else:
                options.setdefault("data" if isinstance(self.data, Mapping) else "content", self.data)
        url = self.endpoint if is_url else _joined(base, self.endpoint)
        async with http.AsyncClient(**client_options) as client:
            response: httpx2.Response = await client.request(
                method, url, headers={**headers, **self.headers}, auth=options.pop("auth", auth), **options
            )
        return response


def checked(response: httpx2.Response) -> httpx2.Response:
    """The response; raises CommandFailed, with the beginning of the body, for a status of 400 or above."""
    if response.status_code >= 400:
        request = response.request
        raise CommandFailed(
            f"{request.method} {request.url} answered {response.status_code} {response.reason_phrase}: "
            f"{response.text[:500]!r}"
        )
    return response


async def _address(conn_id: str | None) -> tuple[str, dict[str, str], Any]:
    """Base URL, headers and login of a connection; empty without one."""
    if conn_id is None:
        return "", {}, None
    connection = await Connection.aget(conn_id)
    host = connection.host or ""
    if "://" not in host:
        host = f"{connection.schema or 'http'}://{host}"
    if connection.port:
        host = f"{host.rstrip('/')}:{connection.port}"
    auth = (connection.login, connection.password or "") if connection.login else None
    return host, {name: str(value) for name, value in connection.extra_dejson.items()}, auth


def _joined(base: str, endpoint: str) -> str:
    return f"{base.rstrip('/')}/{endpoint.lstrip('/')}" if endpoint else base
