"""Google Secret Manager: Google's own library, connected to a model of the service."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import secretmanager_v1 as api
from google.cloud.secretmanager_v1.services.secret_manager_service.transports import SecretManagerServiceGrpcTransport

from aiosched.backends.gcp import GoogleBackend
from aiosched.errors import SecretBackendError


class Service:
    """Secrets of one project, by id; None: nobody may read it."""

    def __init__(self) -> None:
        self.found: dict[str, bytes | None] = {}

    def access(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The newest version."""
        _, project, _, secret, _, version = request.name.split("/")
        if (project, version) != ("shop", "latest") or secret not in self.found:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Secret [{request.name}] not found or has no versions.")
        data = self.found[secret]
        if data is None:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Permission denied on resource.")
        return api.AccessSecretVersionResponse(name=request.name, payload=api.SecretPayload(data=data))

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        """All secrets; the filter is left to the client."""
        return api.ListSecretsResponse(
            secrets=[api.Secret(name=f"{request.parent}/secrets/{one}") for one in self.found]
        )


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def backend(service: Service) -> Iterator[GoogleBackend]:
    handlers = {
        "AccessSecretVersion": grpc.unary_unary_rpc_method_handler(
            service.access, api.AccessSecretVersionRequest.deserialize, api.AccessSecretVersionResponse.serialize
        ),
        "ListSecrets": grpc.unary_unary_rpc_method_handler(
            service.list, api.ListSecretsRequest.deserialize, api.ListSecretsResponse.serialize
        ),
    }
    server = grpc.server(ThreadPoolExecutor(2))
    name = "google.cloud.secretmanager.v1.SecretManagerService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = api.SecretManagerServiceClient(transport=SecretManagerServiceGrpcTransport(channel=channel))
        yield GoogleBackend(project="shop", client=client)
    server.stop(None).wait()


def test_the_newest_version_is_read(service: Service, backend: GoogleBackend) -> None:
    service.found = {"aiosched-connections-shop": b"postgres://u:p@h/x", "aiosched-variables-region": b"eu"}

    assert backend.get("connection", "shop") == "postgres://u:p@h/x"
    assert backend.get("variable", "region") == "eu"
    assert backend.get("variable", "shop") is None
    assert list(backend.names("connection")) == ["shop"]


def test_a_name_that_google_does_not_allow_is_not_there(service: Service, backend: GoogleBackend) -> None:
    service.found = {"aiosched-variables-a": b"x"}

    assert backend.get("variable", "a.b") is None
    assert backend.get("variable", "a/versions/1") is None


def test_what_may_not_be_read_is_an_error_not_absent(service: Service, backend: GoogleBackend) -> None:
    service.found = {"aiosched-variables-a": None}

    with pytest.raises(exceptions.PermissionDenied):
        backend.get("variable", "a")


def test_what_is_no_text_is_an_error(service: Service, backend: GoogleBackend) -> None:
    service.found = {"aiosched-variables-a": b"\xff"}

    with pytest.raises(SecretBackendError, match="not text"):
        backend.get("variable", "a")
