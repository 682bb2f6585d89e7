"""What is counted is the same whatever the machine and the version of Python."""

from __future__ import annotations

import asyncio
import gc
from textwrap import dedent
from typing import Any

from benchmarks import counting
from benchmarks.counting import Counts


def of_ours(source: str) -> dict[str, Any]:
    """What a module of our package with this source defines."""
    names: dict[str, Any] = {}
    exec(compile(dedent(source), f"{counting._OURS}/made_up.py", "exec"), names)
    return names


def test_a_function_counts_each_time_it_is_called_and_those_of_others_do_not() -> None:
    names = of_ours("def inner(): pass\ndef outer():\n    inner(); inner()")

    with Counts() as counts:
        names["outer"]()
        dedent("")

    assert counts.calls == 3
    assert counts.by_function() == {"made_up.py:inner": 2, "made_up.py:outer": 1}


async def test_a_coroutine_counts_once_however_often_it_rests() -> None:
    names = of_ours(
        """
        import asyncio
        async def rest():
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        def three():
            yield 1
            yield 2
        """
    )

    with Counts() as counts:
        await asyncio.create_task(names["rest"]())
        list(names["three"]())

    assert counts.by_function() == {"made_up.py:rest": 1, "made_up.py:three": 1}


def test_comprehensions_do_not_count_because_later_versions_have_no_functions_for_them() -> None:
    names = of_ours("def squares(): return [x * x for x in range(3)], {x for x in range(3)}, {x: x for x in range(3)}")

    with Counts() as counts:
        names["squares"]()

    assert counts.calls == 1


def test_blocks_that_are_kept_or_in_cycles_are_left_and_others_are_not() -> None:
    kept: list[object] = []

    with Counts() as counts:
        for _ in range(1000):
            dict.fromkeys("ab")
        nothing = counts.blocks
    assert nothing < 0  # while it counts, this is where it began
    few = counts.blocks

    with Counts() as counts:
        kept.extend(object() for _ in range(1000))
        for _ in range(1000):
            (cycle := [object()]).append(cycle)

    assert few < 100
    assert 3000 <= counts.blocks < 4300
    assert gc.isenabled()
