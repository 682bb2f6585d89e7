"""Who reads how `clear` is applied goes through six files at most and comes back to none: docs/architecture.md.

The walk is what happens: the functions that are entered below the one that applies the request, each once, in order.
It ends at the board, whose own parts are another walk. Constructors and comprehensions belong to who writes them down.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest

import aiosched
from aiosched.clock import FakeClock
from aiosched.scheduler.requests import clearing
from tests.scheduler.harness import chain, running

ROOT = Path(aiosched.__file__).parent
PAGE = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("**`clear` becomes rows**")[2].partition("\n##")[0]
WALK = re.findall(r"- `(\S+\.py)`", SECTION.partition("apply_requests")[2])
# All else is the same for each request.
ABOUT = ("core/requests/", "core/run/board.py", "core/run/belonging.py", "scheduler/requests/", "scheduler/runs/")


@contextlib.contextmanager
def walk_of(first: CodeType) -> Iterator[list[str]]:
    """The files of the functions that are called by the function `first`, in the order of the calls."""
    files: list[str] = []
    seen: set[CodeType] = set()

    def is_below(frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code is not first:
            frame = frame.f_back
        return frame is not None

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in seen or code.co_name.startswith(("<", "__")) or not is_below(frame):
            return
        seen.add(code)
        file = code.co_filename.removeprefix(f"{ROOT}/")
        if file.startswith(ABOUT) and files[-1:] != [file]:
            files.append(file)

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("options", [{"downstream": True}, {"upstream": True, "prevent_running": True}], ids=str)
@pytest.mark.parametrize("held", [True, False], ids=["of a running run", "of a run that is over"])
async def test_the_walk_of_clear_comes_back_to_no_file(
    dsn: str, clock: FakeClock, held: bool, options: dict[str, bool]
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")
        if not held:
            await it.finish_all()
        with walk_of(clearing.clear.__code__) as files:
            await it.ask("clear", "d", run_ids=["r"], task_ids=["t0"], **options)

    assert files == WALK
    assert len(WALK) == len(set(WALK)) <= 6
