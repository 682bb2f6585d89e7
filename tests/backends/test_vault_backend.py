"""HashiCorp Vault's API, asked of a real server (OpenBao): what is read, every way to log in, and tokens that end."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hvac.exceptions
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aiosched.backends.vault import VaultBackend
from aiosched.clock import FakeClock
from aiosched.errors import ConfigError, SecretBackendError
from tests.backends.vault_server import ROOT_TOKEN, VaultServer, running_vault

POLICY = """
path "secret/data/*" { capabilities = ["read"] }
path "secret/metadata/*" { capabilities = ["list"] }
"""
READ_ONE = 'path "secret/data/connections/shop" { capabilities = ["read"] }'


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultServer]:
    with running_vault(tmp_path_factory.mktemp("vault")) as server:
        server.client.sys.create_or_update_policy("reader", POLICY)
        server.client.sys.create_or_update_policy("read-one", READ_ONE)
        server.client.sys.enable_auth_method("approle")
        server.client.auth.approle.create_or_update_approle("aiosched", token_policies=["reader"], token_ttl="20m")
        yield server


def with_token(vault: VaultServer, **options: Any) -> VaultBackend:
    return VaultBackend(url=vault.url, token=ROOT_TOKEN, **options)


# ---- what is read ----


def test_connections_are_uris_or_fields_and_variables_have_a_value(vault: VaultServer) -> None:
    vault.put("connections/shop", conn_uri="postgres://u:p@h/x")
    vault.put("connections/api", conn_type="http", host="h", extra={"region": "eu"})
    vault.put("variables/region", value="eu")
    vault.put("variables/limits", value={"cpu": 2})
    backend = with_token(vault)

    assert backend.get("connection", "shop") == "postgres://u:p@h/x"
    assert json.loads(backend.get("connection", "api") or "") == {
        "conn_type": "http",
        "host": "h",
        "extra": {"region": "eu"},
    }
    assert backend.get("variable", "region") == "eu"
    assert json.loads(backend.get("variable", "limits") or "") == {"cpu": 2}
    assert backend.get("variable", "shop") is None


def test_the_newest_version_counts_and_a_deleted_one_is_not_there(vault: VaultServer) -> None:
    backend = with_token(vault)
    vault.put("variables/changing", value="old")
    vault.put("variables/changing", value="new")
    found = backend.get("variable", "changing")

    vault.client.secrets.kv.v2.delete_latest_version_of_secret("variables/changing")

    assert (found, backend.get("variable", "changing")) == ("new", None)


def test_names_are_listed(vault: VaultServer) -> None:
    for name in ("x", "y", "team/z"):
        vault.put(f"listed/{name}", value="1")

    assert list(with_token(vault, variables_path="listed").names("variable")) == ["x", "y"]
    assert list(with_token(vault, variables_path="nothing").names("variable")) == []


def test_a_secret_without_a_value_is_an_error(vault: VaultServer) -> None:
    vault.put("variables/odd", other="1")

    with pytest.raises(SecretBackendError, match=r"variables/odd has no key `value`"):
        with_token(vault).get("variable", "odd")


def test_version_1_of_the_engine(vault: VaultServer) -> None:
    vault.client.sys.enable_secrets_engine("kv", path="old", options={"version": "1"})
    vault.client.secrets.kv.v1.create_or_update_secret("variables/region", {"value": "eu"}, mount_point="old")
    backend = with_token(vault, mount_point="old", kv_version=1)

    assert backend.get("variable", "region") == "eu"
    assert backend.get("variable", "other") is None
    assert list(backend.names("variable")) == ["region"]


def test_a_namespace(vault: VaultServer) -> None:
    vault.client.sys._adapter.post("/v1/sys/namespaces/inner")
    inner = hvac.Client(url=vault.url, token=ROOT_TOKEN, namespace="inner")
    inner.sys.enable_secrets_engine("kv", path="secret", options={"version": "2"})
    inner.secrets.kv.v2.create_or_update_secret("variables/where", {"value": "inside"})
    inner.adapter.close()

    assert with_token(vault, namespace="inner").get("variable", "where") == "inside"
    assert with_token(vault).get("variable", "where") is None


# ---- who one is ----


def test_a_role_that_may_read_one_secret_reads_no_other(vault: VaultServer) -> None:
    vault.put("connections/shop", conn_uri="http://h")
    vault.put("connections/other", conn_uri="http://h")
    token = vault.client.auth.token.create(policies=["read-one"], ttl="1h")["auth"]["client_token"]
    backend = VaultBackend(url=vault.url, token=token)

    assert backend.get("connection", "shop") == "http://h"
    with pytest.raises(hvac.exceptions.Forbidden):
        backend.get("connection", "other")


def test_an_application_logs_in_with_its_role(vault: VaultServer, tmp_path: Path) -> None:
    vault.put("variables/region", value="eu")
    secret_id = vault.client.auth.approle.generate_secret_id("aiosched")["data"]["secret_id"]
    (tmp_path / "secret-id").write_text(f"{secret_id}\n")
    role_id = vault.client.auth.approle.read_role_id("aiosched")["data"]["role_id"]
    backend = VaultBackend(url=vault.url, auth="approle", role_id=role_id, secret_id_file=str(tmp_path / "secret-id"))

    assert backend.get("variable", "region") == "eu"


def approle(vault: VaultServer, clock: FakeClock | None = None) -> VaultBackend:
    role_id = vault.client.auth.approle.read_role_id("aiosched")["data"]["role_id"]
    secret_id = vault.client.auth.approle.generate_secret_id("aiosched")["data"]["secret_id"]
    return VaultBackend(url=vault.url, auth="approle", role_id=role_id, secret_id=secret_id, clock=clock)


def test_a_token_is_renewed_when_half_of_its_time_is_over(vault: VaultServer) -> None:
    vault.put("variables/region", value="eu")
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    backend = approle(vault, clock)
    backend.get("variable", "region")
    token = backend._client.token

    clock.advance(20 * 60 / 2 + 1)
    backend.get("variable", "region")

    assert backend._client.token == token
    assert vault.client.auth.token.lookup(token)["data"]["last_renewal"]


def test_who_cannot_renew_a_token_logs_in_again(vault: VaultServer) -> None:
    vault.put("variables/region", value="eu")
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    backend = approle(vault, clock)
    backend.get("variable", "region")
    token = backend._client.token

    vault.client.auth.token.revoke(token)
    clock.advance(20 * 60)

    assert backend.get("variable", "region") == "eu"
    assert backend._client.token != token


def test_a_token_that_was_withdrawn_before_its_time_is_replaced(vault: VaultServer) -> None:
    vault.put("variables/region", value="eu")
    backend = approle(vault)
    backend.get("variable", "region")

    vault.client.auth.token.revoke(backend._client.token)

    assert backend.get("variable", "region") == "eu"


def test_a_new_token_in_the_file_is_used_when_the_old_one_is_withdrawn(vault: VaultServer, tmp_path: Path) -> None:
    vault.put("variables/region", value="eu")
    old, new = (vault.client.auth.token.create(policies=["reader"])["auth"]["client_token"] for _ in range(2))
    file = tmp_path / "token"
    file.write_text(f"{old}\n")
    backend = VaultBackend(url=vault.url, token_file=str(file))
    backend.get("variable", "region")

    file.write_text(f"{new}\n")
    vault.client.auth.token.revoke(old)

    assert backend.get("variable", "region") == "eu"


def test_a_withdrawn_token_is_an_error(vault: VaultServer) -> None:
    token = vault.client.auth.token.create(policies=["reader"])["auth"]["client_token"]
    backend = VaultBackend(url=vault.url, token=token)
    backend.get("variable", "region")

    vault.client.auth.token.revoke(token)

    with pytest.raises(hvac.exceptions.Forbidden):
        backend.get("variable", "region")


# ---- in a pod ----


def jwt(**claims: Any) -> str:
    def part(value: Any) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    return f"{part({'alg': 'RS256', 'kid': 'k'})}.{part(claims)}.{part(b'x' * 256)}"


def a_certificate() -> str:
    """One is needed, although the model of Kubernetes speaks plain HTTP."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "k")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2096, 1, 1))  # noqa: DTZ001
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


class Kubernetes(BaseHTTPRequestHandler):
    """Answers a TokenReview: every token is that of one service account."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        review = json.loads(self.rfile.read(length))
        user = {
            "username": "system:serviceaccount:flows:aiosched",
            "uid": "u1",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:flows"],
        }
        answer = json.dumps({**review, "status": {"authenticated": True, "user": user}}).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def kubernetes() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Kubernetes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_pod_logs_in_with_its_service_account(vault: VaultServer, kubernetes: str, tmp_path: Path) -> None:
    account = {"name": "aiosched", "uid": "u1"}
    token = jwt(
        iss="https://kubernetes.default.svc",
        sub="system:serviceaccount:flows:aiosched",
        iat=1_700_000_000,
        nbf=1_700_000_000,
        exp=4_000_000_000,
        **{"kubernetes.io": {"namespace": "flows", "serviceaccount": account}},
    )
    (tmp_path / "jwt").write_text(token)
    vault.client.sys.enable_auth_method("kubernetes")
    vault.client.auth.kubernetes.configure(
        kubernetes, kubernetes_ca_cert=a_certificate(), token_reviewer_jwt=token, disable_local_ca_jwt=True
    )
    vault.client.auth.kubernetes.create_role(
        "scheduler",
        bound_service_account_names=["aiosched"],
        bound_service_account_namespaces=["flows"],
        policies=["reader"],
    )
    vault.put("variables/region", value="eu")
    backend = VaultBackend(url=vault.url, auth="kubernetes", role="scheduler", jwt_file=str(tmp_path / "jwt"))

    assert backend.get("variable", "region") == "eu"


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({}, "token or token_file"),
        ({"auth": "approle"}, "role_id"),
        ({"auth": "kubernetes"}, "role"),
        ({"auth": "ldap"}, "approle or kubernetes"),
    ],
)
def test_what_a_login_needs_is_said(options: dict[str, Any], needed: str) -> None:
    with pytest.raises(ConfigError, match=needed):
        VaultBackend(url="http://localhost", **options)


def test_a_token_file_that_is_gone_is_named(vault: VaultServer) -> None:
    with pytest.raises(SecretBackendError, match=r"token: the file /nowhere/token cannot be read"):
        VaultBackend(url=vault.url, token_file="/nowhere/token").get("variable", "x")
