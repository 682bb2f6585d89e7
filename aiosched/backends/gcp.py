"""Google Secret Manager: the newest version of a secret. Who one is comes from Google's default credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from aiosched.backends.backend import Kind, below, short_name
from aiosched.errors import ConfigError, SecretBackendError

_ID: Final = re.compile(r"^[A-Za-z0-9_-]{1,255}$")


class GoogleBackend:
    """Reads the secrets `connections_prefix`-NAME and `variables_prefix`-NAME of a project.

    A name that Google does not allow (letters, digits, _ and -) is not there. `endpoint` is another address of the
    service; `client` another client.
    """

    def __init__(
        self,
        *,
        project: str | None = None,
        connections_prefix: str = "aiosched-connections",
        variables_prefix: str = "aiosched-variables",
        separator: str = "-",
        key_file: str | None = None,
        endpoint: str | None = None,
        timeout: float = 10.0,
        client: Any = None,
    ) -> None:
        self._exceptions, library = _library()
        self._prefixes = {"connection": connections_prefix, "variable": variables_prefix}
        self._separator, self._timeout = separator, timeout
        self._project = project or _own_project()
        if client is None:
            options = {"api_endpoint": endpoint} if endpoint else None
            make = library.SecretManagerServiceClient
            client = make(client_options=options) if key_file is None else make.from_service_account_file(key_file)
        self._client = client

    def get(self, kind: Kind, name: str) -> str | None:
        """See SecretBackend."""
        secret = below(self._prefixes[kind], name, self._separator)
        if not _ID.match(secret):
            return None
        path = f"projects/{self._project}/secrets/{secret}/versions/latest"
        try:
            answer = self._client.access_secret_version(request={"name": path}, timeout=self._timeout)
        except self._exceptions.NotFound:
            return None
        try:
            return str(answer.payload.data.decode("utf-8"))
        except UnicodeDecodeError:
            raise SecretBackendError(f"the secret {secret} is not text in UTF-8.") from None

    def names(self, kind: Kind) -> Iterator[str]:
        """The names below the prefix. Needs the right secretmanager.secrets.list."""
        prefix = self._prefixes[kind]
        request = {"parent": f"projects/{self._project}", "filter": f"name:{prefix}"}
        for secret in self._client.list_secrets(request=request, timeout=self._timeout):
            found = short_name(prefix, secret.name.rpartition("/")[2], self._separator)
            if found is not None:
                yield found


def _library() -> tuple[Any, Any]:
    try:
        from google.api_core import exceptions
        from google.cloud import secretmanager
    except ImportError:
        raise ConfigError(
            "secrets.backends: gcp needs the package google-cloud-secret-manager: pip install 'aiosched[gcp]'"
        ) from None
    return exceptions, secretmanager


def _own_project() -> str:
    import google.auth

    _, project = google.auth.default()
    if not project:
        raise ConfigError("secrets.backends: gcp needs a project: project = 'my-project'.")
    return str(project)
