"""What came of a campaign: figures, verdict, and the command that repeats it; kept as one JSON line for each round."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.campaign.measures import percentile
from tests.faults.checker import Violation


@dataclass
class Result:
    """One round of one campaign."""

    campaign: str
    command: str
    seed: int
    tasks: int
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)  # what happened, how often
    minima: dict[str, int] = field(default_factory=dict)  # what must have happened, or the round says nothing
    takeovers: list[float] = field(default_factory=list)  # seconds until DAGs moved again
    takeover_limit: float | None = None  # seconds, for the 99th percentile
    violations: list[Violation] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # it did not end, or not in order

    @property
    def missing(self) -> list[str]:
        """What was too rare for the round to be worth something."""
        counts = Counter(self.counts)
        return [f"{counts[name]} {name}, at least {least} are needed" for name, least in self.minima.items()
                if counts[name] < least]  # fmt: skip

    @property
    def slow(self) -> list[str]:
        if self.takeover_limit is None or percentile(self.takeovers, 0.99) < self.takeover_limit:
            return []
        return [f"take-over p99 {percentile(self.takeovers, 0.99):.2f} s, the limit is {self.takeover_limit:g} s"]

    @property
    def passed(self) -> bool:
        return not (self.violations or self.troubles or self.missing or self.slow)

    def text(self) -> str:
        """For people."""
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        lines = [f"{self.campaign}: {self.tasks:,} tasks in {self.seconds:.0f} s, seed {self.seed}"]
        lines += [f"  seen: {counts}"]
        if self.takeovers:
            p50, p99 = percentile(self.takeovers, 0.5), percentile(self.takeovers, 0.99)
            limit = "" if self.takeover_limit is None else f" (limit {self.takeover_limit:g} s)"
            lines += [f"  take-overs: {len(self.takeovers)} measured, p50 {p50:.2f} s, p99 {p99:.2f} s{limit}"]
        lines += [f"  TROUBLE: {what}" for what in self.troubles]
        lines += [f"  VACUOUS: {what}" for what in self.missing]
        lines += [f"  SLOW: {what}" for what in self.slow]
        shown = Counter[str]()
        for violation in self.violations:
            shown[violation.rule] += 1
            if shown[violation.rule] <= 5:
                lines += [f"  VIOLATION of {violation.rule}: {violation.what}"]
        lines += [f"  … {n - 5} more of {rule}" for rule, n in shown.items() if n > 5]
        lines += [f"  {'passed' if self.passed else 'FAILED'}: {len(self.violations)} violations", f"  {self.command}"]
        return "\n".join(lines)

    def keep(self, file: Path) -> None:
        """Append it to `file`."""
        document = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "passed": self.passed, **asdict(self)}
        document["takeovers"] = [round(seconds, 3) for seconds in self.takeovers]
        with file.open("a") as out:
            out.write(json.dumps(document) + "\n")


def kept(file: Path) -> list[dict[str, Any]]:
    """The rounds that were kept in `file`."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(rounds: Sequence[dict[str, Any]]) -> str:
    """The sums of all kept rounds as a Markdown table, for docs/reliability.md."""
    lines = ["| campaign | rounds | tasks | seen | violations | take-over p50 / p99 |", "|---|---|---|---|---|---|"]
    for campaign in dict.fromkeys(each["campaign"] for each in rounds):
        mine = [each for each in rounds if each["campaign"] == campaign]
        counts = Counter[str]()
        for each in mine:
            counts.update(each["counts"])
        seen = ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()) if n)
        times = [seconds for each in mine for seconds in each["takeovers"]]
        took = f"{percentile(times, 0.5):.2f} s / {percentile(times, 0.99):.2f} s of {len(times)}" if times else ""
        wrong = sum(len(each["violations"]) + len(each["troubles"]) for each in mine)
        tasks = sum(each["tasks"] for each in mine)
        lines.append(f"| {campaign} | {len(mine)} | {tasks:,} | {seen} | {wrong} | {took} |")
    return "\n".join(lines)
