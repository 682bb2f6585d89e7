"""No text that people give takes more than its length: a search over all entrances, and what it has found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.core.timetables.zones import zone
from aiosched.core.values.masking import MASK, Redactor
from aiosched.core.why.error_groups import searchable
from aiosched.errors import TimetableError
from aiosched.web.views.line_diff import MOST_STEPS, equal_runs, unified
from tests.security.slow_inputs import ENTRANCES, REGEXES, Entrance, entrance_of, regexes, slow_inputs
from tests.security.slow_places import DSN, HEADERS, PLACES, status_of

ROOT = Path(__file__).parents[2]


GROUPS = {
    "headers": [name for name in ENTRANCES if name.startswith("header ")],
    "texts": [name for name in ENTRANCES if not name.startswith("header ")],
    "regular expressions": [REGEXES],
}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_no_input_is_found_that_takes_more_than_its_length(group: str, dsn: str) -> None:
    seed = os.environ.get("AIOSCHED_SLOW_SEED", "1")  # another one searches elsewhere
    command = [sys.executable, "-W", "ignore", "-m", "tests.security.slow_inputs", seed, *GROUPS[group]]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, DSN: dsn}, capture_output=True, text=True, check=False)

    lines = done.stderr.splitlines()
    at = [line for line in lines if not line.startswith(" ")][-1:] + lines[-1:]
    assert done.returncode == 0, f"seed {seed}: ended with {done.returncode} at {' '.join(at)}"
    assert done.stdout == "", f"seed {seed}"


@pytest.mark.parametrize(("power", "is_found"), [(1, False), (2, True)], ids=["linear", "quadratic"])
def test_the_search_finds_what_is_quadratic(power: int, is_found: bool) -> None:
    steps = 0

    def takes(text: str) -> None:
        nonlocal steps
        steps += len(text) ** power

    entrance = Entrance(takes, ["a", "b"], 3_000, clock=lambda: steps / 10**6)
    assert bool(list(slow_inputs(entrance, "1", 2))) == is_found


def test_the_search_sees_the_regular_expressions_of_the_package() -> None:
    found = regexes()

    assert len(found) > 60
    assert any(place.startswith("core/why/error_groups.py") and regex.method == "sub" for place, regex in found.items())
    for regex in found.values():
        entrance_of(regex).call("a-1")


def test_the_entrances_are_there() -> None:
    """A header, a template, a document and a statement: what is called is really reached."""
    assert status_of("GET", "/livez", {"accept": b"text/html"}) == 200
    for name in ("templates", "documents with variables and connections", "connections", "header cookie"):
        ENTRANCES[name].call('{"a": {"host": "b"}}')


# ---- what it has found ----


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("value", ["", "[", "http://[", "9" * 6000, "\xb2", "a" * 60_000, "=" * 3000], ids=range(7))
def test_no_header_is_an_error_of_the_server(name: str, value: str) -> None:
    given = {name: value.encode("latin-1")}
    for method, path in PLACES:
        assert status_of(method, path, given) < 500
    foreign = {("origin", "["), ("origin", "http://[")}
    if (name, value) in foreign:
        assert status_of("POST", "/api/v1/login", given) == 403


def test_a_reason_of_many_hyphens_is_searched_once() -> None:
    assert searchable("Af-" * 100_000 + " no id 12345678-aaaa") == "Af-" * 100_000 + " no id"
    assert searchable("failed for deadbeef-1 at the very end") == "at the very end"


def test_a_secret_that_masks_complete_hides_the_text_after_some_rounds() -> None:
    redactor = Redactor()
    redactor.register("*aaaa")

    assert redactor.redact("x *aaaa") == "x ***"
    assert redactor.redact("*" + "a" * 100_000) == MASK


def test_names_near_an_unknown_time_zone_are_sought_by_its_beginning() -> None:
    with pytest.raises(TimetableError, match="did you mean 'Europe/Amsterdam'"):
        zone("Europe/Amsterdm")
    with pytest.raises(TimetableError) as caught:
        zone("Europe/" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([str(n) for n in range(50_000)], [str(n) for n in reversed(range(50_000))]),
        ([str(n % 997) for n in range(50_000)], [str(n * 7 % 991) for n in range(50_000)]),
        (["x", "y"] * 25_000, ["y", "x", "x"] * 16_000),
        (["a"] * 50_000, ["b", "a"] * 25_000),
    ],
    ids=["reversed", "often the same", "two lines", "one line"],
)
def test_texts_of_any_kind_are_compared_with_little_work(one: list[str], two: list[str]) -> None:
    """difflib takes hours."""
    runs = equal_runs(one, two)

    assert all(one[a : a + n] == two[b : b + n] for a, b, n in runs)
    assert MOST_STEPS <= 2_000_000


def test_a_diff_is_as_difflib_makes_it_where_that_is_little_work() -> None:
    one, two = ["a", "b", "c", "d", "e", "f", "g", "h"], ["a", "b", "X", "d", "e", "f", "g", "h", "i"]

    assert unified("\n".join(one), "\n".join(two), ("x", "y")).split("\n") == [
        "--- x", "+++ y", "@@ -1,8 +1,9 @@", " a", " b", "-c", "+X", " d", " e", " f", " g", " h", "+i",
    ]  # fmt: skip
    assert unified("a", "a", ("x", "y")) == ""
    assert unified("", "a", ("x", "y")) == "--- x\n+++ y\n@@ -0,0 +1 @@\n+a"
