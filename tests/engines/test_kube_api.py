"""Who we are to the Kubernetes API: in a pod its service account, over TLS; elsewhere the context of a kubeconfig."""

from __future__ import annotations

import asyncio
import ssl
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

pytest.importorskip("kubernetes_asyncio", reason="not installed: pip install kubernetes_asyncio")

from kubernetes_asyncio.config import incluster_config

from aiosched.config import Settings
from aiosched.errors import ConfigError
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.kubernetes import kube_api
from aiosched.executors.kubernetes.kube_api import KubeApi, KubeError
from tests.engines.kubernetes_api import TOKEN, KubernetesApi


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate for 127.0.0.1, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = folder / "tls.pem"
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file


async def test_in_a_pod_it_is_its_service_account(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube, pem = KubernetesApi("flows"), certificate(tmp_path)
    kube.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    kube.tls.load_cert_chain(pem)
    await kube.start()
    for name, text in (("token", TOKEN), ("namespace", "flows\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(kube.port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(pem))
    monkeypatch.setattr(kube_api, "OWN_NAMESPACE", tmp_path / "namespace")
    api = await KubeApi.connect(settings.kubernetes)
    assert api.namespace == "flows"
    assert (await api.list_pods("flows", "a=b"))[0] == []
    kube.token = "the next one"
    (tmp_path / "token").write_text("the next one")
    assert (await api.list_pods("flows", "a=b"))[0] == []
    await api.close()
    await kube.stop()


async def test_a_context_has_a_namespace(settings: Settings, kube: KubernetesApi, tmp_path: Path) -> None:
    settings.kubernetes.kubeconfig = kube.kubeconfig(tmp_path)
    settings.kubernetes.kubeconfig.write_text(
        settings.kubernetes.kubeconfig.read_text().replace("namespace: default", "namespace: others")
    )
    settings.kubernetes.context = "test"
    api = await KubeApi.connect(settings.kubernetes)
    assert api.namespace == "others"
    await api.close()

    settings.kubernetes.context = "missing"
    with pytest.raises(ConfigError, match=r"missing.*kubernetes\.context"):
        await KubeApi.connect(settings.kubernetes)


async def test_a_long_list_comes_in_pages_of_one_version(
    settings: Settings, kube: KubernetesApi, tmp_path: Path
) -> None:
    settings.kubernetes.kubeconfig, settings.kubernetes.requests_per_second = kube.kubeconfig(tmp_path), 1000.0
    api = await KubeApi.connect(settings.kubernetes)
    for number in range(7):
        metadata = {"name": f"p{number}", "labels": {"a": "b" if number != 3 else "c"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        await api.create("default", "pods", {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    version = str(kube.store.version)
    pods, found = await api.list_pods("default", "a=b", page=2)
    assert ([pod["metadata"]["name"] for pod in pods], found) == (["p0", "p1", "p2", "p4", "p5", "p6"], version)
    assert kube.seen["list", "pods"] == 3
    await api.close()


async def test_answers_that_are_errors(settings: Settings, kube: KubernetesApi, tmp_path: Path) -> None:
    settings.kubernetes.kubeconfig = kube.kubeconfig(tmp_path)
    api = await KubeApi.connect(settings.kubernetes)
    with pytest.raises(KubeError, match='pods "none" not found') as caught:
        await api.get("default", "pods", "none")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    await api.delete_pod("default", "none", uid="u")  # not an error
    with pytest.raises(KubeError, match="could not find the requested resource"):
        await api.get("default", "nonsense", "x")
    await kube.stop()
    with pytest.raises(EngineUnavailable, match=f"{kube.url} cannot be reached"):
        await api.get("default", "pods", "none")
    await api.close()


async def test_requests_keep_to_the_rate(settings: Settings, kube: KubernetesApi, tmp_path: Path) -> None:
    settings.kubernetes.kubeconfig, settings.kubernetes.requests_per_second = kube.kubeconfig(tmp_path), 20.0
    api = await KubeApi.connect(settings.kubernetes)
    begun = time.monotonic()
    await asyncio.gather(*(api.list_pods("default", "a") for _ in range(40)))
    assert time.monotonic() - begun >= 0.9, "twenty at once, and twenty within the next second"
    await api.close()
