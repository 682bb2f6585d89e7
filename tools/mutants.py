"""Which tests notice a change of the code: a seeded sample of mutants, and who kills each.

    python -m tools.mutants --number 200 --seed 1     # `make mutants`; called again it goes on

A mutant is one change by cosmic-ray (another operator, number or condition, no loop, no decorator …) at a place of its
own. It is made in a copy of the tree (build/mutants/tree-SEED-LANE) and meets the tests that run its line, the cheapest
first, until one fails: those of the quick tier, and if it survives these, those of the rest. Which test runs which line
is measured once (by pytest-cov). Code of other processes is in no map, so the tests of its room follow. Where more than
`--most` tests run a line, a mutant meets the nearest and a seeded sample of the others, so that the figures say
a little too little. Results are lines of build/mutants/results-SEED.jsonl.
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
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TextIO

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code, use_mutation
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
# Options of a class, of its statement or its decorator, without which code that is right does the same.
SILENT: Final = frozenset({"frozen", "slots", "kw_only", "gc", "repr"})
HANGS: Final = 100  # seconds after which a test that has not ended counts as failed


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the `occurrence`-th place of an operator in a file below aiosched."""

    file: str
    line: int
    column: int
    operator: str
    occurrence: int


# ---- choosing ----


def places(root: Path, path: Path) -> dict[tuple[int, int], list[Mutant]]:
    """All mutants of a file by their place: line and column."""
    found: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    nodes = list(ast_nodes(get_ast_from_path(path)))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    annotations = [
        one
        for node in ast.walk(tree)
        for one in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(one, ast.expr)
    ]
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments():
            continue
        operator = kind()
        positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, place in enumerate(positions):
            if not any(_holds(one, place) for one in annotations):
                found[place].append(Mutant(path.relative_to(root).as_posix(), *place, name, occurrence))
    return found


def is_silent(root: Path, mutant: Mutant) -> bool:
    """Whether nothing can notice it: what a class forbids (`SILENT`), or the star of a signature."""
    place = mutant.line, mutant.column
    for node in ast.walk(ast.parse((root / mutant.file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            calls = (one for one in node.decorator_list if isinstance(one, ast.Call))
            options = [*node.keywords, *(option for call in calls for option in call.keywords)]
            if any(option.arg in SILENT and _holds(option.value, place) for option in options):
                return True
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= place[0] < node.body[0].lineno:
            return "BinaryOperator" in mutant.operator
    return False


def _holds(node: ast.expr, place: tuple[int, int]) -> bool:
    end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return (node.lineno, node.col_offset) <= place < end


def sample(root: Path, number: int, seed: int) -> list[Mutant]:
    """So many mutants of the package at `root`, at different places, each place as likely as any other."""
    files = sorted(path for room in MUTATED for path in (root / room).rglob("*.py"))
    everywhere = [mutants for path in files for _, mutants in sorted(places(root, path).items())]
    chance = random.Random(seed)
    chance.shuffle(everywhere)
    possible = (those for mutants in everywhere if (those := [one for one in mutants if is_python(root, one)]))
    chosen = (chance.choice(mutants) for mutants in possible)
    return list(islice((mutant for mutant in chosen if not is_silent(root, mutant)), number))


def is_python(root: Path, mutant: Mutant) -> bool:
    """Whether the changed file can be compiled: cosmic-ray takes the stars of `**options` for an operator, too."""
    source = (root / mutant.file).read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    assert changed is not None, mutant
    try:
        compile(changed, mutant.file, "exec")
    except SyntaxError:
        return False
    return True


# ---- trying ----


class Maps:
    """Which tests run which line, and so which a mutant meets."""

    def __init__(self, tree: Tree, most: int, seed: int) -> None:
        self.tree = tree
        self.most = most
        self.seed = seed

    def path(self, tier: str) -> Path:
        return BUILD / f"{self.tree.folder.name}-{tier}.coverage"

    def measure(self, tier: str) -> None:
        """Run a tier under coverage, unless that was done."""
        if not self.path(tier).exists():
            os.environ["COVERAGE_FILE"] = str(self.path(tier))
            coverage = ("-p", "pytest_cov", "--cov=aiosched", "--cov-context=test", "--cov-report=")
            self.tree.pytest("-n", "2", "--tier", tier, *coverage)

    def tests(self, tier: str, mutant: Mutant) -> list[str]:
        """The tests of a tier that run the mutant's line (of its file, if it runs at the import); the nearest first."""
        data = CoverageData(str(self.path(tier)))
        data.read()
        by_line = data.contexts_by_lineno(str(self.tree.folder / "aiosched" / mutant.file))
        ids = _tests(by_line.get(mutant.line, ())) or _tests(one for contexts in by_line.values() for one in contexts)
        own = f"tests/{mutant.file.partition('/')[0]}/"
        chance = random.Random(f"{self.seed} {mutant}")
        order = {test: (not test.startswith(own), not test.startswith(CHEAP), chance.random()) for test in sorted(ids)}
        rooms = [tests for start, tests in ELSEWHERE.items() if mutant.file.startswith(start)]
        return [*sorted(ids, key=order.__getitem__)[: self.most], *(test for room in rooms for test in room)]


def _tests(contexts: Iterable[str]) -> set[str]:
    return {context.rpartition("|")[0] for context in contexts if context}


class Tree:
    """A copy of the project in which one mutant at a time lives."""

    def __init__(self, seed: int, lane: int) -> None:
        self.folder = BUILD / f"tree-{seed}-{lane}"
        git = shutil.which("git") or "git"
        if not self.folder.exists():
            subprocess.run([git, "clone", "-q", ROOT, self.folder], check=True)
        subprocess.run([git, "checkout", "-q", "."], cwd=self.folder, check=True)  # after a run that was ended

    def pytest(self, *arguments: str) -> int:
        """The exit code of pytest here."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        with self.folder.with_suffix(".log").open("wb") as log:
            return subprocess.run(command, cwd=self.folder, env=environment, check=False, stdout=log).returncode

    def killer(self, tier: str, mutant: Mutant, tests: list[str]) -> str | None:
        """The first test that fails with the mutant; None if it survives them all."""
        if not tests:
            return None
        chosen = self.folder.with_suffix(".tests")
        chosen.write_text("\n".join(tests), encoding="utf-8")
        path = self.folder / "aiosched" / mutant.file
        with use_mutation(path, get_operator(mutant.operator)(), mutant.occurrence) as (_, code):
            assert code is not None, mutant
            if self.pytest("-x", "--tier", tier, f"--timeout={HANGS}", f"@{chosen}") == 0:
                return None
        failed = [
            line for line in self.folder.with_suffix(".log").read_text().splitlines() if line.startswith("FAILED ")
        ]
        return failed[0].split()[1] if failed else "not one test began"


def play(mutants: list[Mutant], tier: str, maps: Maps, trees: list[Tree], out: TextIO) -> None:
    """Let mutants meet a tier, one in each tree at a time, and write down what became of each."""
    maps.measure(tier)
    idle: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        idle.put(tree)

    def one(mutant: Mutant) -> None:
        tree = idle.get()
        try:
            killer = tree.killer(tier, mutant, maps.tests(tier, mutant))
        finally:
            idle.put(tree)
        print(json.dumps({"tier": tier, "killer": killer, **asdict(mutant)}), file=out, flush=True)

    with ThreadPoolExecutor(len(trees)) as lanes:
        list(lanes.map(one, mutants))


def outcomes(results: Path) -> dict[str, dict[Mutant, str | None]]:
    """What was tried: of each tier the mutants that met it, and what killed them."""
    tried: dict[str, dict[Mutant, str | None]] = {tier: {} for tier in TIERS}
    for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        fields = json.loads(line)
        tier, killer = fields.pop("tier"), fields.pop("killer")
        tried[tier][Mutant(**fields)] = killer
    return tried


def main() -> None:
    """Try the mutants of a sample that were not tried yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2, help="mutants at the same time")
    parser.add_argument("--most", type=int, default=120, help="tests of a tier that a mutant meets")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    results = BUILD / f"results-{given.seed}.jsonl"
    trees = [Tree(given.seed, lane) for lane in range(given.lanes)]
    maps = Maps(trees[0], given.most, given.seed)
    alive = sample(trees[0].folder / "aiosched", given.number, given.seed)
    for tier in TIERS:
        with results.open("a", encoding="utf-8") as out:
            play([one for one in alive if one not in outcomes(results)[tier]], tier, maps, trees, out)
        killers = outcomes(results)[tier]
        survived = [one for one in alive if killers[one] is None]
        print(f"{tier}: {len(alive) - len(survived)} of {len(alive)} killed")
        alive = survived
    print(*alive, sep="\n")


if __name__ == "__main__":
    main()
