"""deploy/systemd: accepted by systemd, and each command line behaves as its unit expects: ready, alive, ended."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.config.secret_environment import secret_variables
from aiosched.config.sections import Settings
from aiosched.db.crypto.keyring import new_key
from tests.deploy.compose import ROOT, read_dockerfile, seconds
from tests.deploy.known_names import check_command, known_variables, seconds_to_stop

SYSTEMD = ROOT / "deploy" / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
SERVICES = [path for path in UNITS if "migrate" not in path.name]
PROGRAM = "/opt/aiosched/bin/aiosched"
KEY = new_key()
ANALYZE = shutil.which("systemd-analyze")

Unit = dict[str, list[str]]


def read(path: Path) -> Unit:
    """The lines of the section [Service]: each key with its values, in order."""
    found: Unit = {}
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line
        elif line and not line.startswith("#") and section == "[Service]":
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def environment_file() -> dict[str, str]:
    """What aiosched.env sets, and what it suggests in a comment."""
    lines = (SYSTEMD / "aiosched.env").read_text(encoding="utf-8").splitlines()
    return dict(line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#?AIOSCHED_\w+=", line))


def own_environment(unit: Unit) -> dict[str, str]:
    return dict(pair.split("=", 1) for line in unit["Environment"] for pair in shlex.split(line))


def span(text: str) -> float:
    return seconds(text.replace("min", "m") if text[-1].isalpha() else f"{text}s")


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed (apt-get install systemd)")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    assert ANALYZE is not None
    for path in UNITS:
        name = path.name.replace("@.", "@1.")
        (tmp_path / name).write_text(path.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true"))

    done = subprocess.run(
        [ANALYZE, "verify", *map(str, sorted(tmp_path.iterdir()))], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_exists_with_settings_that_exist(path: Path) -> None:
    unit = read(path)
    program, *words = shlex.split(unit["ExecStart"][0])

    assert program == PROGRAM
    check_command(words)
    assert set(own_environment(unit)) | set(environment_file()) <= known_variables()
    assert set(own_environment(unit)) & set(environment_file()) == set()  # the file would win


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_writes_only_to_folders_that_systemd_makes_for_it(path: Path) -> None:
    unit = read(path)
    made = [f"/var/lib/{name}" for name in unit["StateDirectory"]]

    assert unit["ProtectSystem"] == ["strict"]
    assert unit["User"] == ["aiosched"]
    assert unit["WorkingDirectory"] == made
    assert own_environment(unit)["AIOSCHED_HOME"] in made
    assert unit["CapabilityBoundingSet"] == [""]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_systemd_waits_longer_than_aiosched_itself_does(path: Path) -> None:
    unit = read(path)

    assert unit["Type"] == ["notify"]
    assert unit["Restart"] == ["always"]
    assert span(unit["WatchdogSec"][0]) > 2 * Settings().scheduler.lease
    if "web" not in path.name:
        grace = float(environment_file()["AIOSCHED__SCHEDULER__GRACE"])
        assert span(unit["TimeoutStopSec"][0]) > seconds_to_stop(grace)
        assert unit["KillMode"] == ["mixed"]


def test_its_user_is_that_of_the_image() -> None:
    lines = (SYSTEMD / "aiosched.sysusers").read_text(encoding="utf-8").splitlines()
    [user] = [line.split()[1:3] for line in lines if line.startswith("u ")]

    assert user == ["aiosched", str(read_dockerfile().user[0])]


def credentials(unit: Unit) -> dict[str, str]:
    """The file of root, by the name of the credential."""
    return dict(line.split(":", 1) for line in unit.get("LoadCredential", ()))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_what_is_secret_is_a_credential_and_in_no_environment(path: Path) -> None:
    unit = read(path)
    files = {name: value for name, value in own_environment(unit).items() if name.endswith("__FILE")}

    assert not (set(own_environment(unit)) | set(environment_file())) - set(files) & secret_variables()
    assert set(files.values()) == {f"%d/{name}" for name in credentials(unit)}
    assert all(Path(file).parent == Path("/etc/aiosched") for file in credentials(unit).values())


def test_each_kind_of_service_has_a_role_of_the_database_and_only_the_keys_that_it_needs() -> None:
    assert {path.name: credentials(read(path)) for path in UNITS if credentials(read(path))} == {
        "aiosched-migrate.service": {"dsn": "/etc/aiosched/dsn-owner"},
        "aiosched-scheduler@.service": {
            "dsn": "/etc/aiosched/dsn-scheduler", "fernet-keys": "/etc/aiosched/fernet-keys",
        },
        "aiosched-web.service": {"dsn": "/etc/aiosched/dsn-web", "fernet-keys": "/etc/aiosched/fernet-keys"},
    }  # fmt: skip


def with_credentials(unit: Unit, folder: Path, dsn: str) -> dict[str, str]:
    """What systemd makes of the unit's lines: a folder of files for the service's user only, and where it is."""
    given = {"dsn": dsn, "fernet-keys": KEY}
    folder.mkdir(mode=0o700)
    for name in credentials(unit):
        (folder / name).write_text(given[name] + "\n")
        (folder / name).chmod(0o400)
    files = {name: value for name, value in own_environment(unit).items() if name.endswith("__FILE")}
    return {name: value.replace("%d", str(folder)) for name, value in files.items()}


def test_migrating_needs_no_key(tmp_path: Path, empty_dsn: str) -> None:
    unit = read(SYSTEMD / "aiosched-migrate.service")
    given = with_credentials(unit, tmp_path / "credentials", empty_dsn) | {"AIOSCHED_HOME": str(tmp_path)}
    _, *words = shlex.split(unit["ExecStart"][0])

    subprocess.run([sys.executable, "-P", "-m", "aiosched", *words], env={**os.environ, **given}, check=True)


COMMANDS = [pytest.param(read(path)["ExecStart"][0], path.name, id=path.name) for path in SERVICES]
PARSER = pytest.param("aiosched serve --role parser", "aiosched-scheduler@.service", id="a parser alone")


@pytest.mark.parametrize(("command", "of"), [*COMMANDS, PARSER])
def test_a_service_says_that_it_is_ready_alive_and_stopping_without_a_secret_in_its_environment(
    command: str, of: str, dsn: str, tmp_path: Path
) -> None:
    _, *words = shlex.split(command.replace("%l", "host").replace("%i", "1"))
    unit = read(SYSTEMD / of)
    secrets = with_credentials(unit, tmp_path / "credentials", dsn) or {"AIOSCHED_DSN": dsn}
    (tmp_path / "dags").mkdir()
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(60)
        environment = {
            **os.environ,
            **secrets,
            "AIOSCHED_HOME": str(tmp_path / "home"),
            "AIOSCHED_DAGS": str(tmp_path / "dags"),
            "AIOSCHED__WEB__PORT": "0",
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "200000",
        }
        with subprocess.Popen(
            [sys.executable, "-m", "aiosched", *words], cwd=tmp_path, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                while heard.count(b"WATCHDOG=1") < 3:
                    heard.append(sock.recv(100))
                shown = Path(f"/proc/{process.pid}/environ").read_bytes().decode()
                process.send_signal(signal.SIGTERM)
                while heard[-1] != b"STOPPING=1":
                    heard.append(sock.recv(100))
                _, said = process.communicate(timeout=60)
            finally:
                process.kill()

    assert heard[0] == b"READY=1"
    assert dsn not in shown
    assert KEY not in shown
    assert process.returncode == 0, said
