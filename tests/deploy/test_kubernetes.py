"""deploy/kubernetes: valid by the published schemas, rendered by kustomize, and what each pod may and may not do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiosched.core.values.worker_messages import Job
from aiosched.executors.kubernetes.manifests import PodOptions, idle_pod, pod_of
from tests.deploy.compose import ROOT, read_dockerfile
from tests.deploy.known_names import check_command, known_variables, seconds_to_stop
from tests.deploy.manifests import (
    KUBERNETES,
    KUSTOMIZATIONS,
    OVERLAYS,
    RENDERER,
    WHY_NOT,
    End,
    Object,
    allows,
    containers,
    documents,
    kind_of,
    kustomization,
    pods,
    problems,
    render,
    resources,
    unrestricted,
)

BASE, TASKS = KUBERNETES / "base", KUBERNETES / "tasks"
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
            return dict(spec["podSelector"].get("matchLabels", {}))
        case "Deployment" | "StatefulSet" | "PodDisruptionBudget":
            return dict(spec["selector"]["matchLabels"])
    return None


@pytest.mark.parametrize("folder", [BASE, TASKS], ids=name_of)
def test_nobody_may_talk_but_as_a_policy_says(folder: Path) -> None:
    [nothing] = [
        one for one in resources(folder) if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "nothing"
    ]

    assert nothing["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_no_secret_is_in_the_repository() -> None:
    assert [one for folder in KUSTOMIZATIONS for one in resources(folder) if kind_of(one) == "v1 Secret"] == []


KEYS: dict[str, set[str]] = {
    "migrate": {"dsn-owner"},
    "scheduler": {"dsn-scheduler", "fernet-keys"},
    "web": {"dsn-web", "fernet-keys", "admin-password", "metrics-token"},
    "worker-api": {"dsn-web", "fernet-keys"},
}
FOLDER = "/run/secrets/aiosched"


def test_each_key_of_the_secret_is_mounted_where_it_is_read_and_nowhere_else() -> None:
    found: dict[str, set[str]] = {}
    settings = dict(text.split("=", 1) for text in kustomization(BASE)["configMapGenerator"][0]["literals"])
    for owner, spec in all_pods():
        name = owner["metadata"]["name"]
        [secret] = [one["secret"] for one in spec["volumes"] if "secret" in one]
        items = {one["path"]: one["key"] for one in secret["items"]}
        found[name] = set(items.values())
        assert (secret["secretName"], secret["defaultMode"]) == ("aiosched", 0o440)
        for container in containers(spec):
            variables = settings | {one["name"]: one["value"] for one in container.get("env", ())}  # no valueFrom
            named = {path for name, path in variables.items() if name.endswith("__FILE")}
            [mount] = [one for one in container["volumeMounts"] if one["name"] == "secrets"]
            assert [set(one) for one in container["envFrom"]] == [{"configMapRef"}], name
            assert mount["readOnly"] is True
            seen = {mount["mountPath"]} if "subPath" in mount else {f"{FOLDER}/{path}" for path in items}
            assert seen == named, (name, container["name"])
    assert found == KEYS


def test_the_page_says_how_all_keys_are_made() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")

    assert set(re.findall(r"--from-(?:literal|file)=([\w-]+)=", page)) == set().union(*KEYS.values())


def all_pods() -> list[tuple[Object, Object]]:
    return list(pods([*resources(BASE), *resources(KUBERNETES / "components" / "worker-api")]))


def test_each_kind_of_pod_has_an_account_of_its_own() -> None:
    accounts = {owner["metadata"]["name"]: spec["serviceAccountName"] for owner, spec in all_pods()}

    assert accounts == {name: name for name in KEYS}


def test_pods_of_ours_and_of_tasks_keep_to_the_profile_restricted() -> None:
    options = PodOptions(instance="aiosched", namespace="aiosched-tasks", image="aiosched")
    container = {"image": "x", "ports": [{"containerPort": 1}], "env": [{"name": "A", "value": "b"}]}
    allowed = {"spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}}
    jobs = [Job(id=1, token="t", urls=(), executor_config=config) for config in ({}, {"pod_override": allowed})]
    tasks = [*(pod_of(job, options, salt="s") for job in jobs), idle_pod(options, salt="s")]

    assert [unrestricted(spec) for spec in (*(spec for _, spec in all_pods()), *(pod["spec"] for pod in tasks))] == [
        []
    ] * (len(KEYS) + len(tasks))
    assert all(pod["spec"]["automountServiceAccountToken"] is False for pod in tasks)


@pytest.mark.parametrize(
    ("pod", "container", "said"),
    [
        ({"hostNetwork": True}, {}, "hostNetwork"),
        ({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, {}, "volume h"),
        ({"securityContext": {}}, {}, "base: runAsNonRoot"),
        ({}, {"securityContext": None}, "base: allowPrivilegeEscalation"),
        ({}, {"ports": [{"hostPort": 80}]}, "base: hostPort"),
        ({}, {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}}, "base: capabilities"),
    ],
)
def test_the_profile_refuses_what_kubernetes_refuses(pod: Object, container: Object, said: str) -> None:
    good = pod_of(Job(id=1, token="t", urls=()), PodOptions(instance="a", namespace="n", image="i"), salt="s")["spec"]

    bad = {**good, **pod, "containers": [{**good["containers"][0], **container}]}

    assert said in unrestricted(bad)


def test_kubernetes_enforces_that_profile_in_both_namespaces() -> None:
    namespaces = [one for folder in (BASE, TASKS) for one in resources(folder) if one["kind"] == "Namespace"]

    assert [one["metadata"]["name"] for one in namespaces] == ["aiosched", "aiosched-tasks"]
    assert {one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] for one in namespaces} == {"restricted"}


def test_a_scheduler_may_make_pods_of_tasks_in_their_namespace_and_read_no_secret() -> None:
    [role] = [one for one in resources(TASKS) if one["kind"] == "Role"]
    [binding] = [one for one in resources(TASKS) if one["kind"] == "RoleBinding"]
    everywhere = [one for folder in KUSTOMIZATIONS if folder != TASKS for one in resources(folder)]

    assert [one["verbs"] for one in role["rules"] if "secrets" in one["resources"]] == [["create"]]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "scheduler", "namespace": "aiosched"}]
    assert [
        one for one in everywhere if one["kind"] in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ] == []


def test_no_image_of_others_is_named_without_its_digest() -> None:
    images = {one["image"] for _, spec in all_pods() for one in containers(spec)}

    assert [image for image in images if image != "aiosched" and "@sha256:" not in image] == []


def test_a_scheduler_is_restarted_if_that_may_help_and_not_soon() -> None:
    spec = next(spec for owner, spec in pods(list(resources(BASE))) if owner["metadata"]["name"] == "scheduler")
    probe = spec["containers"][0]["livenessProbe"]

    assert probe["exec"]["command"] == ["aiosched", "schedulers", "check", "--local", "--restart"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 300


def test_the_web_server_is_probed_at_addresses_that_it_has() -> None:
    spec = next(spec for owner, spec in pods(list(resources(BASE))) if owner["metadata"]["name"] == "web")
    web = spec["containers"][0]
    probes = {web[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert probes == {"/livez", "/readyz?scheduler=false"}
    assert {web[kind]["httpGet"]["port"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")} == {"http"}
    assert {"name": "http", "containerPort": 8484} in web["ports"]


@rendered
def test_who_may_talk_to_whom(tmp_path: Path) -> None:
    """All pairs; a cluster without other policies, whose database is in it."""
    found = render(with_executor(tmp_path)) + render(TASKS)
    policies = [one for one in found if one["kind"] == "NetworkPolicy"]
    named = {one["metadata"]["name"]: one["metadata"]["labels"] for one in found if one["kind"] == "Namespace"}
    of_namespace = {name: {**labels, "kubernetes.io/metadata.name": name} for name, labels in named.items()}
    ours = [
        End(
            owner["metadata"]["name"],
            "aiosched",
            owner["spec"]["template"]["metadata"]["labels"],
            of_namespace["aiosched"],
        )
        for owner, _ in pods(found)
    ]
    task = End("task", "aiosched-tasks", {"aiosched.io/job": "1"}, of_namespace["aiosched-tasks"])
    others = [
        task,
        End("ingress", "ingress", {}, {"aiosched.io/reaches-web": "true"}),
        End("stranger", "default", {"app.kubernetes.io/component": "scheduler"}, {}),
        End("database", "data", {"app": "postgres"}, {}),
        End("internet", address="93.184.216.34"),
        End("metadata", address="169.254.169.254"),
    ]
    ports = {"database": 5432, "internet": 443, "metadata": 80}

    talk = {
        f"{source.name} -> {target.name}"
        for source in (*ours, *others)
        for target in (*ours, *others)
        if source.address is None and source is not target and source not in others[3:]
        if allows(policies, source, target, ports.get(target.name, 8484))
    }

    beyond = {"ingress", "stranger", "database", "internet", "metadata"}
    assert talk - {f"{one} -> {other}" for one in ("ingress", "stranger") for other in beyond} == {
        *(f"scheduler -> {other}" for other in beyond),
        *("web -> database", "web -> internet", "worker-api -> database", "worker-api -> internet"),
        *("migrate -> database", "ingress -> web", "task -> worker-api", "task -> internet"),
    }


def with_executor(folder: Path) -> Path:
    """An overlay as the page says, with pods for tasks and logins at an identity provider."""

    def relative(name: str) -> str:
        return os.path.relpath(KUBERNETES / name, folder)

    overlay = {
        "namespace": "aiosched",
        "resources": [relative("overlays/small")],
        "components": [relative("components/kubernetes-executor"), relative("components/oidc")],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return folder


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
    found = render(with_executor(tmp_path))

    scheduler, web = (
        next(spec for owner, spec in pods(found) if owner["metadata"]["name"] == name) for name in ("scheduler", "web")
    )
    assert [problem for one in found for problem in problems(one)] == []
    assert scheduler["automountServiceAccountToken"] is True
    assert web["automountServiceAccountToken"] is False
    assert {one["metadata"].get("namespace", "aiosched") for one in found} == {"aiosched"}
    settings = next(one["data"] for one in found if one["kind"] == "ConfigMap")
    assert settings["AIOSCHED__KUBERNETES__NAMESPACE"] == kustomization(TASKS)["namespace"]
    assert settings["AIOSCHED__EXECUTOR__KIND"] == "kubernetes"
