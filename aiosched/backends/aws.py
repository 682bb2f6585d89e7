"""AWS: Secrets Manager, and the Parameter Store of Systems Manager. The text of a secret is what is stored there.

Who one is comes from where boto3 looks for it: the environment, a profile, the role of the machine or of the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiosched.backends.backend import Kind, below, short_name
from aiosched.errors import ConfigError, SecretBackendError


class SecretsManagerBackend:
    """Reads the secrets `connections_prefix`/NAME and `variables_prefix`/NAME."""

    def __init__(
        self,
        *,
        connections_prefix: str = "aiosched/connections",
        variables_prefix: str = "aiosched/variables",
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._prefixes = {"connection": connections_prefix, "variable": variables_prefix}
        self._client = _client("secretsmanager", "aws-secrets", region, profile, endpoint_url, timeout)

    def get(self, kind: Kind, name: str) -> str | None:
        """See SecretBackend."""
        path = below(self._prefixes[kind], name)
        try:
            answer = self._client.get_secret_value(SecretId=path)
        except self._client.exceptions.ResourceNotFoundException:
            return None
        text: str | None = answer.get("SecretString")
        if text is None:
            raise SecretBackendError(f"the secret {path} is binary, and has no text.")
        return text

    def names(self, kind: Kind) -> Iterator[str]:
        """The names below the prefix. Needs the right secretsmanager:ListSecrets."""
        prefix = self._prefixes[kind]
        pages = self._client.get_paginator("list_secrets").paginate(
            Filters=[{"Key": "name", "Values": [below(prefix, "")]}]
        )
        for page in pages:
            yield from _below(prefix, page["SecretList"])


class ParameterStoreBackend:
    """Reads the parameters `connections_prefix`/NAME and `variables_prefix`/NAME, also encrypted ones."""

    def __init__(
        self,
        *,
        connections_prefix: str = "/aiosched/connections",
        variables_prefix: str = "/aiosched/variables",
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._prefixes = {"connection": connections_prefix, "variable": variables_prefix}
        self._client = _client("ssm", "aws-parameters", region, profile, endpoint_url, timeout)

    def get(self, kind: Kind, name: str) -> str | None:
        """See SecretBackend."""
        try:
            answer = self._client.get_parameter(Name=below(self._prefixes[kind], name), WithDecryption=True)
        except self._client.exceptions.ParameterNotFound:
            return None
        return str(answer["Parameter"]["Value"])

    def names(self, kind: Kind) -> Iterator[str]:
        """The names below the prefix. Needs the right ssm:DescribeParameters."""
        prefix = self._prefixes[kind]
        below_it = [{"Key": "Name", "Option": "BeginsWith", "Values": [below(prefix, "")]}]
        for page in self._client.get_paginator("describe_parameters").paginate(ParameterFilters=below_it):
            yield from _below(prefix, page["Parameters"])


def _below(prefix: str, found: list[Mapping[str, Any]]) -> Iterator[str]:
    for one in found:
        if (name := short_name(prefix, one["Name"])) is not None:
            yield name


def _client(
    service: str, kind: str, region: str | None, profile: str | None, endpoint_url: str | None, timeout: float
) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise ConfigError(f"secrets.backends: {kind} needs the package boto3: pip install 'aiosched[aws]'") from None
    config = Config(connect_timeout=timeout, read_timeout=timeout, retries={"max_attempts": 2, "mode": "standard"})
    session = boto3.session.Session(profile_name=profile, region_name=region)
    return session.client(service, endpoint_url=endpoint_url, config=config)
