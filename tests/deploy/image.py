"""`make image`: build the Dockerfile without a registry, and run what comes out of it.

    python -m tests.deploy.image [--extras otel,oidc] [--suite trixie] [--mirror URL]

The base is a Debian that debootstrap makes (once, in build/image), in place of python:3.13-slim, which only a registry
has. Then buildah runs the steps of the Dockerfile, and the image's tree is run by containers.py: alone, with its
embedded PostgreSQL, and as three schedulers and a web server. Needs root, and Debian's buildah and debootstrap.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.conftest import short_folder
from tests.deploy.compose import ROOT, Compose, Image, Service, read_dockerfile
from tests.deploy.containers import why_not
from tests.deploy.scenario import DAG, run_dag, three_schedulers
from tests.deploy.side_by_side import HOST, OUR_IMAGE, postgres_image, project

PLACE: Final = ROOT / "build" / "image"
BASE: Final = PLACE / "base"
PACKAGES: Final = "python3,python3-venv,ca-certificates"
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


@contextmanager
def step(words: str) -> Iterator[None]:
    print(f"== {words}", flush=True)
    start = time.monotonic()
    yield
    print(f"   {time.monotonic() - start:.0f} s", flush=True)


def buildah(*words: str, quiet: bool = True) -> str:
    command = ["buildah", "--root", str(PLACE / "storage"), "--runroot", str(PLACE / "run"), *words]
    done = subprocess.run(command, capture_output=quiet, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"buildah {words[0]} failed with {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
    return (done.stdout or "").strip()


def make_base(suite: str, mirror: str) -> None:
    unfinished = BASE.with_name("base.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(unfinished), mirror]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"debootstrap failed:\n{done.stdout[-2000:]}{done.stderr}")
    if _CERTIFICATES.exists():  # this machine may reach its package index only through a proxy with its own certificate
        shutil.copy(_CERTIFICATES, unfinished / "etc/ssl/certs")
        (unfinished / "etc/pip.conf").write_text(f"[global]\ncert = {_CERTIFICATES}\n")
    unfinished.rename(BASE)


def build(extras: str) -> None:
    made = buildah("from", "scratch")
    buildah("add", "--quiet", made, str(BASE), "/")
    buildah("commit", "--quiet", "--rm", made, "localhost/base")
    options = ["--isolation", "chroot", "--network", "host", "--format", "docker", "--pull-never"]
    arguments = ["--build-arg", "BASE=localhost/base", "--build-arg", f"EXTRAS={extras}"]
    buildah("build", *options, *arguments, "--tag", f"localhost/{OUR_IMAGE}", str(ROOT))


def check_config() -> None:
    """The image says what the Dockerfile says, as far as the runner relies on it."""
    said: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", f"localhost/{OUR_IMAGE}"))
    config, image = said["Docker"]["config"], read_dockerfile()
    assert config["User"] == "{}:{}".format(*image.user), config["User"]
    assert tuple(config["Entrypoint"]) == image.entrypoint
    assert tuple(config["Cmd"]) == image.command
    assert tuple(config["Volumes"]) == image.volumes or set(config["Volumes"]) == set(image.volumes)
    assert config["WorkingDir"] == image.folder
    assert image.health is not None
    assert tuple(config["Healthcheck"]["Test"]) == ("CMD", *image.health.test)
    assert dict(pair.split("=", 1) for pair in config["Env"]).items() >= image.environment.items()


def check_tree(tree: Path) -> None:
    """Bytecode for every module of aiosched; nothing that its user may write, but its volumes and folders for all."""
    image = read_dockerfile()
    [package] = (tree / "opt/aiosched/lib").glob("python3.*/site-packages/aiosched")
    sources = [path for path in package.rglob("*.py") if "ui" not in path.parts]
    assert [p for p in sources if not list((p.parent / "__pycache__").glob(f"{p.stem}.*.pyc"))] == []
    own = {tree / name.lstrip("/") for name in image.volumes} | {tree / "dags"}
    found = []
    for folder, names, files in os.walk(tree):
        for path in (Path(folder, name) for name in (*names, *files)):
            mode = path.lstat()
            public = mode.st_mode & stat.S_IWOTH and not mode.st_mode & stat.S_ISVTX and not path.is_symlink()
            if (mode.st_uid == image.user[0] and path not in own) or (public and not stat.S_ISCHR(mode.st_mode)):
                found.append(str(path.relative_to(tree)))
    assert found == []
    print(f"   {sum(p.lstat().st_size for p in tree.rglob('*') if p.is_file()) / 2**20:.0f} MiB in all", end=", ")
    print(
        f"{sum(p.lstat().st_size for p in (tree / 'opt').rglob('*') if p.is_file()) / 2**20:.0f} MiB of them aiosched's"
    )


def alone(tree: Path, scratch: Path) -> None:
    """`docker run --read-only --tmpfs /tmp -v …:/dags:ro aiosched`: with the embedded PostgreSQL."""
    (scratch / "dags").mkdir(parents=True)
    (scratch / "dags" / "where.py").write_text(DAG)
    service = Service.plain(OUR_IMAGE, mounts={str(scratch / "dags"): "/dags"})
    with project(Compose("alone", {OUR_IMAGE: service}), scratch, {OUR_IMAGE: (read_dockerfile(), tree)}) as up:
        up.up()
        up.wait_until_healthy(OUR_IMAGE)
        run_dag(up.containers[OUR_IMAGE][0])
        codes = up.down()
        assert codes == {OUR_IMAGE: [0]}, (codes, up.containers[OUR_IMAGE][0].log)
        assert not up.containers[OUR_IMAGE][0].killed


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the Dockerfile without a registry, and run the image.")
    parser.add_argument("--extras", default="", help="extras to install, comma separated")
    parser.add_argument("--suite", default="trixie", help="Debian version of the base")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="where Debian's packages are")
    chosen = parser.parse_args()
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing or (reason := why_not()):
        sys.exit(f"not installed: {' '.join(missing)}. Run: apt-get install {' '.join(missing)}" if missing else reason)
    PLACE.mkdir(parents=True, exist_ok=True)
    if not BASE.exists():
        with step(f"a base of Debian {chosen.suite}, by debootstrap"):
            make_base(chosen.suite, chosen.mirror)
    with step(f"the steps of the Dockerfile, by buildah, with the extras {chosen.extras or '(none)'}"):
        build(chosen.extras)
        check_config()
    container = buildah("from", f"localhost/{OUR_IMAGE}")
    scratch = short_folder()
    try:
        tree = Path(buildah("mount", container))
        with step("what is in it"):
            check_tree(tree)
        with step("alone, with its own PostgreSQL, on a read-only root as a user without rights"):
            alone(tree, scratch / "alone")
        with step("the compose file with --scale aiosched=3: a run, a scheduler that is killed, a clean stop"):
            images: dict[str, tuple[Image, Path]] = {OUR_IMAGE: (read_dockerfile(), tree)}
            (scratch / "three").mkdir()
            three_schedulers(scratch / "three", images | {"postgres:18": (postgres_image(), HOST)})
    finally:
        buildah("umount", container)
        buildah("rm", container)
        shutil.rmtree(scratch)
    print("all passed")


if __name__ == "__main__":
    main()
