"""aiosched's own commands, run in this process."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """How a command ended, and what it wrote on the standard output if that was taken."""

    code: int
    written: str = ""

    @property
    def data(self) -> Any:
        """What it wrote as JSON; None if it wrote nothing."""
        return json.loads(self.written) if self.written.strip() else None


@dataclass(frozen=True, slots=True)
class Ours:
    """Runs commands of `root`, the command `aiosched`."""

    root: Any

    def run(self, words: Sequence[str]) -> int:
        """Run it with these words; signals and the terminal are the command's own. Returns its exit code."""
        try:
            self.root.main(args=list(words), prog_name="aiosched")
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return 0

    def taken(self, words: Sequence[str]) -> Ended:
        """As `run`, with its standard output as a text."""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = self.run(words)
        return Ended(code, output.getvalue())
