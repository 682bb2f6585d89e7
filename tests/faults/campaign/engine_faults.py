"""What the campaign `engines` does to schedulers, to the processes of their engine, and to servers with the worker API.

Whoever operates them starts again what has ended (stage.py). Attempts go on when a scheduler is killed; those of a
worker that is killed, or that stands still for longer than its lease, are lost and run again.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from tests.faults.campaign.engine_parts import WORKER_LEASE, Engine
from tests.faults.campaign.stage import Stage


async def kill_scheduler(stage: Stage) -> None:
    """SIGKILL for a scheduler while its attempts run: the next one adopts them."""
    if (victim := await stage.victim()) is not None:
        await stage.kill(victim)
        await victim.start()


async def kill_worker(stage: Stage) -> None:
    """SIGKILL for a worker: its processes end with it, and its attempts run again."""
    await _engine(stage).kill("worker", stage.dice)


async def kill_worker_api(stage: Stage) -> None:
    """SIGKILL for a server with the worker API: workers ask the other one, or ask again."""
    await _engine(stage).kill("worker API", stage.dice)


async def restart_engine(stage: Stage) -> None:
    """The engine itself ends and forgets everything, as far as it can."""
    await _engine(stage).forget(stage.dice)


async def pause_worker(stage: Stage) -> None:
    """SIGSTOP and SIGCONT for a worker with all its processes, half of the time for longer than its lease."""
    if (paused := _engine(stage).pause_worker(stage.dice)) is None:
        return
    is_long = stage.dice.random() < 0.5
    await stage.rest(WORKER_LEASE * (stage.dice.uniform(1.3, 1.8) if is_long else stage.dice.uniform(0.1, 0.5)))
    stage.freezes += paused.resume()


async def kill_everything(stage: Stage) -> None:
    """SIGKILL for a scheduler and a worker at once."""
    await kill_worker(stage)
    await kill_scheduler(stage)


FAULTS: Final[dict[str, Callable[[Stage], Awaitable[None]]]] = {
    "killed schedulers": kill_scheduler,
    "killed workers": kill_worker,
    "engine restarts": restart_engine,
    "killed worker APIs": kill_worker_api,
    "paused workers": pause_worker,
    "killed at once": kill_everything,
}


async def one_after_the_other(stage: Stage, faults: int, gap: float) -> None:
    """So many faults, of each kind in turn."""
    for name, fault in itertools.islice(itertools.cycle(FAULTS.items()), faults):
        if stage.over.is_set():
            return
        await fault(stage)
        stage.seen["faults"] += 1
        stage.seen[name] += 1
        await stage.rest(stage.dice.uniform(0.5, 1.5) * gap)


def _engine(stage: Stage) -> Engine:
    assert stage.engine is not None, "the campaign has an engine"
    return stage.engine
