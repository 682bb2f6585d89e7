"""HashiCorp Vault and OpenBao: secrets of a key-value engine, version 2 or 1.

A connection is a secret with the key `conn_uri`, or with a key for each field; a variable one with the key `value`. So
what was stored for Airflow can be used. Whoever logs in with a role or a pod gets a token that ends: it is renewed when
half of its time is over, and replaced by a new login if that is refused. A standby's redirect to the active server is
followed, but never out of https, and an answer is bounded in bytes and seconds.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from aiosched.backends.backend import Kind, below
from aiosched.clock import Clock, SystemClock
from aiosched.errors import ConfigError, SecretBackendError

AuthType = Literal["token", "approle", "kubernetes"]

_MOST_BYTES: Final = 2**22  # of an answer: Vault stores secrets of up to a million, and lists names
_POD_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "token": ("token", "token_file"),
    "approle": ("role_id",),
    "kubernetes": ("role",),
}


class VaultBackend:
    """Reads `mount_point`/`connections_path`/NAME and `mount_point`/`variables_path`/NAME; see docs/secrets.md."""

    def __init__(
        self,
        *,
        url: str,
        auth: AuthType = "token",
        token: str | None = None,
        token_file: str | None = None,
        role_id: str | None = None,
        secret_id: str | None = None,
        secret_id_file: str | None = None,
        role: str | None = None,
        jwt_file: str = _POD_TOKEN,
        auth_mount_point: str | None = None,
        namespace: str | None = None,
        mount_point: str = "secret",
        connections_path: str = "connections",
        variables_path: str = "variables",
        kv_version: Literal[1, 2] = 2,
        verify: bool | str = True,
        timeout: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        given = {"token": token, "token_file": token_file, "role_id": role_id, "role": role}
        if auth not in _NEEDED or not any(given[name] for name in _NEEDED[auth]):
            raise ConfigError(
                f"secrets.backends: vault with auth = {auth!r} needs "
                f"{' or '.join(_NEEDED.get(auth, ('auth = token, approle or kubernetes',)))}."
            )
        self._hvac = _hvac()
        self._auth: AuthType = auth
        self._token = _Secret(token, token_file)
        self._role_id, self._secret_id = role_id, _Secret(secret_id, secret_id_file)
        self._role, self._jwt = role, _Secret(None, jwt_file)
        self._auth_mount_point = auth_mount_point or auth
        self._mount_point, self._version = mount_point, kv_version
        self._paths = {"connection": connections_path, "variable": variables_path}
        self._clock = clock or SystemClock()
        self._client = self._hvac.Client(
            url=url, namespace=namespace, verify=verify, timeout=timeout, session=_session(verify, timeout)
        )
        self._lock = threading.Lock()
        self._renew_at: float | None = None  # None: there is no token yet
        self._renewable = False

    def get(self, kind: Kind, name: str) -> str | None:
        """See SecretBackend."""
        path = below(self._paths[kind], name)
        try:
            answer = self._with_login(lambda: self._read(path))
        except self._hvac.exceptions.InvalidPath:  # also one whose newest version was deleted
            return None
        data = answer["data"]["data"] if self._version == 2 else answer["data"]
        return None if data is None else _text(kind, data, path)

    def names(self, kind: Kind) -> Iterator[str]:
        """The names of a path, without those in folders below it. Needs the right to list it."""
        kv = self._client.secrets.kv
        api = kv.v2 if self._version == 2 else kv.v1
        try:
            answer = self._with_login(lambda: api.list_secrets(path=self._paths[kind], mount_point=self._mount_point))
        except self._hvac.exceptions.InvalidPath:
            return
        yield from (key for key in answer["data"]["keys"] if not key.endswith("/"))

    def _read(self, path: str) -> Any:
        kv = self._client.secrets.kv
        if self._version == 2:
            return kv.v2.read_secret_version(path=path, mount_point=self._mount_point, raise_on_deleted_version=True)
        return kv.v1.read_secret(path=path, mount_point=self._mount_point)

    # the token

    def _with_login(self, call: Callable[[], Any]) -> Any:
        """The result of `call`; logs in again, once, if the token is not accepted any more."""
        self._keep_token()
        token = self._client.token
        try:
            return call()
        except self._hvac.exceptions.Forbidden:
            with self._lock:
                if self._client.token == token and not self._log_in():
                    raise
            return call()

    def _keep_token(self) -> None:
        with self._lock:
            if self._renew_at is None:
                self._log_in()
            elif self._clock.monotonic() >= self._renew_at:
                self._renew()

    def _log_in(self) -> bool:
        """Get a token. Returns False if it is the same one as before."""
        before = self._client.token
        auth: Mapping[str, Any]
        if self._auth == "token":
            self._client.token = self._token.read("token")
            data = self._client.auth.token.lookup_self()["data"]
            auth = {"lease_duration": data.get("ttl") or 0, "renewable": data.get("renewable", False)}
        elif self._auth == "approle":
            secret_id = self._secret_id.read("secret_id") if self._secret_id else None
            auth = self._client.auth.approle.login(
                role_id=self._role_id, secret_id=secret_id, mount_point=self._auth_mount_point
            )["auth"]
        else:
            auth = self._client.auth.kubernetes.login(
                role=self._role, jwt=self._jwt.read("jwt_file"), mount_point=self._auth_mount_point
            )["auth"]
        self._remember(auth)
        return bool(self._client.token != before)

    def _renew(self) -> None:
        """Let the token live longer; a new login if that does not help."""
        if self._renewable:
            try:
                self._remember(self._client.auth.token.renew_self()["auth"])
            except self._hvac.exceptions.VaultError:
                self._log_in()
        else:
            self._log_in()

    def _remember(self, auth: Mapping[str, Any]) -> None:
        seconds = auth.get("lease_duration") or 0  # 0: it never ends
        self._renew_at = self._clock.monotonic() + (seconds / 2 if seconds else float("inf"))
        self._renewable = bool(auth.get("renewable"))


class _Secret:
    """A part of the login: itself, or a file that is read with each login, so that it can be replaced."""

    def __init__(self, text: str | None, file: str | None) -> None:
        self._text, self._file = text, file

    def __bool__(self) -> bool:
        return bool(self._text or self._file)

    def read(self, option: str) -> str:
        if self._text is not None:
            return self._text
        assert self._file is not None
        try:
            return Path(self._file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            raise SecretBackendError(f"{option}: the file {self._file} cannot be read: {reason}.") from None


def _text(kind: Kind, data: Mapping[str, Any], path: str) -> str:
    if kind == "connection":
        return str(data["conn_uri"]) if "conn_uri" in data else json.dumps(data)
    if "value" not in data:
        raise SecretBackendError(f"the secret {path} has no key `value`, which is where a variable has its text.")
    value = data["value"]
    return value if isinstance(value, str) else json.dumps(value)


def _session(verify: bool | str, timeout: float) -> Any:
    """A session of requests whose answers are bounded."""
    import requests
    from requests.adapters import HTTPAdapter

    class Bounded(HTTPAdapter):
        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            ends_at = time.monotonic() + 2 * timeout
            response = super().send(request, *args, **{**options, "stream": True})
            content = bytearray()
            while part := response.raw.read1(65_536, decode_content=False):
                content += part
                if len(content) > _MOST_BYTES or time.monotonic() > ends_at:
                    response.close()
                    raise SecretBackendError(f"an answer has more than {_MOST_BYTES:,} bytes, or takes too long.")
            response._content, response._content_consumed = bytes(content), True
            return response

    class Session(requests.Session):
        def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
            if response.request.url.startswith("https:") and not prepared_request.url.startswith("https:"):
                raise SecretBackendError("it leads out of https: the token is not sent there.")
            super().rebuild_auth(prepared_request, response)

    session = Session()
    session.verify = verify
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("https://", "http://"):
        session.mount(scheme, Bounded())
    return session


def _hvac() -> Any:
    try:
        import hvac
        import hvac.exceptions
    except ImportError:
        raise ConfigError("secrets.backends: vault needs the package hvac: pip install 'aiosched[vault]'") from None
    return hvac
