"""The Dockerfile and its lock file, as far as text can tell; test_containers.py builds and runs it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.compose import ROOT, read_dockerfile
from tests.deploy.known_names import check_command, known_variables

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS_OF_THE_IMAGE = (
    "aws", "celery", "dask", "gcp", "http", "kubernetes", "object-storage", "oidc", "otel", "remote", "vault", "worker",
)  # fmt: skip


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def locked() -> dict[str, tuple[str, int]]:
    """The version and the number of hashes of each package of the lock."""
    entries = re.split(
        r"\n(?=[a-z0-9])", "\n".join(line for line in read("requirements.lock").splitlines() if line[:1] != "#")
    )
    found = {}
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==([\w.]+)", entry.strip()).groups()  # type: ignore[union-attr]
        found[canonicalize_name(name)] = (version, entry.count("--hash=sha256:"))
    return found


def wanted() -> Iterator[Requirement]:
    project = PYPROJECT["project"]
    for text in (*PYPROJECT["build-system"]["requires"], *project["dependencies"]):
        yield Requirement(text)
    for extra in EXTRAS_OF_THE_IMAGE:
        yield from map(Requirement, project["optional-dependencies"][extra])


def test_the_lock_satisfies_the_ranges_of_pyproject() -> None:
    lock = locked()

    wrong = [
        f"{one} is locked at {lock.get(canonicalize_name(one.name))}: run `make lock`"
        for one in wanted()
        if canonicalize_name(one.name) not in lock or lock[canonicalize_name(one.name)][0] not in one.specifier
    ]

    assert wrong == []


def test_every_locked_package_has_hashes() -> None:
    lock = locked()

    assert len(lock) > 40
    assert [name for name, (_, hashes) in lock.items() if hashes == 0] == []


def test_every_extra_for_users_is_in_the_lock() -> None:
    project = PYPROJECT["project"]
    extras = {
        name: [Requirement(text).name for text in texts] for name, texts in project["optional-dependencies"].items()
    }
    always = {Requirement(text).name for text in project["dependencies"]}  # on Pythons for which they have wheels
    for_users = {name for name, packages in extras.items() if not always.issuperset(packages)}

    assert for_users - {"test", "test-all", "dev", "docs"} == set(EXTRAS_OF_THE_IMAGE)


def test_the_image_runs_aiosched_as_a_user_without_rights_and_knows_its_settings() -> None:
    image = read_dockerfile()
    settings = {name for name in image.environment if name.startswith("AIOSCHED")}

    assert image.user == (10001, 10001)
    assert image.entrypoint == ("aiosched",)
    assert image.health is not None
    assert image.health.test == ("aiosched", "schedulers", "check", "--local")
    assert image.stop_signal == "SIGTERM"
    assert settings
    assert settings <= known_variables()
    check_command(image.command)


def test_what_the_image_writes_is_on_its_volumes_and_its_bytecode_is_there_already() -> None:
    image, text = read_dockerfile(), read("Dockerfile")
    folders = {image.environment["AIOSCHED_HOME"], image.environment["AIOSCHED__LOGS__FOLDER"]}

    assert folders == set(image.volumes)
    assert image.environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "--compile" in text
    assert "--require-hashes" in text


@pytest.mark.parametrize("argument", ["BASE", "EXTRAS"])
def test_an_argument_of_the_build_exists(argument: str) -> None:
    assert re.search(rf"^ARG {argument}=", read("Dockerfile"), re.M)


def test_the_build_gets_what_the_wheel_is_made_of() -> None:
    allowed = {line.removeprefix("!") for line in read(".dockerignore").splitlines() if line.startswith("!")}

    copied = {
        source
        for line in read("Dockerfile").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }

    assert copied - {"buil[d]"} == allowed - {"build/docs"}  # which is there after `make docs` only
    assert all((ROOT / name).exists() for name in copied - {"buil[d]"})
    assert not {"tests", "docs", "examples"} & copied
