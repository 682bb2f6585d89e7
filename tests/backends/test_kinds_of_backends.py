"""Backends of the settings: their kinds, their options, plugins, and classes that were written for Airflow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from aiosched.airflow.finder import install
from aiosched.backends import kinds
from aiosched.backends.kinds import backends_of
from aiosched.config import ConfigError, Settings, load_settings
from aiosched.config.secret_environment import secret_variables, without_secrets
from aiosched.core.values.masking import secrets
from aiosched.errors import SecretBackendError


def settings(folder: Path, *backends: Any, **more: str) -> Settings:
    return load_settings({"secrets.backends": json.dumps(backends), **more}, environ={}, folder=folder).settings


async def test_a_table_in_the_settings_file_is_a_backend(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "region").write_text("eu")
    (tmp_path / "aiosched.toml").write_text(
        f"[secrets]\ncache_seconds = 5\n[[secrets.backends]]\nkind = 'files'\nvariables = '{tmp_path}/v'\n"
    )

    loaded = load_settings(environ={}, folder=tmp_path)

    assert [one.name for one in backends_of(loaded.settings).all] == ["files"]
    assert (await backends_of(loaded.settings).find("variable", "region")) == ("eu", "files")


def test_options_are_not_shown_and_their_variable_is_withheld_from_dags(tmp_path: Path) -> None:
    table = {"kind": "vault", "url": "http://h", "token": "the-secret"}

    loaded = load_settings({"secrets.backends": json.dumps([table])}, environ={}, folder=tmp_path)

    assert loaded.values()["secrets.backends"] == ["vault"]
    assert "the-secret" not in str(loaded.values())
    assert "AIOSCHED__SECRETS__BACKENDS" in secret_variables()
    assert without_secrets({"AIOSCHED__SECRETS__BACKENDS": "x"}) == {}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ('[{"kind": "valt", "token": "the-secret"}]', "'valt' is not a backend that is installed here"),
        ('{"kind": "files"}', "must be a JSON list"),
        ("files", "must be a JSON list"),
        ('[{"kind": "files", "team_names": "{team}"}]', r"must contain \{team\} and \{name\}"),
        ('[{"kind": "files", "team_names": "{team}{name}"}]', "something between"),
        ('[{"token": "the-secret"}]', "required"),
    ],
)
def test_wrong_settings_are_refused_without_showing_options(tmp_path: Path, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_settings({"secrets.backends": value}, environ={}, folder=tmp_path)

    assert "the-secret" not in str(caught.value)


async def test_an_option_that_a_backend_does_not_have_is_named_with_those_that_it_has(tmp_path: Path) -> None:
    backends = backends_of(settings(tmp_path, {"kind": "files", "folder": "/x"}))

    with pytest.raises(SecretBackendError, match=r"unexpected keyword argument 'folder'.*connections, variables"):
        await backends.find("variable", "region")


def test_two_backends_of_a_kind_have_different_names(tmp_path: Path) -> None:
    found = backends_of(settings(tmp_path, "aws-parameters", {"kind": "files", "variables": "a"}, "aws-parameters"))

    assert [one.name for one in found.all] == ["aws-parameters", "files", "aws-parameters 2"]


@pytest.mark.parametrize(
    ("table", "package"),
    [
        ({"kind": "vault", "url": "http://h", "token": "t"}, "aiosched[vault]"),
        ({"kind": "aws-secrets"}, "aiosched[aws]"),
        ({"kind": "aws-parameters"}, "aiosched[aws]"),
        ({"kind": "gcp", "project": "p"}, "aiosched[gcp]"),
    ],
)
async def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, str], package: str
) -> None:
    for name in ("hvac", "boto3", "google.cloud"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(SecretBackendError) as caught:
        await backends_of(settings(tmp_path, table)).find("variable", "region")

    assert f"pip install '{package}'" in str(caught.value)


async def test_the_login_of_a_backend_is_not_in_its_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "talkative.py").write_text(
        "class Talkative:\n"
        "    def __init__(self, *, token): self.token = token\n"
        "    def get_variable(self, name): raise ConnectionError(f'{self.token} was refused')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    backends = backends_of(settings(tmp_path, {"kind": "talkative.Talkative", "token": "sesame-1"}))

    with pytest.raises(SecretBackendError, match=r"ConnectionError: \*\*\* was refused"):
        await backends.find("variable", "x")
    secrets.clear()


async def test_a_package_can_add_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_place.py").write_text(
        "class Own:\n"
        "    def __init__(self, *, prefix): self.prefix = prefix\n"
        "    def get(self, kind, name): return f'{self.prefix} {kind} {name}'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugin = EntryPoint("own", "own_place:Own", "aiosched.secrets")

    def found(**wanted: str) -> EntryPoints:
        return EntryPoints([plugin]).select(**wanted)

    monkeypatch.setattr(kinds, "entry_points", found)
    monkeypatch.setattr("importlib.metadata.entry_points", found)

    backends = backends_of(settings(tmp_path, {"kind": "own", "prefix": "it is"}))

    assert await backends.find("variable", "x") == ("it is variable x", "own")


# ---- backends that were written for Airflow ----

AIRFLOWS = """
from airflow.secrets import BaseSecretsBackend
from airflow.utils.log.logging_mixin import LoggingMixin

class Shelf(BaseSecretsBackend, LoggingMixin):
    def __init__(self, connections_path="connections", **kwargs):
        super().__init__()
        self.path = connections_path

    def get_conn_value(self, conn_id):
        self.log.info("asked for %s", conn_id)
        return f"http://{self.path}/{conn_id}" if conn_id == "shop" else None

    def get_variable(self, key):
        return {"region": "eu"}.get(key)

class Old(BaseSecretsBackend):
    def get_conn_uri(self, conn_id):
        return f"http://old/{conn_id}"

class Strict(BaseSecretsBackend):
    def __init__(self, *, needed):
        self.needed = needed
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shelf_backend.py").write_text(AIRFLOWS)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name == "shelf_backend" or name.split(".")[0] == "airflow"]:
        del sys.modules[name]
    install("off")


async def test_a_class_of_airflow_is_asked(shelf: Path) -> None:
    backends = backends_of(settings(shelf, {"kind": "shelf_backend.Shelf", "connections_path": "place"}))

    assert await backends.find("connection", "shop") == ("http://place/shop", "Shelf")
    assert await backends.find("connection", "other") is None
    assert await backends.find("variable", "region") == ("eu", "Shelf")
    assert await backends.find("variable", "other") is None


async def test_a_class_of_an_older_airflow_is_asked(shelf: Path) -> None:
    backends = backends_of(settings(shelf, "shelf_backend.Old"))

    assert await backends.find("connection", "shop") == ("http://old/shop", "Old")


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("shelf_backend.Nothing", "cannot be imported"),
        ("no_such_package.Backend", "cannot be imported"),
        ("shelf_backend.Strict", "missing a required argument: 'needed'"),
    ],
)
async def test_a_class_that_cannot_be_used_says_why(shelf: Path, path: str, complaint: str) -> None:
    with pytest.raises(SecretBackendError, match=complaint):
        await backends_of(settings(shelf, path)).find("variable", "region")
