"""Code of DAG authors finds no secret setting: not in its environment, nor in that of any process above it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.config.secret_environment import secret_variables, without_secrets
from aiosched.db.crypto.keyring import new_key
from tests.cli.serving import serve
from tests.patience import PATIENCE

DAGS = '''
"""Everywhere where code of authors runs, it writes down all environments that it can read."""

import asyncio
import json
import os
from pathlib import Path

from aiosched import DAG, BashOperator, task


def look(where):
    found, pid = [json.dumps(dict(os.environ))], os.getpid()
    while pid > 1:
        try:
            found.append(Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace"))
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError as error:
            found.append(repr(error))
            break
    Path(FOLDER, f"{where}-{os.getpid()}.txt").write_text("\\n".join(found))


FOLDER = __FOLDER__
look("import")
with DAG("looks", schedule="@once", start_date="2026-01-01", catchup=True):

    @task
    def plain():
        look("plain")

    @task
    async def later():
        look("later")

    BashOperator(task_id="bash", bash_command=f"cat /proc/self/environ /proc/$PPID/environ > {FOLDER}/bash-1.txt")
    plain()
    later()
'''


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("executor", ["local", pytest.param("inline", marks=pytest.mark.slow)])
def test_no_environment_that_author_code_can_read_has_a_secret_setting(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    found = tmp_path / "found"
    found.mkdir()
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "looks.py").write_text(DAGS.replace("__FOLDER__", repr(str(found))))
    key = new_key()
    (tmp_path / "keys").write_text(key)
    password = "the password of the first administrator"
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS__FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AIOSCHED__WEB__ADMIN_PASSWORD", password)
    monkeypatch.setenv("AIOSCHED__WEB__OIDC_CLIENT_SECRET", "the client secret")
    monkeypatch.setenv("AIOSCHED_VAR_REGION", "eu-west-1")
    monkeypatch.setenv("OF_THE_USER", "stays")

    words = ("--executor", executor, "--until-idle")
    with serve(tmp_path, f"{dsn}&application_name=secret_dsn", *words) as process:
        said = process.communicate(timeout=100)[1]
        assert process.returncode == 0, said

    texts = {file.name.partition("-")[0]: file.read_text(errors="replace") for file in found.iterdir()}
    assert texts.keys() == {"import", "plain", "later", "bash"}
    for where, text in texts.items():
        for secret in (key, str(tmp_path / "keys"), password, "the client secret", "secret_dsn"):
            assert secret not in text, f"{secret} was found by {where}"
        assert "OF_THE_USER" in text
        assert "AIOSCHED_VAR_REGION" in text


FORGETS = """
import os
from aiosched.config.secret_environment import forget_secrets
forget_secrets()
block = open("/proc/self/environ").read().split("\\0")
print([line for line in block if "SECRET" in line or "DSN" in line or "SHOWN" in line], "AIOSCHED_DSN" in os.environ)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_overwrites_what_the_kernel_shows_of_its_secrets() -> None:
    env = {"SHOWN": "yes", "AIOSCHED_DSN": "postgresql://me:pw@db", "AIOSCHED__WEB__OIDC_CLIENT_SECRET": "\u00e9="}

    said = subprocess.run([sys.executable, "-c", FORGETS], env=env, capture_output=True, text=True, check=True).stdout

    hidden = ["SHOWN=yes", f"AIOSCHED_DSN={'*' * 21}", "AIOSCHED__WEB__OIDC_CLIENT_SECRET=***"]
    assert said.strip() == f"{hidden} False"


def test_only_variables_of_secret_settings_are_withheld() -> None:
    kept = {"AIOSCHED_HOME": "a", "AIOSCHED__CORE__PARALLELISM": "3", "AIOSCHED_CONN_SALES": "b", "PATH": "c"}

    assert without_secrets(kept | dict.fromkeys(secret_variables(), "secret")) == kept
    assert {"AIOSCHED_DSN", "AIOSCHED__DATABASE__DSN__FILE", "AIOSCHED__WEB__ADMIN_PASSWORD"} <= secret_variables()


ABOVE = """
import os, subprocess, sys
from aiosched.config.secret_environment import exposed_to, processes_above
for uid in (os.geteuid(), 0, 65534):
    print([(each.program, each.variables) for each in exposed_to(uid, processes_above())])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_started_the_service_and_still_shows_its_secrets_is_found() -> None:
    env = {"PATH": os.environ["PATH"], "AIOSCHED_DSN": "postgresql://me:pw@db", "AIOSCHED_HOME": "/srv"}
    env |= {"AIOSCHED__SECRETS__FERNET_KEYS__FILE": "/run/keys", "AIOSCHED__WEB__ADMIN_PASSWORD": "***"}
    env["AIOSCHED__CELERY__KEYS__FILE"] = "/run/secrets/celery_keys"
    command = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, ABOVE]  # a shell that stays

    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()

    shown = str([("sh", ("AIOSCHED_DSN",))])
    assert said == [shown, shown, shown if os.geteuid() == 65534 else "[]"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_start_says_that_a_shell_above_shows_a_secret(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    env = {**os.environ, "AIOSCHED_DSN": dsn, "AIOSCHED_HOME": str(tmp_path / "home")}
    serve = f"{shlex.quote(sys.executable)} -m aiosched serve --no-web --until-idle"

    for command, warns in ((f"{serve}; true", True), (f"exec {serve}", False)):
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        said = "tasks can read secret settings: process" in done.stderr
        assert said is warns, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("in_file", [False, True])
def test_a_celery_worker_says_the_same_unless_its_secrets_are_in_files(tmp_path: Path, *, in_file: bool) -> None:
    pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")
    (tmp_path / "dags").mkdir()
    secrets = {"AIOSCHED__CELERY__KEYS": new_key(), "AIOSCHED__CELERY__BROKER": "redis://:sesame@127.0.0.1:1/0"}
    if in_file:
        for name in list(secrets):
            (tmp_path / name).write_text(secrets.pop(name))
            secrets[f"{name}__FILE"] = str(tmp_path / name)
    env = {**os.environ, **secrets, "AIOSCHED_HOME": str(tmp_path), "AIOSCHED_DAGS": str(tmp_path / "dags")}

    command = f"{shlex.quote(sys.executable)} -P -m celery -A aiosched.executors.celery report; true"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE
    )

    assert ("tasks can read secret settings: process" in done.stderr) is not in_file, done.stderr
    assert "sesame" not in done.stdout + done.stderr
