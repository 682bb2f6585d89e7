"""What a task may cost in calls and in memory. CI holds each row; `python -m benchmarks gates` measures all of them.

A bound of calls is the most that was seen of the version that set it, and about 5 % more (blocks: 15 to 20 %). Renew
the bounds with

    python -m benchmarks gates --size 10

which prints the most of so many runs beside the bound: raise one only with a reason, and lower it after a gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks import measure
from benchmarks.counting import Counts
from benchmarks.figures import Figure, Finding
from benchmarks.report import Result
from benchmarks.run import Executor, run
from benchmarks.shapes import CallableKind, Shape, linear


@dataclass(frozen=True)
class Gate:
    """A shape, how it runs, and the bounds: calls of our functions, and blocks of memory left, for each task."""

    shape: Shape
    executor: Executor
    kind: CallableKind
    calls: float
    blocks: float
    lead: float = 2.0  # seconds for reading the DAGs, which is not counted

    def __str__(self) -> str:
        return f"{self.shape.name} {self.executor}"

    def allows(self, counts: Counts) -> bool:
        """Whether a task cost no more than the bounds."""
        tasks = self.shape.total
        return counts.calls <= tasks * self.calls and counts.blocks <= tasks * self.blocks


GATES: Final = (
    Gate(Shape("parallel-200x10", 200, 10, ()), "inline", "async", calls=150, blocks=37),
    Gate(Shape("chain-300", 1, 300, linear(300)), "inline", "async", calls=272, blocks=41),
    Gate(Shape("linear-20x10", 20, 10, linear(10)), "local", "sync", calls=195, blocks=12, lead=4.0),
)


async def count(gate: Gate) -> tuple[Counts, Result]:
    """Run its shape, and count in the scheduler's thread from the due instant to the end of the runs.

    A run whose DAGs were read after that instant has counted the reading, too: it is repeated with more time.
    """
    for lead in (gate.lead, 5 * gate.lead, 20 * gate.lead):
        counts = Counts()
        result = await run(gate.shape, executor=gate.executor, kind=gate.kind, lead=lead, watched=counts)
        if not any("--lead" in problem for problem in result.problems):
            break
    return counts, result


async def gates(size: int, _: float) -> Finding:
    """Each gate so many times: the least and the most of both counts."""
    figures: list[Figure] = []
    problems: list[str] = []
    for gate in GATES:
        calls, blocks = list[float](), list[float]()
        for _ in range(size):
            counts, result = await count(gate)
            calls.append(counts.calls / gate.shape.total)
            blocks.append(counts.blocks / gate.shape.total)
            problems += result.problems
        for what, values, bound in (("calls", calls, gate.calls), ("blocks left", blocks, gate.blocks)):
            figures.append(Figure(f"{gate}: {what} a task, least", min(values), ""))
            figures.append(Figure(f"{gate}: {what} a task, most", max(values), "", most=bound))
    return Finding("gates", f"{size} runs each", measure.machine(), figures, problems)
