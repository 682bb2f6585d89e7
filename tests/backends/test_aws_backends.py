"""AWS Secrets Manager and Parameter Store, with boto3 and moto's model of both services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from aiosched.backends.aws import ParameterStoreBackend, SecretsManagerBackend
from aiosched.errors import SecretBackendError

REGION = "eu-west-1"


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield


@pytest.fixture
def manager() -> Any:
    return boto3.client("secretsmanager", region_name=REGION)


@pytest.fixture
def store() -> Any:
    return boto3.client("ssm", region_name=REGION)


def test_secrets_are_below_their_prefix(manager: Any) -> None:
    manager.create_secret(Name="aiosched/connections/shop", SecretString="postgres://u:p@h/x")
    manager.create_secret(Name="aiosched/variables/region", SecretString="eu")
    backend = SecretsManagerBackend(region=REGION)

    assert backend.get("connection", "shop") == "postgres://u:p@h/x"
    assert backend.get("variable", "region") == "eu"
    assert backend.get("variable", "shop") is None
    assert list(backend.names("connection")) == ["shop"]


def test_a_new_version_of_a_secret_is_read(manager: Any) -> None:
    manager.create_secret(Name="v/region", SecretString="old")
    backend = SecretsManagerBackend(region=REGION, variables_prefix="v")
    before = backend.get("variable", "region")

    manager.put_secret_value(SecretId="v/region", SecretString="new")

    assert (before, backend.get("variable", "region")) == ("old", "new")


def test_a_binary_secret_is_an_error(manager: Any) -> None:
    manager.create_secret(Name="aiosched/variables/key", SecretBinary=b"\x00")

    with pytest.raises(SecretBackendError, match="binary"):
        SecretsManagerBackend(region=REGION).get("variable", "key")


def test_a_secret_that_waits_for_its_deletion_is_an_error_not_absent(manager: Any) -> None:
    manager.create_secret(Name="aiosched/variables/key", SecretString="x")
    manager.delete_secret(SecretId="aiosched/variables/key")

    with pytest.raises(Exception, match="marked deleted"):
        SecretsManagerBackend(region=REGION).get("variable", "key")


def test_parameters_are_decrypted(store: Any) -> None:
    store.put_parameter(Name="/aiosched/variables/api_key", Value="sesame", Type="SecureString")
    store.put_parameter(Name="/aiosched/connections/shop", Value="http://h", Type="String")
    backend = ParameterStoreBackend(region=REGION)

    assert backend.get("variable", "api_key") == "sesame"
    assert backend.get("connection", "shop") == "http://h"
    assert backend.get("connection", "api_key") is None
    assert list(backend.names("variable")) == ["api_key"]
