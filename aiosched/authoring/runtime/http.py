"""HTTP requests for operators, sensors, triggers and notifiers, with httpx2 (the extra `aiosched[http]`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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

    Without a URL and a connection id, the connection `http_default` is used. With a connection the request, and each
    redirect, stays at its origin (scheme, host and port): an endpoint may come from a template.
    """

    method: str
    endpoint: str
    http_conn_id: str | None = None
    data: Any = None  # query of GET and HEAD, else a form (dict) or a body (str, bytes)
    headers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)  # timeout, verify, allow_redirects, json, params …
    most_bytes: int | None = None  # of the body, as it is sent; what follows is not read. None: all

    async def send(self) -> httpx2.Response:
        """Send the request; the response, whatever its status.

        Raises AioschedError without httpx2, CommandFailed if the connection's origin would be left.
        """
        http = require_httpx2()
        is_url = "://" in self.endpoint
        conn_id = self.http_conn_id or (None if is_url else "http_default")
        base, headers, auth = await _address(conn_id)
        options = dict(self.options)
        client_options = {
            "verify": options.pop("verify", True),
            "timeout": options.pop("timeout", 60.0),
            "follow_redirects": options.pop("allow_redirects", True),
        }
        if conn_id is not None:
            client_options["event_hooks"] = {"request": [_stays_at(http.URL(base), conn_id)]}
        method = self.method.upper()
        if self.data:
            if method in {"GET", "HEAD", "DELETE"}:
                options.setdefault("params", self.data)
            else:
                options.setdefault("data" if isinstance(self.data, Mapping) else "content", self.data)
        url = self.endpoint if is_url else _joined(base, self.endpoint)
        async with http.AsyncClient(**client_options) as client:
            options |= {"headers": {**headers, **self.headers}, "auth": options.pop("auth", auth)}
            if self.most_bytes is not None:
                async with client.stream(method, url, **options) as begun:
                    return await _beginning(begun, self.most_bytes)
            response: httpx2.Response = await client.request(method, url, **options)
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


async def _beginning(response: httpx2.Response, most: int) -> httpx2.Response:
    """The response with the beginning of its body. Nothing is unpacked: a packed one counts as empty."""
    found = bytearray()
    if "content-encoding" not in response.headers:
        async for part in response.aiter_bytes():
            found += part
            if len(found) >= most:
                break
    return type(response)(response.status_code, content=bytes(found[:most]), request=response.request)


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


def _stays_at(base: httpx2.URL, conn_id: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """A check of each request, redirected ones included, before the connection's credentials are sent with it."""

    async def check(request: httpx2.Request) -> None:
        url = request.url
        is_upgrade = base.scheme == "http" and url.scheme == "https" and base.port is None and url.port is None
        if url.host != base.host or not ((url.scheme, url.port) == (base.scheme, base.port) or is_upgrade):
            raise CommandFailed(
                f"{url.scheme}://{url.netloc.decode()} is not where connection {conn_id!r} leads "
                f"({base.scheme}://{base.netloc.decode()}), so its credentials are not sent there. Use a path as the "
                "endpoint, or a connection of that host; a public URL needs none."
            )

    return check


def _joined(base: str, endpoint: str) -> str:
    return f"{base.rstrip('/')}/{endpoint.lstrip('/')}" if endpoint else base
