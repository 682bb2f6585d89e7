"""Doctor names what every user of the machine can read of the secrets that the settings name: tasks are one of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.cli.operation.doctor import _is_open_to_all, _secret_places
from aiosched.config import Settings
from aiosched.config.secret_backends import BackendSettings


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="open-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        (Path(made) / "deep").mkdir(mode=0o755)
        yield Path(made)


@pytest.mark.parametrize(
    ("outer", "inner", "file", "is_open"),
    [
        (0o755, 0o755, 0o644, True), (0o711, 0o711, 0o604, True), (0o755, 0o755, 0o640, False),
        (0o700, 0o755, 0o644, False), (0o755, 0o700, 0o644, False), (0o755, 0o755, 0o600, False),
    ],
)  # fmt: skip
def test_a_file_is_open_if_it_and_all_folders_above_it_are(
    folder: Path, outer: int, inner: int, file: int, is_open: bool
) -> None:
    secret = folder / "deep" / "secret"
    secret.write_text("s")
    secret.chmod(file)
    (folder / "deep").chmod(inner)
    folder.chmod(outer)

    assert [_is_open_to_all(path) for path in (secret, folder / "deep", folder)] == [is_open] * 3
    assert not _is_open_to_all(folder / "gone")


def test_the_places_are_those_of_settings_files_and_backends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOSCHED__WEB__OIDC_CLIENT_SECRET__FILE", "/run/client")
    monkeypatch.setenv("AIOSCHED_DSN__FILE", "/run/dsn")
    monkeypatch.delenv("AIOSCHED__SECRETS__FERNET_KEYS__FILE", raising=False)
    settings = Settings()
    settings.core.home = tmp_path
    backends = [{"kind": "files", "connections": "/c"}, {"kind": "files", "variables": "/v"}, {"kind": "vault"}]
    settings.secrets.backends = [BackendSettings.model_validate(each) for each in backends]

    assert set(map(str, _secret_places(settings))) == {
        "aiosched.toml", f"{tmp_path}/fernet.key", "/run/client", "/run/dsn", "/c", "/v",
    }  # fmt: skip
