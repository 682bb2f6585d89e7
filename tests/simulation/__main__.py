"""`python -m tests.simulation --seeds 20000`: play many seeds; a seed that fails is printed with how to replay it.

Seeds in which too little has happened (minimums.py) fail together.

`--seed 17 --trace` plays one and prints every event of it.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from aiosched.scheduler.gc_tuning import rare_collections
from tests.simulation.checker import violations
from tests.simulation.minimums import too_little
from tests.simulation.simulate import simulate
from tests.simulation.workload import make_plan


def judge(seed: int) -> tuple[int, list[str], Counter[str]]:
    """Play a seed; what is wrong, and what was seen. An error is a seed that failed: the others are played, too."""
    try:
        with rare_collections():
            plan = make_plan(seed)
            history = simulate(seed, plan)
            return seed, violations(plan, history), history.seen
    except Exception:
        return seed, [traceback.format_exc()], Counter()


def _show(seed: int) -> int:
    plan = make_plan(seed)
    history = simulate(seed, plan)
    print(*history.trace(), sep="\n")
    found = violations(plan, history)
    print(f"seed {seed}:", *(found or ["no violation"]), sep="\n  ")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print its events")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        if arguments.trace:
            return _show(arguments.seed)
        arguments.first, arguments.seeds = arguments.seed, 1
    seen: Counter[str] = Counter()
    failed: list[int] = []
    began = time.monotonic()
    seeds = iter(range(arguments.first, arguments.first + arguments.seeds))
    with ProcessPoolExecutor(arguments.processes, max_tasks_per_child=None) as pool:
        while chunk := list(islice(seeds, 500)):
            for seed, found, what in pool.map(judge, chunk, chunksize=10):
                seen += what
                if found:
                    failed.append(seed)
                    print(f"seed {seed}:", *found[:5], sep="\n  ")
                    print(f"  replay: python -m tests.simulation --seed {seed} --trace", flush=True)
            print(
                f"{chunk[-1] + 1 - arguments.first} seeds, {len(failed)} failed, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    print("seen: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    print("failed seeds:", failed or "none")
    vacuous = too_little(seen, arguments.seeds)
    print(*vacuous, sep="\n", end="\n" if vacuous else "")
    return 1 if failed or vacuous else 0


if __name__ == "__main__":
    sys.exit(main())
