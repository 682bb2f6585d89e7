"""The faults of the campaign `chaos`: each is one thing that goes wrong, and is over when its function returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping

import asyncpg

from tests.faults.campaign.fleet import Service
from tests.faults.campaign.stage import Stage

JUMPY = "tests.faults.campaign.jumpy"  # `aiosched` with a clock that jumps as a file says

Trouble = Callable[[Stage], Awaitable[None]]


async def kill_worker(stage: Stage) -> None:
    """SIGKILL for a process that runs tasks or parses files."""
    workers = [pid for service in await stage.members() for pid in service.workers()]
    if workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stage.dice.choice(workers), signal.SIGKILL)


async def kill_forkserver(stage: Stage) -> None:
    """SIGKILL for the process that workers are forked from."""
    found = [pid for service in await stage.members() for pid in service.forkservers()]
    if found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stage.dice.choice(found), signal.SIGKILL)


async def stop_worker(stage: Stage) -> None:
    """SIGSTOP and SIGCONT for a worker."""
    workers = [pid for service in await stage.members() for pid in service.workers()]
    if workers:
        victim = stage.dice.choice(workers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGSTOP)
            await stage.rest(0.5)
            os.kill(victim, signal.SIGCONT)


async def change_file(stage: Stage) -> None:
    """A DAG file is written anew while it may be parsed, and a broken one appears and goes."""
    folder = stage.folder / "dags"
    file = stage.dice.choice(sorted(folder.glob("d*.py")))
    file.write_text(file.read_text() + "\n# changed\n")
    broken = folder / "broken.py"
    if broken.exists():
        broken.unlink()
    else:
        broken.write_text("from aiosched import dag\nimport os\nos._exit(3)\n")


async def same_name(stage: Stage) -> None:
    """A second process starts with the name of one that runs, and is killed."""
    twin = stage.dice.choice(stage.services)
    service = Service(twin.name, twin.executor, twin.dsn, stage.folder, twin.settings, module=twin.module)
    service.starts = 1000 + stage.seen["same_name"]
    await service.start()
    if await stage.joined(service):
        await stage.rest(1.0)
    await stage.kill(service)
    stage.extras.append(service)


async def no_connections(stage: Stage) -> None:
    """All connections are taken for a while, and those of one scheduler are ended."""
    async with stage.postgres.crowd() as taken:
        stage.seen["taken connections"] += taken
        victim = stage.dice.choice(await stage.postgres.backends() or [0])
        await stage.postgres.ask("SELECT pg_terminate_backend($1)", victim)
        await stage.rest(1.0)


async def locked_rows(stage: Stage) -> None:
    """Somebody holds locks on pools, runs or partitions for longer than statements wait for them."""
    table = stage.dice.choice(["pool", "dag_run", "task_instance", "partition_lease", "request"])
    await stage.postgres.ask("ALTER DATABASE aiosched SET lock_timeout = '300ms'")
    victim = stage.dice.choice(await stage.postgres.backends() or [0])
    await stage.postgres.ask("SELECT pg_terminate_backend($1)", victim)  # so that somebody has the setting
    try:
        conn = await asyncpg.connect(stage.postgres.dsn, server_settings={"lock_timeout": "5s"})
        try:
            async with conn.transaction():
                await conn.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
                await conn.execute(f"SELECT 1 FROM {table} FOR UPDATE")
                await stage.rest(1.0)
        finally:
            await conn.close()
    except (asyncpg.PostgresError, OSError):
        stage.seen["locks not got"] += 1
    finally:
        await stage.postgres.ask("ALTER DATABASE aiosched RESET lock_timeout")


async def jump_clock(stage: Stage) -> None:
    """The wall clock that schedulers read jumps, some seconds forth or back."""
    (stage.folder / "clock").write_text(str(stage.dice.uniform(-5.0, 5.0)))
    await asyncio.sleep(0)


async def kill_scheduler(stage: Stage) -> None:
    """SIGKILL for a scheduler, which is started again."""
    if (victim := await stage.victim()) is not None:
        await stage.kill(victim)
        await victim.start()
        await stage.joined(victim)


TROUBLES: Mapping[str, Trouble] = {
    trouble.__name__: trouble
    for trouble in (
        kill_worker, kill_forkserver, stop_worker, change_file, same_name, no_connections, locked_rows, jump_clock,
        kill_scheduler,
    )
}  # fmt: skip
