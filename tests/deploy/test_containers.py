"""The image and the compose file with a real Docker daemon: daemon.py starts it, and says what stands for other images.

The lines that are typed are those of README.md and of the pages. All tests share one project, which each of them finds
and leaves running; it is in a copy of what the build gets, so that neither tests nor documentation can get into it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from aiosched.core.values.ids import PARTITIONS
from tests.conftest import short_folder
from tests.deploy.compose import ROOT, SECRETS, read_dockerfile
from tests.deploy.daemon import Daemon, NoDaemon, daemon, why_not
from tests.patience import PATIENCE

T = TypeVar("T")
Container = dict[str, Any]  # as `docker inspect` tells it

WHY_NOT: Final = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")]

WEB: Final = "http://127.0.0.1:8484"
SIGKILLED: Final = 137
DAG: Final = '''
"""A DAG whose task tells where it ran."""
import os
import socket

from aiosched import dag, task


@dag(schedule=None)
def where():
    @task
    def tell() -> list[str]:
        with open("/tmp/mine", "w") as file:
            file.write("temporary files are allowed")
        print("said in", socket.gethostname(), "by", os.getuid())
        return [socket.gethostname(), str(os.getuid())]

    tell()


where()
'''


class Project:
    """The compose file's project: commands are typed in its folder."""

    def __init__(self, docker: Daemon, folder: Path) -> None:
        self.docker, self.folder = docker, folder
        network = folder / "network.yml"  # the daemon has no route to the package index, this machine has
        network.write_text("services: {migrate: {build: {network: host}}}\n")
        self.environment = {**docker.environment, "COMPOSE_FILE": f"docker-compose.yml:{network}"}

    def start(self, line: str, **environment: str) -> subprocess.Popen[str]:
        """Type a line, whose output goes to a file, and do not wait for its end."""
        with (self.folder / "typed.log").open("a") as log:
            return subprocess.Popen(
                ["sh", "-c", f"exec {line}"],
                cwd=self.folder,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def type(self, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Type a line and wait for its end; the output has both streams."""
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )

    def do(self, line: str, **environment: str) -> str:
        """What a line prints, once it has succeeded."""
        done = self.type(line, **environment)
        assert done.returncode == 0, f"{line}: {done.stdout[-6000:]}{self.state()}"
        return done.stdout

    def aiosched(self, line: str, service: str = "aiosched") -> str:
        return self.do(f"docker compose exec -T {service} aiosched {line}")

    def containers(self, service: str = "") -> list[Container]:
        """Those of a service, or all, the stopped ones too, by name; those of `compose run` are left out."""
        found = self.do("docker ps --all --quiet --filter label=com.docker.compose.oneoff=False").split()
        listed: list[Container] = json.loads(self.do(f"docker inspect {shlex.join(found)}")) if found else []
        mine = [one for one in listed if service in ("", one["Config"]["Labels"]["com.docker.compose.service"])]
        return sorted(mine, key=lambda one: str(one["Name"]))

    def state(self) -> str:
        """What is there and what it said last, for a message."""
        done = self.type("docker compose ps --all; docker compose logs --no-color --tail 15")
        return f"\n{done.stdout[-8000:]}"

    def wait(self, services: Mapping[str, int]) -> None:
        """Return when so many containers of each service are healthy, or run if they have no check."""
        until(
            lambda: {name: sum(map(well, self.containers(name))) for name in services},
            lambda seen: seen == services,
            self.state,
        )

    def default(self, schedulers: int = 1) -> None:
        """The default profile runs, whatever was there before."""
        self.do(f"docker compose up --detach --remove-orphans --scale aiosched={schedulers}")
        self.wait({"postgres": 1, "aiosched": schedulers, "web": 1})

    def run_dag(self, dag: str = "where", service: str = "aiosched") -> None:
        """A run of a DAG, once its file has been read, succeeds."""
        shown = f"docker compose exec -T {service} aiosched dags show {dag}"
        until(lambda: self.type(shown).returncode, lambda code: code == 0, self.state)
        self.aiosched(f"dags trigger {dag} --wait", service)

    def runs(self, dag: str = "where") -> list[str]:
        """The ids of its runs that succeeded."""
        listed = json.loads(self.aiosched(f"runs list --dag {dag} -o json"))
        return sorted(one["run_id"] for one in listed if one["state"] == "success")

    def partitions(self) -> dict[str, int]:
        """How many partitions each scheduler that is alive owns."""
        listed = json.loads(self.aiosched("schedulers list -o json"))
        return {one["name"]: one["partitions"] for one in listed if one["partitions"]}


def well(container: Container) -> bool:
    state = container["State"]
    return bool(state["Running"] and state.get("Health", {"Status": "healthy"})["Status"] == "healthy")


def until(look: Callable[[], T], enough: Callable[[T], bool], say: Callable[[], str] = str) -> T:
    ends = time.monotonic() + PATIENCE
    while not enough(seen := look()):
        assert time.monotonic() < ends, f"{seen}{say()}"
        time.sleep(0.3)
    return seen


def get(address: str, token: str = "") -> tuple[int, str]:
    """The status and the text of an answer; 0 without one."""
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def readme_lines() -> list[str]:
    """What README.md tells to type in "In containers", without its comments."""
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## In containers\n")[2]
    block = section.partition("```console\n")[2].partition("```")[0]
    return [shlex.join(shlex.split(line[2:], comments=True)) for line in block.splitlines()]


@pytest.fixture(scope="module")
def docker() -> Iterator[Daemon]:
    with (Path(tempfile.gettempdir()) / "aiosched-test-docker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one project at a time: its ports are those of the compose file
        try:
            with daemon() as started:
                yield started
        except NoDaemon as error:
            pytest.skip(str(error))


@pytest.fixture(scope="module")
def bare(docker: Daemon) -> Iterator[Project]:
    """The project as it is cloned, but without documentation and tests, and with a DAG more; nothing has been run."""
    folder = short_folder() / "aiosched"
    folder.mkdir(mode=0o755)
    for name in ("aiosched", "deploy", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Dockerfile", ".dockerignore", "docker-compose.yml", "pyproject.toml", "requirements.lock",
                 "README.md", "LICENSE", "tools/wheel_with_docs.py"):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "examples" / "dags" / "where.py").write_text(DAG)
    project = Project(docker, folder)
    yield project
    project.type("docker compose --profile '*' down --volumes --timeout 1")
    shutil.rmtree(folder.parent)


@pytest.fixture(scope="module")
def without_passwords(bare: Project) -> subprocess.CompletedProcess[str]:
    return bare.type("docker compose up --build")


@pytest.fixture(scope="module")
def project(bare: Project, without_passwords: object) -> Iterator[Project]:
    """The default profile, after the first two lines of README.md."""
    passwords, build, _ = readme_lines()
    bare.do(passwords)
    started = bare.start(build)
    try:
        until(
            lambda: (started.poll(), [one["Name"] for one in bare.containers("web") if well(one)]),
            lambda seen: seen[0] is not None or bool(seen[1]),
            bare.state,
        )
        assert started.poll() is None, (bare.folder / "typed.log").read_text()[-6000:]
        bare.first = started  # type: ignore[attr-defined]
        yield bare
    finally:  # the test that ends it may run in another process
        started.send_signal(signal.SIGINT)
        started.wait(PATIENCE)


def secrets(project: Project) -> dict[str, str]:
    return {path.name: path.read_text("ascii").strip() for path in (project.folder / SECRETS).iterdir()}


def test_without_secrets_compose_says_what_to_run(
    bare: Project, without_passwords: subprocess.CompletedProcess[str]
) -> None:
    assert without_passwords.returncode != 0
    assert "run deploy/compose/passwords" in without_passwords.stdout
    assert "Step 1" not in without_passwords.stdout


def test_the_lines_of_the_readme_bring_a_fleet_that_stops_cleanly(project: Project) -> None:
    """Each line in a terminal of its own; Ctrl-C in the first one ends them."""
    *_, scale = readme_lines()
    assert get(f"{WEB}/readyz")[0] == 200
    assert get(f"{WEB}/api/v1/dags")[0] == 401
    project.run_dag()

    second = project.start(scale)
    project.wait({"aiosched": 3})

    until(project.partitions, lambda owned: len(owned) == 3 and sum(owned.values()) == PARTITIONS, project.state)
    project.run_dag()
    first: subprocess.Popen[str] = project.first  # type: ignore[attr-defined]
    first.send_signal(signal.SIGINT)
    first.wait(PATIENCE)
    second.wait(PATIENCE)

    ended = {one["Name"]: one["State"]["ExitCode"] for one in project.containers()}
    assert len(ended) == 6
    assert set(ended.values()) == {0}, (ended, project.state())


def test_the_image_alone_runs_on_a_read_only_root_with_its_own_database(project: Project) -> None:
    folder = project.folder / "alone"
    folder.mkdir()
    (folder / "where.py").write_text(DAG)
    project.do(
        "docker run --detach --name alone --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges"
        f" --volume {folder}:/dags:ro aiosched"
    )
    try:
        until(lambda: json.loads(project.do("docker inspect alone"))[0], well, lambda: project.do("docker logs alone"))
        until(lambda: project.type("docker exec alone aiosched dags show where").returncode, lambda code: code == 0)
        project.do("docker exec alone aiosched dags trigger where --wait")
        project.do("docker stop --time 100 alone")
        assert json.loads(project.do("docker inspect alone"))[0]["State"]["ExitCode"] == 0
    finally:
        project.do("docker rm --force --volumes alone")


def test_the_image_has_bytecode_no_tests_and_no_generator_of_documentation(project: Project) -> None:
    said = json.loads(project.do("docker inspect aiosched"))[0]
    image = read_dockerfile()
    assert said["Config"]["User"] == "{}:{}".format(*image.user)
    assert tuple(said["Config"]["Entrypoint"]) == image.entrypoint
    assert said["Size"] < 700 * 10**6

    def found(*condition: str) -> list[str]:
        """Files of the image for which `find`, as its user, says so."""
        looked = "find / -xdev ( -path /proc -o -path /tmp -o -path /var/tmp -o -path /dev ) -prune -o"
        command = f"{shlex.join([*looked.split(), *condition, '-print'])} 2>/dev/null; true"
        said = project.do(f"docker run --rm --entrypoint sh aiosched -c {shlex.quote(command)}")
        return [line for line in said.splitlines() if line[:1] == "/"]  # and not the client's warnings

    files = found()
    [package] = [name for name in files if name.endswith("/site-packages/aiosched")]
    inside = {name.removeprefix(f"{package}/") for name in files if name.startswith(f"{package}/")}
    sources = [Path(name) for name in inside if name.endswith(".py") and "ui" not in Path(name).parts]
    compiled = {str(Path(name).parent.parent / Path(name).name.partition(".")[0]) for name in inside if ".pyc" in name}
    assert [str(path) for path in sources if str(path.with_suffix("")) not in compiled] == []
    assert [name for name in files if re.search(r"site-packages/(sphinx|furo|pytest|tests)(/|$)", name)] == []

    assert set(found("-writable", "!", "-type", "l")) - {*image.volumes, "/dags"} <= {"/run/lock"}


def test_no_container_of_ours_can_write_but_to_its_volumes_and_tmp(project: Project) -> None:
    project.default()
    for service in ("aiosched", "web"):
        said = project.do(f"docker compose exec -T {service} cat /proc/self/status /proc/mounts")
        assert re.search(r"^Uid:\s+10001\s+10001\s+10001\s+10001$", said, re.M)
        assert re.search(r"^CapBnd:\s+0+$", said, re.M)
        assert re.search(r"^NoNewPrivs:\s+1$", said, re.M)
        assert re.search(r"^overlay / overlay ro,", said, re.M)
        for folder, code in {"/tmp": 0, "/var/log/aiosched": 0, "/dags": 1, "/opt/aiosched": 1, "/etc": 1}.items():
            tried = project.type(f"docker compose exec -T {service} touch {folder}/tried")
            assert bool(tried.returncode) is bool(code), (service, folder, tried.stdout)


def test_a_killed_container_comes_back_and_its_work_is_taken_over(project: Project) -> None:
    project.default(schedulers=2)
    project.run_dag()
    before = project.runs()

    for service in ("aiosched", "web", "postgres"):
        victim = project.containers(service)[0]
        os.kill(victim["State"]["Pid"], signal.SIGKILL)
        until(
            lambda name=victim["Id"]: json.loads(project.do(f"docker inspect {name}"))[0],  # type: ignore[misc]
            lambda seen, count=victim["RestartCount"]: seen["RestartCount"] > count and well(seen),  # type: ignore[misc]
            project.state,
        )
    project.wait({"postgres": 1, "aiosched": 2, "web": 1})

    assert set(before) <= set(project.runs())
    project.run_dag()
    until(lambda: get(f"{WEB}/readyz")[0], lambda status: status == 200, project.state)


def test_a_database_that_is_away_makes_the_check_fail_until_it_is_back(project: Project) -> None:
    project.default()
    check = "docker compose exec -T aiosched aiosched schedulers check --local"
    project.do("docker compose stop postgres")
    assert project.type(check).returncode != 0
    until(lambda: get(f"{WEB}/readyz")[0], lambda status: status == 503, project.state)

    project.do("docker compose start postgres")
    until(lambda: project.type(check).returncode, lambda code: code == 0, project.state)
    project.wait({"postgres": 1, "aiosched": 1, "web": 1})
    project.run_dag()


def test_volumes_are_kept_when_everything_is_made_anew(project: Project) -> None:
    project.default()
    project.run_dag()
    before, log = project.runs(), project.aiosched("tasks logs where latest tell")
    assert "said in" in log
    assert "by 10001" in log

    project.do("docker compose down")
    assert project.containers() == []
    project.default()

    assert project.runs() == before
    assert project.aiosched("tasks logs where latest tell", "web") == log


def test_a_build_of_changed_code_replaces_what_runs(project: Project) -> None:
    project.default(schedulers=2)
    project.run_dag()
    before, old = project.runs(), {one["Id"] for one in project.containers("aiosched")}
    source = project.folder / "aiosched" / "__init__.py"
    source.write_text(source.read_text() + "\nNEXT = 1\n")

    said = project.do("docker compose up --build --detach --scale aiosched=2")
    project.wait({"postgres": 1, "aiosched": 2, "web": 1})

    assert "CACHED" in said or "Using cache" in said  # the packages are not fetched again
    assert not old & {one["Id"] for one in project.containers("aiosched")}
    assert project.do("docker compose exec -T web python -c 'import aiosched; print(aiosched.NEXT)'").split() == ["1"]
    assert project.runs() == before
    project.run_dag()


@pytest.mark.parametrize(("name", "service"), [("scheduler", "aiosched"), ("web", "web")])
def test_a_wrong_password_is_named_and_the_right_one_is_enough(project: Project, name: str, service: str) -> None:
    project.default()
    file = project.folder / SECRETS / f"dsn_{name}"
    file.write_text(file.read_text("ascii").replace(secrets(project)[f"{name}_password"], "wrong"))

    project.do(f"docker compose restart --no-deps {service}")
    until(
        lambda: project.do(f"docker compose logs --no-color {service}"),
        lambda log: "password authentication failed" in log,
        project.state,
    )
    assert "Traceback" not in project.do(f"docker compose logs --no-color {service}")
    assert not any(map(well, project.containers(service)))

    project.do("deploy/compose/passwords")
    project.do(f"docker compose restart --no-deps {service}")
    project.default()
    project.run_dag()


def test_new_passwords_are_set_as_the_page_says(project: Project) -> None:
    """docs/deploy.md: empty the files, write new ones, run the script of the roles, and start the rest again."""
    project.default()
    old = secrets(project)
    roles = ("owner", "scheduler", "web")
    for role in roles:
        project.do(f": > {SECRETS}/{role}_password")

    project.do("deploy/compose/passwords")
    project.do("docker compose exec -T postgres sh /docker-entrypoint-initdb.d/roles.sh")
    project.do("docker compose restart --no-deps aiosched web")
    project.default()

    assert {name for name, value in secrets(project).items() if value != old[name]} == {
        f"{role}_password" for role in roles
    } | {f"dsn_{role}" for role in roles}
    project.run_dag()


def test_no_process_of_a_container_has_a_secret_in_its_environment(project: Project) -> None:
    project.default()
    values = {value for value in secrets(project).values() if "\n" not in value}
    for service in ("postgres", "aiosched", "web"):
        [one] = project.containers(service)
        pids = [line.split()[1] for line in project.do(f"docker top {one['Id']}").splitlines()[1:]]
        assert pids
        seen = str(one["Config"]["Env"]) + "".join(
            environ.read_bytes().decode(errors="replace")
            for pid in pids
            if (environ := Path("/proc", pid, "environ")).exists()
        )
        assert "__FILE" in seen or service == "postgres", service
        assert not [value for value in values if value in seen], service


def test_a_backup_of_the_fleet_is_restored_as_the_page_says(project: Project) -> None:
    project.default()
    project.run_dag()
    again = f"postgresql://aiosched_owner:{secrets(project)['owner_password']}@postgres:5432/again"
    migrate = 'docker compose run --rm --volume "$PWD/backups:/backups" migrate'

    project.do("install --directory --owner 10001 backups")
    project.do(f"{migrate} db backup /backups/flows.dump")
    project.do("docker compose exec -T postgres createdb --username postgres --owner aiosched_owner again")
    project.do(f"{migrate} db restore /backups/flows.dump --dsn {again}")

    there = json.loads(project.aiosched(f"runs list --dag where -o json --dsn {again}"))
    assert sorted(one["run_id"] for one in there) == project.runs()


def test_prometheus_reads_the_metrics_and_grafana_gets_its_dashboard(project: Project) -> None:
    project.do("docker compose --profile observability up --detach")
    project.wait({"web": 1, "prometheus": 1, "grafana": 1})

    def is_up() -> list[str]:
        status, text = get("http://127.0.0.1:9090/api/v1/query?query=aiosched_scheduler_alive")
        return [one["value"][1] for one in json.loads(text)["data"]["result"]] if status == 200 else []

    until(is_up, lambda values: "1" in values, project.state)
    shown = get("http://127.0.0.1:3000/var/lib/grafana/dashboards/aiosched.json")[1]
    assert json.loads(shown) == json.loads((ROOT / "deploy/grafana/dashboards/aiosched.json").read_text("utf-8"))
    assert get("http://127.0.0.1:3000/etc/grafana/provisioning/datasources/prometheus.yml")[0] == 200
    project.do("docker compose exec -T grafana touch /var/lib/grafana/grafana.db")
    fetch = 'import urllib.request as r; r.urlopen("http://prometheus:9090/-/ready")'
    project.do(f"docker compose exec -T grafana python3 -c '{fetch}'")
    assert get(f"{WEB}/metrics")[0] == 401
    assert get(f"{WEB}/metrics", secrets(project)["metrics_token"])[0] == 200


@pytest.mark.parametrize(
    ("engine", "workers", "others"), [("celery", "worker", "redis"), ("dask", "dask-worker", "dask-scheduler")]
)
def test_tasks_run_in_the_workers_of_a_profile(project: Project, engine: str, workers: str, others: str) -> None:
    """As the head of the compose file says: EXTRAS=… EXECUTOR=… docker compose --profile … up --build."""
    [line] = re.findall(rf"(EXTRAS={engine} .*)", (ROOT / "docker-compose.yml").read_text("utf-8"))
    project.do(f"{line} --detach --remove-orphans")
    all_of_it = {"postgres": 1, "aiosched": 1, "web": 1, workers: 1, others: 1}
    project.wait(all_of_it)

    project.run_dag()
    [worker] = project.containers(workers)
    assert f"said in {worker['Config']['Hostname']} by 10001" in project.aiosched("tasks logs where latest tell")
    who = "import socket; socket.create_connection(('postgres', 5432), 3)"
    assert project.type(f'docker compose exec -T {workers} python -c "{who}"').returncode != 0  # no network of it
    if engine == "celery":
        for line, answer in {"ping": "PONG", "llen default": "NOPERM", "acl whoami": "NOPERM"}.items():
            assert answer in project.type(f"docker compose exec -T redis redis-cli {line}").stdout, line

    for service in (workers, others):
        [victim] = project.containers(service)
        os.kill(victim["State"]["Pid"], signal.SIGKILL)
        until(
            lambda name=victim["Id"]: json.loads(project.do(f"docker inspect {name}"))[0],  # type: ignore[misc]
            lambda seen: seen["RestartCount"] > 0 and well(seen),
            project.state,
        )
    project.run_dag()

    project.do(f"docker compose --profile {engine} stop")
    ended = {one["Name"]: one["State"]["ExitCode"] for one in project.containers()}
    assert SIGKILLED not in ended.values(), (ended, project.state())
    project.do(f"docker compose --profile {engine} down")
