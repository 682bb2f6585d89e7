"""The manifests of deploy/kubernetes as data: as they are written, and as kustomize renders them where it is there."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import yaml

from tests.deploy.compose import ROOT

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
KUSTOMIZATIONS: Final = sorted(path.parent for path in KUBERNETES.rglob("kustomization.yaml"))
OVERLAYS: Final = [folder for folder in KUSTOMIZATIONS if folder.parent.name == "overlays"]
_PUBLISHED: Final = json.loads(Path(__file__).with_name("kubernetes.json").read_text(encoding="utf-8"))

_RENDERERS: Final = (("kustomize", "build"), ("kubectl", "kustomize"))
RENDERER: Final = next((words for words in _RENDERERS if shutil.which(words[0])), None)
WHY_NOT: Final = "neither kustomize nor kubectl is installed: only what is written was checked, not what is rendered"

Object = dict[str, Any]


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder: Path) -> Object:
    found = documents(folder / "kustomization.yaml")
    assert len(found) == 1
    return dict(found[0])


def resources(folder: Path) -> Iterator[Object]:
    """The objects of a kustomization as they are written, with those that it builds on."""
    for name in (*kustomization(folder).get("resources", ()), *kustomization(folder).get("components", ())):
        path = (folder / name).resolve()
        yield from resources(path) if path.is_dir() else documents(path)


def render(folder: Path) -> list[Object]:
    """The objects as they would be applied."""
    assert RENDERER is not None, WHY_NOT
    done = subprocess.run([*RENDERER, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def kind_of(found: Object) -> str:
    return f"{found['apiVersion']} {found['kind']}"


@cache
def _validator(kind: str) -> Any:
    assert kind in _PUBLISHED["kinds"], f"{kind}: add it to .ci/kubernetes-schemas and run that"
    return jsonschema_rs.validator_for({"$ref": _PUBLISHED["kinds"][kind], "$defs": _PUBLISHED["$defs"]})


def problems(found: Object) -> list[str]:
    """What the published schema has against an object."""
    name = f"{found.get('kind')} {found.get('metadata', {}).get('name')}"
    return [
        f"{name}: {'.'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(kind_of(found)).iter_errors(found)
    ]


def pods(found: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Each object that makes pods, with the specification of these."""
    for one in found:
        if one["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield one, one["spec"]["template"]["spec"]


def containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", ()), *spec["containers"]]
