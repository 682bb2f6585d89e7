"""Counts that say how much work a task is, whatever the machine: calls of our functions, and blocks of memory left.

A call is the first entry into a function of the package `aiosched` by the thread that counts; that a coroutine goes on
after an `await` is none, because how often it rests depends on the machine. Comprehensions are left out: Python 3.12
and later have no functions for them. Why calls and not bytecodes: docs/decisions/0058-work-is-counted-in-calls.md.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self

import aiosched

_OURS: Final = str(Path(aiosched.__file__).parent)
_INLINED: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


@dataclass
class Counts:
    """What happens in this thread while the block runs. No garbage is collected meanwhile. Not reentrant."""

    by_code: Counter[CodeType] = field(default_factory=Counter)
    blocks: int = 0  # of memory that were not given back, garbage in cycles among them
    _collects: bool = True

    def __enter__(self) -> Self:
        gc.collect()
        self._collects = gc.isenabled()
        gc.disable()
        self.blocks = -sys.getallocatedblocks()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self.blocks += sys.getallocatedblocks()
        if self._collects:
            gc.enable()

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_lasti <= _start(frame.f_code):
            self.by_code[frame.f_code] += 1

    @property
    def calls(self) -> int:
        return sum(count for code, count in self.by_code.items() if ours(code))

    def by_function(self) -> Counter[str]:
        """The calls of each of our functions, by file and name: what to compare when a count has changed."""
        found: Counter[str] = Counter()
        for code, count in self.by_code.items():
            if ours(code):
                found[f"{code.co_filename.removeprefix(_OURS).lstrip('/')}:{code.co_qualname}"] += count
        return found


def ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_OURS) and code.co_name not in _INLINED


@cache
def _start(code: CodeType) -> int:
    """Where a call begins; a coroutine or generator that goes on has passed it."""
    return next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME" and one.arg == 0)
