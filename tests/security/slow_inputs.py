"""Searches for inputs that take more than their length: `python -m tests.security.slow_inputs SEED NAME…`.

Each entrance that people's text reaches is called with a beginning, something repeated, and an end, all made at random
of what means something there. Processor time of the thread is compared at a length and at a quarter of it; what grows
by more than in proportion, again and again, is printed. Who does not end is killed; the last line names it.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiosched
from aiosched.authoring.runtime.templates import plain_engine
from aiosched.cli.base.options import read_json
from aiosched.cli.base.output import to_yaml
from aiosched.core.access.grants import GrantKind, checked_name
from aiosched.core.access.grants import _glob as dag_glob
from aiosched.core.alerts.rules import _glob as alert_glob
from aiosched.core.graph import json_schema
from aiosched.core.timetables.cron import parse_cron
from aiosched.core.timetables.days import read_day_or_instant
from aiosched.core.timetables.key_formats import check_format, read_instant
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.timetables.zones import zone
from aiosched.core.values import given_values, json_bounds, typed_json
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.ids import check_new_name, read_instance_name, short_run_id
from aiosched.core.values.masking import Redactor, is_sensitive
from aiosched.core.values.matching import match, words_of
from aiosched.core.values.patterns import searcher
from aiosched.core.values.secret_values import hidden
from aiosched.core.values.texts import cut_repr, without_escapes
from aiosched.core.why.error_groups import FailedInstance, group_errors, searchable
from aiosched.sizes import size_of
from aiosched.web.api.base.paging import decode_cursor
from aiosched.web.views.line_diff import unified
from aiosched.web.views.log_index import find_errors, find_level, find_text
from tests.security import slow_places

SECONDS: Final = 360  # of processor time for one entrance, before it is killed
TRIES: Final = 300
NOTICED: Final = 0.02  # seconds: below, nothing is noticed
FACTOR: Final = 10  # four times the length may take four times as long; 16 is quadratic
JSON: Final = ("[", "]", "{", "}", '"', "\\", '\\"', "a", "1", "-", ".", ",", ":", '"a":', "[[", "null", "\\u00e9", " ")
WORDS: Final = ("a", "b", "ab", "A", "1", " ", "-", "_", ".", "/", "*", "?", "[", "]", "\n", "é", "%", "'", '"', "\\")
LOG: Final = (
    "Traceback (most recent call last):\n", "ERROR", " ", "\t", "\n", "\r", "a", ".", "ValueError: ", "Error", "_",
    "\x1b[", "\x1b]", "0;", "m", "\x07", "\x1b", "WARN", "During handling", "1", "-", "f", "deadbeef",
)  # fmt: skip


class Entrance(NamedTuple):
    """What a text reaches, what means something there, and the most characters that come so far."""

    call: Callable[[str], object]
    parts: Sequence[str]
    longest: int = 20_000
    clock: Callable[[], float] = time.thread_time  # in seconds: what is done elsewhere takes time of the wall
    tries: int = TRIES


class Regex(NamedTuple):
    """A regular expression in our source, and how it is used."""

    pattern: str | bytes
    flags: int
    method: str
    place: str


def _read(text: str) -> Any:
    return json.loads(text)


def _bounds(text: str) -> None:
    value = _read(text)
    json_bounds.is_bounded(text.encode())
    json_bounds.find_problem(value, "it")
    json_bounds.shown_json(text)


def _marks(text: str) -> None:
    value = _read(text)
    typed_json.without_marks(value)
    typed_json.readable(value)
    typed_json.json_length(text)
    hidden(value)
    cut_repr(value)
    given_values.find_problem(value, [{"$aiosched": "date", "value": "2026-01-31"}])


def _schema(text: str) -> None:
    """Each schema takes at most as many steps as there are: a value that is checked by itself, too."""
    value = _read(text)
    for schema in (value, {"items": value}, {"uniqueItems": True, "items": {"enum": [value]}}):
        if isinstance(schema, dict) and json_schema.find_schema_problem(schema) is None:
            json_schema.find_problem(value, schema, json_schema.StepBudget(20_000))


def _redact(text: str) -> None:
    redactor = Redactor()
    redactor.register(["aaaa", "a1a1a1", text[:20]])
    redactor.redact(text)
    redactor.redact_value({"a": [text]})
    is_sensitive(text)


def _log(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_text(text, errors="replace")
        find_errors(path, limit=100)
        find_text(path, "aaab")
        find_level(path, "warning", limit=100)


def _pattern(text: str) -> None:
    found = searcher(text)
    length = min(4_000, 100_000 // found.steps(100))
    found("ab1_- " * (length // 6))


def _template(text: str) -> None:
    engine = plain_engine()
    engine.references(text)
    engine.text(text, {"a": "b", "params": {"a": "1" * 100}, "items": [1, 2, 3]})


def _document(text: str) -> None:
    found = read_json(text, "it")
    for name, value in found.items():
        ConnectionValue.from_fields("c", value if isinstance(value, dict) else {name: value})
    to_yaml(found)


def _connection(text: str) -> None:
    for given in (text, f"http://{text}", f"aws://?{text}", f"postgres://u:{text}@h/x"):
        with contextlib.suppress(Exception):
            ConnectionValue.from_text("c", given)


def _groups(text: str) -> None:
    group_errors([FailedInstance("d", "r", "t", -1, text)], most=3)
    searchable(text)


ENTRANCES: Final[dict[str, Entrance]] = {
    "JSON values": Entrance(_bounds, JSON),
    "JSON with marks": Entrance(
        _marks, (*JSON, '{"$aiosched": "tuple", "value": [', "]}", '{"$aiosched": "dict", "value": [["a", 1]]},')
    ),
    "JSON Schema": Entrance(
        _schema,
        (
            *JSON,
            '{"allOf": [{"$ref": "#"}]}',
            '{"anyOf": [',
            '{"not": ',
            '{"$ref": "#/',
            '"pattern": "a*"',
            '"enum": [1]',
            '{"properties": {"a": ',
            '"unevaluatedProperties": false',
            '{"items": ',
            '"$defs": {',
            "]}",
            "}}",
        ),
    ),
    "patterns": Entrance(
        _pattern, ("a", "(", ")", "*", "+", "?", "{1,9}", "{30}", "|", "[a-z]", ".", "\\d", "\\pL", "^", "$"), 1_000
    ),
    "texts of patterns": Entrance(searcher(r"^(a+)+b|(.*,){9}x|[\w.]+@"), WORDS),
    "templates": Entrance(
        _template,
        (
            "{{ a }}",
            "{% if a %}",
            "{% endif %}",
            "{% for i in items %}",
            "{% endfor %}",
            "{{",
            "}}",
            "{%",
            "%}",
            "{#",
            "#}",
            "(",
            ")",
            "[",
            "]",
            "|upper",
            " + ",
            "a",
            "'",
            '"',
            "\n",
            "{% raw %}",
            "-",
            "~ a",
            "{% set b = a %}",
            "{{ ti.xcom_pull('a') }}",
            "not ",
            "1",
        ),
        4_000,
    ),
    "documents with variables and connections": Entrance(
        _document, (*JSON, '"extra": {', '"host": "', '"uri": "', '"port": 1', '{"a": {', '"conn_type": "http",')
    ),
    "connections": Entrance(
        _connection,
        ("http://", ":", "/", "@", "?", "&", "=", "a", "%7B", "%22", "[", "]", "__extra__=", "#", "1", "{", '"'),
    ),
    "cursors": Entrance(lambda text: decode_cursor(text, tuple[int, str]), ("W", "1", "=", "a", "_", "-", "]"), 20_000),
    **{
        f"header {name}": Entrance(slow_places.header(name), parts, tries=30)
        for name, parts in slow_places.HEADERS.items()
    },
    **{
        f"in the database: {name}": Entrance(call, parts, longest, time.perf_counter, tries=40)
        for name, call, parts, longest in (
            ("globs", slow_places.glob_of_rows, ("a", "b", "*", "?", "**", "%", "_", "\\", "-"), 1_000),
            ("searches", slow_places.words_in_rows, WORDS, 200),
            ("texts", slow_places.text_of_rows, LOG, 100_000),
            ("JSON", slow_places.values_of_rows, JSON, 100_000),
            ("lists", slow_places.long_lists, ("a", ",", "1,", "b,"), 50_000),
        )
    },
    "search of names": Entrance(lambda text: match(words_of(text), "a_b.c" * 50, "ab" * 50), WORDS, 2_000),
    "names that are searched": Entrance(lambda text: match(("ab", "b-"), text, text), WORDS, 2_000),
    "globs of access": Entrance(
        lambda text: dag_glob(text).fullmatch("ab" * 125 + "c"), ("a", "b", "*", "?", "**", "a*b"), 250
    ),
    "names of globs": Entrance(lambda text: dag_glob("*a*b*a*c").fullmatch(text), ("a", "b", "ab", "_"), 2_000),
    "names of grants": Entrance(lambda text: checked_name(GrantKind.FOLDER, text), WORDS, 2_000),
    "globs of alerts": Entrance(
        lambda text: alert_glob(text)("ab" * 125), ("a", "b", "*", "?", "[", "]", "!", "-"), 250
    ),
    "cron": Entrance(
        parse_cron,
        ("*", "/", "1", ",", "-", " ", "0-59", "*/1", "mon", "L", "#", "W", "?", "jan", "@", "h", "5-5"),
        4_000,
    ),
    "schedules": Entrance(
        lambda text: parse_schedule(text, timezone="UTC"),
        ("@", "daily", "*", " ", "1", "-", "/", "P", "T", "D", "every", ",", "h"),
        4_000,
    ),
    "days and instants": Entrance(
        read_day_or_instant, ("2026", "-", "01", "T", ":", "00", "Z", "+", ".", "W", " "), 4_000
    ),
    "time zones": Entrance(zone, ("Europe/", "UTC", "+", "01", ":", "/", "..", "a"), 2_000),
    "formats of keys": Entrance(check_format, ("%Y", "%m", "%d", "-", "%", "%H", "T", "a"), 1_000),
    "keys": Entrance(
        lambda text: read_instant(text, "%Y-%m-%dT%H", "Europe/Amsterdam"),
        ("2026", "-", "01", "T", "0", " ", "é"),
        2_000,
    ),
    "names": Entrance(lambda text: check_new_name("DAG", text), WORDS, 4_000),
    "instances": Entrance(read_instance_name, ("a", "[", "]", "1", "1]", "[1]"), 4_000),
    "run ids": Entrance(short_run_id, ("a", "_", "__", "2026-01-01T", "00:00", ".", "+00:00", "f"), 2_000),
    "sizes": Entrance(size_of, ("1", " ", "GiB", "M", "."), 4_000),
    "secrets in texts": Entrance(_redact, (*WORDS, "aaaa", "password", "a1")),
    "errors": Entrance(_groups, LOG),
    "escapes": Entrance(without_escapes, LOG),
    "logs": Entrance(_log, LOG),
    "differences": Entrance(
        lambda text: unified(text, text[: len(text) // 2][::-1] + "x", ("a", "b")),
        ("a\n", "b\n", "\n", "c", "a\nb\n", "\r", "é\n"),
        200_000,
        tries=60,
    ),
    "differences of lines": Entrance(
        lambda text: unified(
            "\n".join(f"{n % 997}" for n in range(len(text))),
            "\n".join(f"{n * 7 % 991}{c}" for n, c in enumerate(text)),
            ("a", "b"),
        ),
        ("a", "b"),
        20_000,
        tries=40,
    ),
}
REGEXES: Final = "regular expressions"  # all that the package writes down


def regexes() -> dict[str, Regex]:
    """Those that the package writes down, by place: what `compile` makes with the methods that its file calls."""
    found: dict[str, Regex] = {}
    root = Path(aiosched.__file__).parent
    for file in sorted(root.rglob("*.py")):
        source = file.read_text()
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
                continue
            with contextlib.suppress(ValueError):
                pattern = ast.literal_eval(node.args[0])
                names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
                flags = sum({int(getattr(re, name)) for name in names if name.isupper()})
                place = f"{file.relative_to(root)}:{node.lineno}"
                for method in _methods(node.func.attr, source, node.lineno):
                    found[f"{place} {method}"] = Regex(pattern, flags, method, place)
    return found


def _methods(called: str, source: str, line: int) -> set[str]:
    if called != "compile":
        return {called}
    name = re.search(r"^\s*(\w+)", "\n".join(source.splitlines()[line - 1 :]))
    used = set(re.findall(rf"\b{name[1]}\.(\w+)\(", source)) if name else set()
    return used & {"match", "fullmatch", "search", "sub", "split", "findall", "finditer", "subn"} or {"match"}


def entrance_of(regex: Regex) -> Entrance:
    """A regular expression with texts of what is written in it."""
    compiled: Any = re.compile(regex.pattern, regex.flags)
    shown = regex.pattern if isinstance(regex.pattern, str) else regex.pattern.decode("latin-1")
    letters = sorted({*re.sub(r"\\[a-zA-Z]|[()*+?|^$\[\]{}\\]", "", shown)})[:16]
    encode = (lambda text: text) if isinstance(regex.pattern, str) else (lambda text: text.encode("latin-1", "replace"))

    def call(text: str) -> None:
        given = encode(text)
        if regex.method == "sub":
            compiled.sub(given[:0], given)
        else:
            answer = getattr(compiled, regex.method)(given)
            if regex.method == "finditer":
                list(answer)

    return Entrance(call, [*letters, " ", "a", "1", "\n", '"', "\\", "_", "[", "]", "-", ".", "A", "f", "\x1b"], 8_000)


def slow_inputs(entrance: Entrance, seed: str, tries: int) -> Iterator[str]:
    """The inputs that take more than their length, as text."""
    rng = random.Random(seed)
    for _ in range(tries):
        first, pump, last = ("".join(rng.choices(entrance.parts, k=rng.randint(low, 3))) for low in (0, 1, 0))
        if pump and _is_slow(entrance, first, pump, last):
            yield f"{first!r} + n * {pump!r} + {last!r}"


def _is_slow(entrance: Entrance, first: str, pump: str, last: str) -> bool:
    def seconds(length: int) -> float:
        text = first + pump * max(1, (length - len(first) - len(last)) // len(pump)) + last
        print(f"  {length} of {first!r} {pump!r} {last!r}", file=sys.stderr, flush=True)
        begun = entrance.clock()
        with contextlib.suppress(Exception):  # most are refused
            entrance.call(text)
        return entrance.clock() - begun

    length = 64
    while length < entrance.longest and seconds(length) < NOTICED:  # what never ends is found while it is short
        length *= 4
    length = min(length, entrance.longest)
    for _ in range(2):
        least = min(seconds(length) for _ in range(3))
        if least < NOTICED or least < FACTOR * min(seconds(length // 4) for _ in range(3)):
            return False
    return True


def main(seed: str, *names: str) -> None:
    """Print the slow inputs of these entrances, one each."""
    for name in names:
        spent = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + SECONDS, resource.RLIM_INFINITY))
        print(f"{name}:", file=sys.stderr)
        if name == REGEXES:
            found = {f"{place} {regex.pattern!r}": entrance_of(regex) for place, regex in regexes().items()}
        else:
            found = {name: ENTRANCES[name]}
        for place, entrance in found.items():
            tries = TRIES // 4 if name == REGEXES else entrance.tries
            for slow in itertools.islice(slow_inputs(entrance, seed, tries), 1):
                print(f"{place}: {slow}")


if __name__ == "__main__":
    main(*sys.argv[1:])
