"""`python -m tests.faults.campaign NAME …`: play campaigns, print figures and verdict; exit code 1 for a failure."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.campaign.campaigns import CAMPAIGNS, Size
from tests.faults.campaign.measures import takeover_seconds
from tests.faults.campaign.poison_round import POISON, POISONED, POISONED_LONG, play_poison
from tests.faults.campaign.results import Result, kept, table
from tests.faults.campaign.stage import perform
from tests.faults.campaign.versions_round import BOTH, BOTH_LONG, VERSIONS, play_versions
from tests.faults.checker import check, peak_use, without_frozen


class Apart(NamedTuple):
    """A campaign with a fleet and rules of its own."""

    what: str
    size: Size  # of the short form
    long: Size
    play: Callable[..., Awaitable[Result]]


ENGINES: Final = "engines"
APART: Final = {
    POISON: Apart("wrong and odd content", POISONED, POISONED_LONG, play_poison),
    VERSIONS: Apart("SIGKILL for processes of two versions", BOTH, BOTH_LONG, play_versions),
}


async def play(name: str, size: Size, *, deadline: float | None = None, folder: Path | None = None) -> Result:
    """One round of a campaign, judged."""
    if name in APART:
        return await APART[name].play(size, _command(name, size), deadline=deadline, keep=folder)
    campaign = CAMPAIGNS[name]
    setting, workload, inject = campaign.prepare(size)
    patience = deadline or 120 + 4 * size.faults * (size.gap + size.lease / 2) + size.tasks / 20
    stage, read, seconds = await perform(setting, workload, inject, deadline=patience, keep=folder)
    result = Result(name, _command(name, size), size.seed, workload.tasks, seconds, minima=campaign.minima(size))
    if read is not None:
        result.violations = check(read.history)
        for pool in workload.pools:
            stage.seen[f"most slots of {pool} in use"] = peak_use(without_frozen(read.history), pool)
        if campaign.takeover_limit is not None:
            result.takeovers = takeover_seconds(read, stage.blows)
            result.takeover_limit = campaign.takeover_limit(size)
    result.counts, result.troubles = dict(stage.seen), stage.troubles
    return result


def _command(name: str, size: Size) -> str:
    words = " ".join(
        f"--{word} {getattr(size, word):g}" for word in ("faults", "tasks", "gap", "seed", "schedulers", "lease")
    )
    return f"python -m tests.faults.campaign {name} {words}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    names = [*CAMPAIGNS, *APART, ENGINES, "all", "table"]
    what = {name: campaign.what for name, campaign in (*CAMPAIGNS.items(), *APART.items())}
    parser.add_argument("name", choices=names, help="; ".join(f"{n}: {w}" for n, w in what.items()))
    parser.add_argument("--long", action="store_true", help="the size that the acceptance asks for")
    for word, kind in (("faults", int), ("tasks", int), ("gap", float), ("seed", int), ("schedulers", int)):
        parser.add_argument(f"--{word}", type=kind)
    parser.add_argument("--lease", type=float)
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each, with seeds one apart")
    parser.add_argument("--deadline", type=float, help="seconds that a round may take")
    parser.add_argument("--keep", type=Path, help="folder that is to hold database, logs and records of the round")
    parser.add_argument("--out", type=Path, help="file that keeps rounds; those that passed are not played again")
    arguments = parser.parse_args()
    if arguments.name == "table":
        print(table(kept(arguments.out)))
        return 0
    failed = 0
    for name in _chosen(arguments.name):
        for number in range(arguments.rounds):
            size = _size(name, arguments)
            size = replace(size, seed=size.seed + number)
            if arguments.out and any(r["passed"] and r["command"] == _command(name, size) for r in kept(arguments.out)):
                continue
            result = asyncio.run(play(name, size, deadline=arguments.deadline, folder=arguments.keep))
            print(result.text(), flush=True)
            if arguments.out:
                result.keep(arguments.out)
            failed += not result.passed
    return 1 if failed else 0


def _chosen(name: str) -> list[str]:
    """The campaigns of a name; `engines` are those on all engines."""
    if name == "all":
        return [*CAMPAIGNS, *APART]
    return [each for each in CAMPAIGNS if each.startswith(ENGINES)] if name == ENGINES else [name]


def _size(name: str, arguments: argparse.Namespace) -> Size:
    given = {word: getattr(arguments, word) for word in ("faults", "tasks", "gap", "seed", "schedulers", "lease")}
    campaign = APART[name] if name in APART else CAMPAIGNS[name]
    base = campaign.long if arguments.long else campaign.size
    return replace(base, **{word: value for word, value in given.items() if value is not None})


if __name__ == "__main__":
    sys.exit(main())
