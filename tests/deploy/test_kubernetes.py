"""deploy/kubernetes: valid by the published schemas, rendered by kustomize, and what each pod may and may not do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.compose import read_dockerfile
from tests.deploy.known_names import check_command, known_variables, seconds_to_stop
from tests.deploy.manifests import (
    KUBERNETES,
    KUSTOMIZATIONS,
    OVERLAYS,
    RENDERER,
    WHY_NOT,
    Object,
    containers,
    documents,
    kind_of,
    kustomization,
    pods,
    problems,
    render,
    resources,
)

BASE = KUBERNETES / "base"
rendered = pytest.mark.skipif(RENDERER is None, reason=WHY_NOT)


def name_of(folder: Path) -> str:
    return str(folder.relative_to(KUBERNETES))


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name_of)
def test_every_manifest_is_valid_by_the_published_schemas(folder: Path) -> None:
    found = list(resources(folder))

    assert found
    assert [problem for one in found for problem in problems(one)] == []


def test_the_schemas_refuse_what_kubernetes_refuses() -> None:
    deployment = next(one for one in resources(BASE) if one["kind"] == "Deployment")
    deployment["spec"]["replica"] = 3
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = "8484"

    said = "\n".join(problems(deployment))

    assert "'replica' was unexpected" in said
    assert "ports" in said


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name_of)
def test_a_kustomization_names_files_and_objects_that_exist(folder: Path) -> None:
    content = kustomization(folder)
    below = list(resources(folder)) or list(resources(BASE))
    known = {(one["kind"], one["metadata"]["name"]) for one in [*below, *resources(BASE)]}
    images = {container["image"] for _, spec in pods(list(resources(BASE))) for container in containers(spec)}
    maps = {one["name"] for one in kustomization(BASE)["configMapGenerator"]}

    for name in (*content.get("resources", ()), *content.get("components", ())):
        assert (folder / name).exists(), name
    for patch in content.get("patches", ()):
        target = patch["target"]
        assert any(kind == target["kind"] and target.get("name", name) == name for kind, name in known), target
        assert "patch" in patch or documents(folder / patch["path"]), patch
    assert {one["name"] for one in content.get("images", ())} <= images
    assert {one["name"] for one in content.get("replicas", ())} <= {name for _, name in known}
    assert {one["name"] for one in content.get("configMapGenerator", ())} <= maps


def test_no_manifest_is_left_out() -> None:
    named = {
        (folder / name).resolve()
        for folder in KUSTOMIZATIONS
        for name in (
            *kustomization(folder).get("resources", ()),
            *(patch["path"] for patch in kustomization(folder).get("patches", ()) if "path" in patch),
        )
    }

    left = [path for path in KUBERNETES.rglob("*.yaml") if path.name != "kustomization.yaml" and path not in named]

    assert left == []


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name_of)
def test_the_settings_of_a_kustomization_exist(folder: Path) -> None:
    literals = [text for one in kustomization(folder).get("configMapGenerator", ()) for text in one["literals"]]
    variables = [
        one["name"] for _, spec in pods(list(resources(BASE))) for c in containers(spec) for one in c.get("env", ())
    ]

    assert {text.split("=")[0] for text in literals} | set(variables) <= known_variables()


# ---- what pods may do; of the base always, of the overlays where they can be rendered ----


def written_or_rendered() -> list[Any]:
    cases = [pytest.param(BASE, False, id="base, as it is written")]
    return cases + [pytest.param(folder, True, id=name_of(folder), marks=rendered) for folder in OVERLAYS]


def objects(folder: Path, is_rendered: bool) -> list[Object]:
    return render(folder) if is_rendered else list(resources(folder))


@pytest.mark.parametrize(("folder", "is_rendered"), written_or_rendered())
def test_what_is_applied_is_valid(folder: Path, is_rendered: bool) -> None:
    assert [problem for one in objects(folder, is_rendered) for problem in problems(one)] == []


@pytest.mark.parametrize(("folder", "is_rendered"), written_or_rendered())
def test_every_pod_runs_as_the_images_user_without_rights_on_a_read_only_root(folder: Path, is_rendered: bool) -> None:
    image = read_dockerfile()
    uid, gid = image.user

    for owner, spec in pods(objects(folder, is_rendered)):
        name, context = owner["metadata"]["name"], spec["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (uid, gid, gid), name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        for container in containers(spec):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
            assert {"/tmp", "/var/lib/aiosched"} <= writable, name
            assert {m["name"] for m in container["volumeMounts"]} <= {v["name"] for v in spec["volumes"]}, name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name
            assert "memory" in container["resources"]["limits"], name
            check_command(container["args"] if "args" in container else command_in(container["command"][-1]))


def command_in(script: str) -> list[str]:
    """The `aiosched` command of a line of shell."""
    found = re.search(r"aiosched ([\w -]+)", script)
    assert found is not None, script
    return found[1].split()


@pytest.mark.parametrize(("folder", "is_rendered"), written_or_rendered())
def test_a_scheduler_may_take_as_long_to_end_as_its_grace_allows(folder: Path, is_rendered: bool) -> None:
    literals = [
        text
        for one in (BASE, folder)
        for m in kustomization(one).get("configMapGenerator", ())
        for text in m["literals"]
    ]
    grace = float([text.split("=")[1] for text in literals if text.startswith("AIOSCHED__SCHEDULER__GRACE=")][-1])

    spec = next(spec for owner, spec in pods(objects(folder, is_rendered)) if owner["metadata"]["name"] == "scheduler")

    assert spec["terminationGracePeriodSeconds"] >= seconds_to_stop(grace)


@pytest.mark.parametrize(("folder", "is_rendered"), written_or_rendered())
def test_services_budgets_and_policies_select_pods_that_exist(folder: Path, is_rendered: bool) -> None:
    found = objects(folder, is_rendered)
    common = {} if is_rendered else dict(kustomization(BASE)["labels"][0]["pairs"])
    labels = [owner["spec"]["template"]["metadata"]["labels"] | common for owner, _ in pods(found)]
    selectors = {
        f"{one['kind']} {one['metadata']['name']}": selector
        for one in found
        if (selector := _selector(one)) is not None
    }

    assert len(selectors) >= 8
    assert [
        name for name, chosen in selectors.items() if not any(chosen.items() <= has.items() for has in labels)
    ] == []


def _selector(found: Object) -> dict[str, str] | None:
    spec = found.get("spec", {})
    match found["kind"]:
        case "Service":
            return dict(spec["selector"])
        case "NetworkPolicy":
            return dict(spec["podSelector"]["matchLabels"])
        case "Deployment" | "StatefulSet" | "PodDisruptionBudget":
            return dict(spec["selector"]["matchLabels"])
    return None


def test_nothing_is_allowed_but_what_a_policy_names() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in resources(BASE) if one["kind"] == "NetworkPolicy"}

    nothing = policies.pop("nothing")

    assert nothing["policyTypes"] == ["Ingress", "Egress"]
    assert {"ingress", "egress"} & set(nothing) == set()
    incoming = {name: one["ingress"] for name, one in policies.items() if "Ingress" in one["policyTypes"]}
    assert incoming == {"web": [{"ports": [{"protocol": "TCP", "port": 8484}]}]}


def test_no_secret_is_in_the_repository() -> None:
    assert [one for folder in KUSTOMIZATIONS for one in resources(folder) if kind_of(one) == "v1 Secret"] == []
    for _, spec in pods(list(resources(BASE))):
        assert {"name": "secrets", "secret": {"secretName": "aiosched", "defaultMode": 0o440}} in spec["volumes"]


def test_the_web_server_is_probed_at_addresses_that_it_has() -> None:
    spec = next(spec for owner, spec in pods(list(resources(BASE))) if owner["metadata"]["name"] == "web")
    web = spec["containers"][0]
    probes = {web[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert probes == {"/livez", "/readyz?scheduler=false"}
    assert {web[kind]["httpGet"]["port"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")} == {"http"}
    assert {"name": "http", "containerPort": 8484} in web["ports"]


@rendered
def test_production_has_three_schedulers_and_its_own_settings() -> None:
    found = render(KUBERNETES / "overlays" / "production")
    replicas = {one["metadata"]["name"]: one["spec"]["replicas"] for one in found if one["kind"] == "Deployment"}
    settings = next(one for one in found if one["kind"] == "ConfigMap")

    assert replicas == {"scheduler": 3, "web": 2}
    assert settings["data"]["AIOSCHED__SCHEDULER__GRACE"] == "1800"
    assert settings["data"]["AIOSCHED_DSN__FILE"] == "/run/secrets/aiosched/dsn"
    for _, spec in pods(found):
        for container in containers(spec):
            assert container["envFrom"] == [{"configMapRef": {"name": settings["metadata"]["name"]}}]
            assert container["image"].startswith("registry.example/aiosched:")


@rendered
def test_a_component_can_be_added_to_an_overlay(tmp_path: Path) -> None:
    def relative(name: str) -> str:
        return os.path.relpath(KUBERNETES / name, tmp_path)

    overlay = {"resources": [relative("overlays/small")], "components": [relative("components/kubernetes-executor")]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    found = render(tmp_path)

    scheduler, web = (
        next(spec for owner, spec in pods(found) if owner["metadata"]["name"] == name) for name in ("scheduler", "web")
    )
    assert [problem for one in found for problem in problems(one)] == []
    assert {"Role", "RoleBinding"} <= {one["kind"] for one in found}
    assert scheduler["automountServiceAccountToken"] is True
    assert web["automountServiceAccountToken"] is False
