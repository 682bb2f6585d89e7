"""Which tests notice a change of the code: a seeded sample of mutants, and who kills each.

    python -m tools.mutants --number 200 --seed 1     # `make mutants`; called again it goes on

A mutant is one change by cosmic-ray (another operator, number or condition, no loop, no decorator …) at a place of its
own. It is made in a copy of the tree (build/mutants/tree-SEED) and meets the tests that run its line, the cheapest
first, until one fails. Which test runs which line is measured once (by pytest-cov); code of other processes is
in no map, so the tests of its room follow. Results are lines of build/mutants/results-SEED.jsonl.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build" / "mutants"
MUTATED: Final = ("core", "scheduler", "db/statements", "executors/attempt", "parsing")
TIERS: Final = ("quick", "rest")
CHEAP: Final = ("tests/core", "tests/semantics", "tests/authoring", "tests/testing", "tests/simulation")
# Tests of code that runs in processes of its own, by the beginning of its path.
ELSEWHERE: Final = {
    "executors/attempt": ("tests/executors", "tests/examples"),
    "parsing": ("tests/parsing", "tests/bundles"),
}
HANGS: Final = 1_800.0  # seconds after which a tier that has not ended counts as failed


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the `occurrence`-th place of an operator in a file below aiosched."""

    file: str
    line: int
    operator: str
    occurrence: int


# ---- choosing ----


def places(path: Path) -> dict[tuple[int, int], list[Mutant]]:
    """All mutants of a file by their place; none in annotations, which nobody evaluates."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    annotations = [
        (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        for owner in ast.walk(tree)
        for node in (getattr(owner, "annotation", None), getattr(owner, "returns", None))
        if isinstance(node, ast.expr)
    ]
    found: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    nodes = list(ast_nodes(get_ast_from_path(path)))
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments():
            continue
        operator = kind()
        positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(positions):
            if not any((a, b) <= (line, column) < (c, d) for a, b, c, d in annotations):
                file = path.relative_to(ROOT / "aiosched").as_posix()
                found[line, column].append(Mutant(file, line, name, occurrence))
    return found


def sample(number: int, seed: int) -> list[Mutant]:
    """So many mutants at different places, each place as likely as any other."""
    files = sorted(path for room in MUTATED for path in (ROOT / "aiosched" / room).rglob("*.py"))
    everywhere = [mutants for path in files for _, mutants in sorted(places(path).items())]
    chance = random.Random(seed)
    return [chance.choice(mutants) for mutants in chance.sample(everywhere, number)]


# ---- trying ----


class Tree:
    """A copy of the project in which mutants live, and what its tests run."""

    def __init__(self, seed: int) -> None:
        self.folder = BUILD / f"tree-{seed}"
        if not self.folder.exists():
            subprocess.run([shutil.which("git") or "git", "clone", "-q", ROOT, self.folder], check=True)

    def pytest(self, *arguments: str, timeout: float | None = None) -> int:
        """The exit code of pytest here; 1 if it does not end in time."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", *arguments]
        with (BUILD / f"{self.folder.name}.log").open("wb") as log:
            try:
                done = subprocess.run(
                    command, cwd=self.folder, env=environment, timeout=timeout, check=False, stdout=log
                )
            except subprocess.TimeoutExpired:
                return 1
        return done.returncode

    def measure(self, tier: str) -> None:
        """Write down which test of a tier runs which line, unless that is known."""
        os.environ["COVERAGE_FILE"] = str(self.map(tier))
        if not self.map(tier).exists():
            self.pytest("-n", "2", "--tier", tier, "--cov=aiosched", "--cov-context=test", "--cov-report=")

    def map(self, tier: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{tier}.coverage")

    def tests(self, tier: str, mutant: Mutant) -> list[str]:
        """The tests of a tier that run the mutant's line, and those of its room; the cheap ones first."""
        data = CoverageData(str(self.map(tier)))
        data.read()
        contexts = data.contexts_by_lineno(str(self.folder / "aiosched" / mutant.file)).get(mutant.line, [])
        ids = {context.rpartition("|")[0] for context in contexts if context}
        rooms = [tests for start, tests in ELSEWHERE.items() if mutant.file.startswith(start)]
        return [*sorted(ids, key=lambda test: (not test.startswith(CHEAP), test)), *(t for room in rooms for t in room)]

    def kills(self, tier: str, mutant: Mutant) -> bool:
        """Whether a test of the tier fails with the mutant."""
        if not (tests := self.tests(tier, mutant)):
            return False
        chosen = self.folder.with_name(f"{self.folder.name}.tests")
        chosen.write_text("\n".join(tests), encoding="utf-8")
        return self.pytest("-x", "--tier", tier, f"@{chosen}", timeout=HANGS) != 0

    def outcome(self, mutant: Mutant) -> str:
        """Who kills the mutant: the quick tier, the rest, or nobody."""
        path = self.folder / "aiosched" / mutant.file
        with use_mutation(path, get_operator(mutant.operator)(), mutant.occurrence) as (_, code):
            assert code is not None, mutant
            return next((tier for tier in TIERS if self.kills(tier, mutant)), "nobody")


def main() -> None:
    """Try the mutants of a sample that were not tried yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    results = BUILD / f"results-{given.seed}.jsonl"
    tried = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()] if results.exists() else []
    tree = Tree(given.seed)
    for tier in TIERS:
        tree.measure(tier)
    with results.open("a", encoding="utf-8") as out:
        for mutant in sample(given.number, given.seed)[len(tried) :]:
            tried.append({"killed by": tree.outcome(mutant), **asdict(mutant)})
            print(line := json.dumps(tried[-1]), file=out, flush=True)
            print(line, flush=True)
    counts = Counter(one["killed by"] for one in tried)
    killed = counts["quick"] + counts["rest"]
    print(f"{len(tried)} mutants, {killed} killed ({killed / len(tried):.1%})")
    print(f"{counts['quick']} by the quick tier ({counts['quick'] / max(killed, 1):.1%} of those)")


if __name__ == "__main__":
    main()
