"""Secrets as files: as Docker and Kubernetes mount them, and what leads out of the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiosched.backends.files import FilesBackend
from aiosched.errors import ConfigError, SecretBackendError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "variables"
    made.mkdir()
    return made


@pytest.fixture
def backend(folder: Path) -> FilesBackend:
    return FilesBackend(variables=str(folder), connections=str(folder.parent / "connections"))


def test_a_file_is_a_secret_without_its_last_line_feed(folder: Path, backend: FilesBackend) -> None:
    (folder / "region").write_text("eu-west-1\n")
    (folder / "key").write_text("line 1\nline 2\n\n")

    assert backend.get("variable", "region") == "eu-west-1"
    assert backend.get("variable", "key") == "line 1\nline 2\n"
    assert backend.get("variable", "other") is None


def test_a_folder_that_is_not_mounted_has_no_secrets(backend: FilesBackend) -> None:
    assert backend.get("connection", "shop") is None
    assert list(backend.names("connection")) == []


def test_a_changed_file_counts_at_once(folder: Path, backend: FilesBackend) -> None:
    (folder / "region").write_text("old")
    before = backend.get("variable", "region")

    (folder / "region").write_text("new")

    assert (before, backend.get("variable", "region")) == ("old", "new")


def test_kubernetes_replaces_all_files_of_a_volume_by_its_links(folder: Path, backend: FilesBackend) -> None:
    for version in ("..2026_01", "..2026_02"):
        (folder / version).mkdir()
        (folder / version / "password").write_text(version)
    (folder / "..data").symlink_to("..2026_01")
    (folder / "password").symlink_to("..data/password")
    before = backend.get("variable", "password")

    (folder / "..data_tmp").symlink_to("..2026_02")
    (folder / "..data_tmp").rename(folder / "..data")

    assert (before, backend.get("variable", "password")) == ("..2026_01", "..2026_02")
    assert list(backend.names("variable")) == ["password"]


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "..data/../../outside"])
def test_a_link_that_leads_out_is_an_error(folder: Path, backend: FilesBackend, target: str) -> None:
    (folder.parent / "outside").write_text("not for you")
    (folder / "..data").mkdir()
    (folder / "link").symlink_to(target)

    with pytest.raises(SecretBackendError, match="leads out of its folder"):
        backend.get("variable", "link")


def test_a_folder_that_is_a_link_leads_out_too(folder: Path, backend: FilesBackend) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "x").write_text("not for you")
    (folder / "sub").symlink_to("../elsewhere")

    with pytest.raises(SecretBackendError, match="leads out of its folder"):
        backend.get("variable", "sub/x")


@pytest.mark.parametrize("name", ["..data", ".hidden", "a/.b"])
def test_names_with_a_dot_in_front_are_not_secrets(folder: Path, backend: FilesBackend, name: str) -> None:
    (folder / "a").mkdir()
    (folder / name).write_text("x")

    assert backend.get("variable", name) is None


def test_a_pipe_is_refused_and_not_waited_for(folder: Path, backend: FilesBackend) -> None:
    os.mkfifo(folder / "pipe")

    with pytest.raises(SecretBackendError, match="not a regular file"):
        backend.get("variable", "pipe")


def test_a_folder_is_no_secret(folder: Path, backend: FilesBackend) -> None:
    (folder / "team").mkdir()
    (folder / "team" / "shop").write_text("x")

    assert backend.get("variable", "team") is None
    assert backend.get("variable", "team/shop") == "x"
    assert list(backend.names("variable")) == ["team/shop"]


def test_a_file_that_is_no_secret_by_its_size_or_content_is_an_error(folder: Path, backend: FilesBackend) -> None:
    (folder / "large").write_bytes(b"x" * (2**20 + 1))
    (folder / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(SecretBackendError, match="1,048,576 bytes"):
        backend.get("variable", "large")
    with pytest.raises(SecretBackendError, match="not text"):
        backend.get("variable", "binary")


def test_a_folder_is_needed() -> None:
    with pytest.raises(ConfigError, match="needs a folder"):
        FilesBackend()
