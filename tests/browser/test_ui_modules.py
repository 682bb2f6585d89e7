"""The modules of the UI that only decide, asked in the browser: schedules in words, forms, colours of code."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from aiosched.authoring.runtime.xcom_values import write_xcom
from aiosched.cli.base.options import read_conf
from aiosched.core.values.commands import command_line
from aiosched.core.values.states import RunState
from aiosched.core.values.typed_json import readable
from tests.browser.conftest import Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ask(tab: Tab, module: str, function: str, arguments: list[list[Any]]) -> list[Any]:
    """Call a function of a module once for each list of arguments; an error is its words."""
    page = await tab.open("/")
    told: str = await page.evaluate(
        """async ([module, name, lists]) => {
            const found = await import(new URL("ui/lib/" + module, document.baseURI));
            return JSON.stringify(lists.map((list) => {
                try { return found[name](...list) ?? null; } catch (error) { return error.message; }
            }));
        }""",
        [module, function, arguments],
    )
    return list(json.loads(told))


async def test_values_with_marks_read_as_the_commands_show_them(tab: Tab) -> None:
    values: list[Any] = [
        None,
        [1, {"a": None}],
        (1, Decimal("1.50"), {2}),
        {1: "a", None: (b"x",)},
        {(1,): 2},
        {"$aiosched": "text"},
        datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),
        RunState.FAILED,
    ]
    parts = [json.loads(write_xcom(value)) for value in values]

    assert await ask(tab, "json.js", "readable", [[part] for part in parts]) == [readable(part) for part in parts]


async def test_the_last_failure_of_a_grid_is_that_of_the_run_that_ended_last(tab: Tab) -> None:
    rows = [{"id": name, "kind": kind} for name, kind in (("all", "group"), ("a", "task"), ("b", "task"))]

    def grid(*runs: tuple[str, list[Any]]) -> list[dict[str, Any]]:
        named = [{"run_id": f"r{place}", "state": state} for place, (state, _) in enumerate(runs)]
        return [{"rows": rows, "runs": named, "cells": [cells for _, cells in runs]}]

    bad = ("failed", [{"success": 1, "failed": 1}, "success", "failed"])
    mapped = ("failed", [{"failed": 3}, {"success": 1, "failed": 2}, "upstream_failed"])
    ended = ("failed", [{"upstream_failed": 2}, "upstream_failed", "upstream_failed"])  # by its timeout, say
    good, busy = ("success", [{"success": 2}] * 3), ("running", [{"running": 2}] * 3)
    grids = [grid(), grid(bad), grid(mapped), grid(good, bad, busy), grid(bad, good), grid(busy), grid(ended)]

    assert await ask(tab, "../parts/grid/model.js", "lastFailure", grids) == [
        None,
        {"run": "r0", "task": "b"},
        {"run": "r0", "task": "a"},
        {"run": "r1", "task": "b"},
        None,
        None,
        {"run": "r0", "task": None},
    ]


async def test_dialogs_write_the_same_commands_as_messages(tab: Tab) -> None:
    cases: list[tuple[str, list[Any], list[Any]]] = [
        ("dags unpause", ["etl"], []),
        ("why", ["-etl", "r"], ["--map-index", 2]),
        ("pools set", ["a b", -1, ""], ["--rate=5/min"]),
        ("inputs answer", ["d", "r", "t", "it's", "--no"], ["-p", "n=-1"]),
        ("tasks clear", ["d"], ["--run", "-r"]),
        ("variables set", ["region", "-"], ["--secret"]),
    ]
    asked = [[command, names, *options] for command, names, options in cases]

    found = await ask(tab, "../parts/dialog.js", "commandLine", asked)

    assert [shlex.split(line) for line in found] == [
        shlex.split(command_line(command, *names, options=options)) for command, names, options in cases
    ]


async def test_the_options_of_a_conf_give_the_same_conf_on_the_command_line(tab: Tab) -> None:
    confs: list[dict[str, Any]] = [
        {"a": 1, "b": "1", "c": "text", "d": None, "e": [1, {"x": "y"}]},
        {"nan": "NaN", "infinite": " -Infinity", "spaces": "  ", "empty": "", "lines": "a\nb", "dash": "-x"},
        {"a=b": 1, "": 2, "=": "x", "c": 3},
        {"-p": 1, "--": "2"},
    ]

    found = await ask(tab, "../parts/actions/conf.js", "flagsOf", [[{}, conf] for conf in confs])

    for conf, words in zip(confs, found, strict=True):
        pairs = [value for option, value in zip(words[::2], words[1::2], strict=True) if option == "-p"]
        rest = [value for option, value in zip(words[::2], words[1::2], strict=True) if option == "--conf"]
        assert read_conf(rest[0] if rest else None, pairs) == conf


WORDS = {
    "* * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "0 * * * *": "every hour",
    "15,45 * * * *": "every hour at :15 and :45",
    "0 3 * * *": "every day at 03:00",
    "30 1 * * 1-5": "Monday to Friday at 01:30",
    "0 9,17 * * MON": "every Monday at 09:00 and 17:00",
    "0 0 * * 7": "every Sunday at 00:00",
    "0 0 1 * *": "on day 1 of every month at 00:00",
    "0 6 1 jan,jul *": "every 1 January and 1 July at 06:00",
    "0 */2 * * *": "every 2 hours",
    "0 8-17 * * 1-5": "every hour from 08:00 to 17:00, Monday to Friday",
    "@daily": "every day at 00:00",
    "0 0 1 * 5": None,
    "0 3 * * 5#2": None,
    "61 * * * *": None,
    "none of it": None,
}


async def test_cron_expressions_in_words_or_not_at_all(tab: Tab) -> None:
    told = await ask(tab, "cron.js", "cronWords", [[expression] for expression in WORDS])
    assert dict(zip(WORDS, told, strict=True)) == WORDS


async def test_schedules_keep_their_expression_where_words_replace_it(tab: Tab) -> None:
    asked = [["0 3 * * *"], ["@hourly"], ["0 3 * * * or orders"], ["orders & customers"], ["none"], [None]]
    assert await ask(tab, "cron.js", "scheduleWords", asked) == [
        {"words": "every day at 03:00", "expression": "0 3 * * *"},
        {"words": "every hour", "expression": None},
        {"words": "every day at 03:00 or orders", "expression": "0 3 * * * or orders"},
        {"words": "orders & customers", "expression": None},
        {"words": "manual", "expression": None},
        {"words": "manual", "expression": None},
    ]


FIELDS: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "string"}, "a", "text"),
    ({"type": ["null", "string"]}, None, "text"),
    ({"type": "integer"}, 1, "number"),
    ({"type": "boolean"}, True, "boolean"),
    ({"type": ["boolean", "null"]}, None, "enum"),
    ({"enum": [1, 2]}, 1, "enum"),
    ({"type": "array", "items": {"type": "string"}}, [], "lines"),
    ({"type": "array", "items": {"type": "string"}}, ["with\nnewline"], "json"),
    ({"type": "array", "items": {"type": "string"}}, ["x", ""], "json"),
    ({"type": "array", "items": {"type": "integer"}}, [1], "json"),
    ({"type": ["string", "integer"]}, "a", "json"),
    ({"type": "string", "format": "date-time"}, None, "date-time"),
    ({"type": "string", "format": "time"}, "02:30:00", "time"),
    ({"type": "string", "format": "time"}, "02:30:00+01:00", "text"),
    ({"type": "string", "format": "date"}, "{{ ds }}", "text"),
    ({"type": "string"}, "two\nlines", "multiline"),
    ({"type": ["string", "null"], "format": "password"}, "***", "password"),
    ({}, 1.5, "number"),
    ({}, ["a"], "lines"),
    ({}, None, "json"),
]


async def test_each_schema_has_its_kind_of_field(tab: Tab) -> None:
    told = await ask(tab, "schema.js", "kindOf", [[schema, value] for schema, value, _ in FIELDS])
    assert [(*field[:2], kind) for field, kind in zip(FIELDS, told, strict=True)] == FIELDS


async def test_a_default_that_is_a_date_or_time_has_its_field(tab: Tab) -> None:
    def param(kind: str, value: object, **schema: object) -> dict[str, Any]:
        return {"value": value, "typed": {"$aiosched": kind, "value": value}, "json_schema": schema}

    params = [
        (param("date", "2026-01-31"), "date"),
        (param("pendulum.Date", "2026-01-31", type=["string", "null"]), "date"),
        (param("datetime", "2026-01-31T06:00:00+01:00"), "date-time"),
        (param("pendulum.DateTime", "2026-01-31T06:00:00Z"), "date-time"),
        (param("datetime", "2026-01-31T06:00:00"), "text"),
        (param("time", "06:00:00"), "time"),
        (param("date", "2026-01-31", format="multiline"), "multiline"),
        (param("decimal", "1.50"), "text"),
        (param("timedelta", 3600), "number"),
        (param("set", ["a"]), "lines"),
        ({"value": [1], "typed": [{"$aiosched": "date", "value": "2026-01-31"}]}, "json"),
    ]
    schemas = await ask(tab, "schema.js", "schemaOf", [[each] for each, _ in params])
    told = await ask(
        tab, "schema.js", "kindOf", [[s, each["value"]] for s, (each, _) in zip(schemas, params, strict=True)]
    )

    assert told == [kind for _, kind in params]


async def test_null_is_a_choice_where_it_is_allowed(tab: Tab) -> None:
    schemas: list[list[Any]] = [
        [{"type": ["boolean", "null"]}],
        [{"enum": ["a", None]}],
        [{"type": ["string", "null"], "enum": ["a"]}],
        [{"const": 1}],
    ]
    assert await ask(tab, "schema.js", "valuesOf", schemas) == [[None, True, False], ["a", None], [None, "a"], [1]]


async def test_a_password_is_never_filled_in(tab: Tab) -> None:
    assert await ask(tab, "schema.js", "toText", [["password", "***"], ["text", "a"]]) == ["", "a"]


async def test_what_is_typed_becomes_the_value_or_says_what_is_wrong(tab: Tab) -> None:
    whole = {"type": "integer"}
    asked: dict[str, tuple[list[Any], Any]] = {
        "a whole number": (["number", " 7", whole], 7),
        "a part": (["number", "7.5", whole], "is not a whole number: 7.5"),
        "too many digits": (
            ["number", "9007199254740993", whole],
            "is too large for the browser: use the command line instead",
        ),
        "no number": (["number", "seven", {"type": "number"}], "is not a number: seven"),
        "nothing": (["number", "", whole], "a value is required"),
        "null": (["number", "", {"type": ["null", "integer"]}], None),
        "lines": (["lines", "a\n\nb\n", {}], ["a", "b"]),
        "json": (["json", '{"a": [1]}', {}], {"a": [1]}),
        "no json": (["json", "{a", {}], "is not valid JSON: {a"),
        "a large number in json": (
            ["json", '{"a": [1234567890123456789]}', {}],
            "A number is too large for the browser: use the command line instead",
        ),
        "a large choice": (
            ["enum", "1234567890123456789", {"enum": [1234567890123456789]}],
            "A number is too large for the browser: use the command line instead",
        ),
        "an instant": (["date-time", "2026-11-20T12:00", {}], "2026-11-20T12:00:00Z"),
        "a choice": (["enum", '"b"', {"enum": ["a", "b"]}], "b"),
        "an empty text": (["text", "", {"type": "string"}], ""),
    }
    told = await ask(tab, "schema.js", "toValue", [arguments for arguments, _ in asked.values()])
    assert dict(zip(asked, told, strict=True)) == {name: value for name, (_, value) in asked.items()}


LARGE = '{"id":-1234567890123456789,"parts":[9007199254740993,9007199254740991,0.1234567890123456,1e+300]}'


async def test_large_whole_numbers_of_the_server_stay_as_they_are(tab: Tab) -> None:
    assert await ask(tab, "json.js", "received", [[LARGE]]) == [json.loads(LARGE)]


async def test_a_browser_that_has_to_round_a_number_says_so(tab: Tab) -> None:
    await tab.page.add_init_script("delete JSON.rawJSON")
    assert await ask(tab, "json.js", "received", [['{"id": 1234567890123456789, "n": 7}']]) == [
        {"id": "1234567890123456800 (rounded by this browser)", "n": 7}
    ]


async def test_code_is_coloured_by_its_pieces_and_loses_nothing(tab: Tab) -> None:
    source = '@dag(x=1)\ndef f(a):  # why\n    """two\n  lines"""\n    return f"{a}\\"" + a@b\n'
    [lines] = await ask(tab, "python.js", "highlight", [[source]])
    assert "\n".join("".join(text for _, text in line) for line in lines) == source
    assert lines[0] == [["decorator", "@dag"], ["", "(x="], ["number", "1"], ["", ")"]]
    assert lines[1] == [["keyword", "def"], ["", " "], ["name", "f"], ["", "(a):  "], ["comment", "# why"]]
    assert lines[3] == [["string", '  lines"""']]


async def test_news_of_instances_change_cells_and_their_groups(tab: Tab) -> None:
    grid = {
        "version": 2,
        "rows": [
            {"id": "g", "kind": "group", "depth": 0, "is_mapped": False, "task_index": None},
            {"id": "g.a", "kind": "task", "depth": 1, "is_mapped": False, "task_index": 0},
            {"id": "b", "kind": "task", "depth": 0, "is_mapped": True, "task_index": 1},
        ],
        "runs": [{"key": 7, "version": 2}, {"key": 8, "version": 1}],
        "cells": [[{"running": 1}, "running", {"queued": 3}], [None, None, None]],
    }
    told = await ask(
        tab,
        "../parts/grid/model.js",
        "patchTasks",
        [
            [grid, {"run": 7, "counts": {"0": {"success": 1}}}],
            [grid, {"run": 7, "counts": {"1": {"success": 1, "queued": 2}}}],
            [grid, {"run": 7, "counts": {"0": {}}}],
            [grid, {"run": 7, "many": True}],
            [grid, {"run": 8, "counts": {"0": {"success": 1}}}],
            [grid, {"run": 9, "counts": {"0": {"success": 1}}}],
        ],
    )
    assert told[0]["cells"] == [[{"success": 1}, "success", {"queued": 3}], [None, None, None]]
    assert told[1]["cells"][0] == [{"running": 1}, "running", {"success": 1, "queued": 2}]
    assert told[2]["cells"][0] == [None, None, {"queued": 3}]
    assert told[3:5] == [None, None], "what has no counts and old versions are read again"
    assert told[5] == grid


NOON = 1795176000  # 2026-11-20 12:00 UTC


def at(second: int) -> str:
    return f"2026-11-20T12:00:{second:02}Z"


def a_try(state: str, *times: int | None, deferred: tuple[tuple[int, int | None], ...] = ()) -> dict[str, Any]:
    names = ("scheduled_at", "queued_at", "start_date", "end_date")
    known = {name: None if time is None else at(time) for name, time in zip(names, times, strict=True)}
    stretches = [{"since": at(since), "until": until and at(until)} for since, until in deferred]
    return {"state": state, "deferred": stretches, **known}


TRIES: dict[str, tuple[dict[str, Any], list[tuple[str, int, int]]]] = {
    "waits for a slot": (a_try("queued", 0, 2, None, None), [("scheduled", 0, 2), ("queued", 2, 30)]),
    "is over": (
        a_try("success", 0, 2, 3, 9),
        [("scheduled", 0, 2), ("queued", 2, 3), ("success", 3, 9)],
    ),
    "runs": (a_try("running", None, 2, 3, None), [("queued", 2, 3), ("running", 3, 30)]),
    "is deferred": (
        a_try("deferred", None, 2, 3, None, deferred=((5, None),)),
        [("queued", 2, 3), ("running", 3, 5), ("deferred", 5, 30)],
    ),
    "was deferred twice": (
        a_try("failed", None, 2, 3, 20, deferred=((5, 8), (10, 19))),
        [("queued", 2, 3), ("running", 3, 5), ("deferred", 5, 8), ("running", 8, 10), ("deferred", 10, 19),
         ("failed", 19, 20)],
    ),
}  # fmt: skip


async def test_a_try_in_time_is_what_it_waited_for_and_how_it_ran(tab: Tab) -> None:
    now = (NOON + 30) * 1000
    told = await ask(tab, "../parts/gantt/segments.js", "segmentsOf", [[one, now] for one, _ in TRIES.values()])
    for name, segments in zip(TRIES, told, strict=True):
        found = [(kind, begin // 1000 - NOON, end // 1000 - NOON) for kind, begin, end in segments]
        assert found == TRIES[name][1], name


COLOURS: dict[str, list[tuple[str, str, dict[str, str] | None]]] = {
    "no colour": [("no colour", "", None)],
    "a\x1b[1;31mb\x1b[22mc\x1b[0md": [
        ("a", "", None),
        ("b", "bold fore-1", None),
        ("c", "fore-1", None),
        ("d", "", None),
    ],
    "\x1b[38;5;196mcube": [("cube", "fore-any", {"--fore": "rgb(255 0 0)"})],
    "\x1b[38;5;244mgrey": [("grey", "fore-any", {"--fore": "rgb(128 128 128)"})],
    "\x1b[38;5;9mnamed": [("named", "fore-9", None)],
    "\x1b[38;2;1;2;3;1mtrue": [("true", "bold fore-any", {"--fore": "rgb(1 2 3)"})],
    "\x1b[48:2::255:255:0mcolons": [("colons", "back-any ink-dark", {"--back": "rgb(255 255 0)"})],
    "\x1b[48;5;17mdark": [("dark", "back-any ink-light", {"--back": "rgb(0 0 95)"})],
    "\x1b[31;42;7mturned\x1b[27mback": [("turned", "fore-2 back-1", None), ("back", "fore-1 back-2", None)],
    "\x1b[7mturned": [("turned", "fore-surface back-text", None)],
    "\x1b[38;5;999mtoo much\x1b[4mline": [("too much", "", None), ("line", "underline", None)],
    "\x1b[2K\x1b]8;;http://x\x07link\x1b]8;;\x07": [("link", "", None)],
}


async def test_terminal_colours_become_classes_or_properties_and_lose_no_text(tab: Tab) -> None:
    told = await ask(tab, "ansi.js", "pieces", [[line] for line in COLOURS])
    found = [[(one["text"], one["className"], one["style"]) for one in pieces] for pieces in told]
    assert dict(zip(COLOURS, found, strict=True)) == COLOURS


MARKDOWN: dict[str, Any] = {
    "ECB says **1.0834**\n- keep\n- `raise`": [
        ["paragraph", [["text", "ECB says "], ["strong", [["text", "1.0834"]]]]],
        ["list", False, [[["paragraph", [["text", "keep"]]]], [["paragraph", [["code", "raise"]]]]]],
    ],
    "# Title\nsnake_case_name and *now*": [
        ["heading", 1, [["text", "Title"]]],
        ["paragraph", [["text", "snake_case_name and "], ["em", [["text", "now"]]]]],
    ],
    "a|b\n-|-\n1|2": [["table", [[["text", "a"]], [["text", "b"]]], [[[["text", "1"]], [["text", "2"]]]]]],
    "```\n<b>*x*</b>\n": [["code", "<b>*x*</b>\n"]],
    "[run](https://example.com/a) <script>": [
        ["paragraph", [["link", "https://example.com/a", [["text", "run"]]], ["text", " <script>"]]]
    ],
}
HARMLESS = (  # no link is made of these
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>)",
    "[x]( vbscript:x)",
    "[x](//example.com)",
    "![x](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
)


async def test_markdown_is_data_and_links_lead_to_the_web_only(tab: Tab) -> None:
    assert await ask(tab, "markdown.js", "blocksOf", [[text] for text in MARKDOWN]) == list(MARKDOWN.values())
    told = await ask(tab, "markdown.js", "blocksOf", [[text] for text in HARMLESS])
    assert '"link"' not in json.dumps(told)
    for mark in ("*", "**", "_", "`", "[", "](", "> ", "- ", "|", "-|", "\\", "http://", "1. ", "#"):
        await ask(tab, "markdown.js", "blocksOf", [[mark * 40_000], [f"a{mark}" * 30_000], [f"{mark}a\n" * 20_000]])


async def test_a_name_that_is_shown_stands_beside_its_id_unless_it_is_a_part_of_it(tab: Tab) -> None:
    rows = [{"id": "g.load", "label": label} for label in ("load", "g.load", "Load it", "oad", "d")]

    assert await ask(tab, "names.js", "labelAndId", [[row] for row in rows]) == [
        ["g.load"], ["g.load"], ["Load it", "g.load"], ["oad", "g.load"], ["d", "g.load"],
    ]  # fmt: skip
    given = {"task_id": "g.load", "task_display_name": "Load it", "map_index": 2}
    shown = await ask(tab, "names.js", "shownTask", [[given], [given | {"task_display_name": None, "map_index": -1}]])
    assert shown == ["Load it[2]", "g.load"]


async def test_a_run_is_named_by_its_date_unless_people_chose_its_id(tab: Tab) -> None:
    year = datetime.now(UTC).year
    shown = {
        f"scheduled__{year}-11-26T23:00:00+00:00": "26 Nov, 23:00",
        f"asset_triggered__{year}-01-02T03:04:05.678901+00:00_0f3c9a02": "2 Jan, 03:04:05",
        "manual__1999-12-31T00:00:00+00:00": "31 Dec 1999, 00:00",
    }
    chosen = [
        "load", "poll__tenant", "scheduled__2026-11-26", f"my scheduled__{year}-11-26T23:00:00+00:00", "",
        f"scheduled__{year}-11-26T23:00:00+00:00_again", f"manual__{year}-11-26T23:00:00+01:00", "__" * 100_000,
    ]  # fmt: skip

    assert await ask(tab, "names.js", "runName", [[one] for one in [*shown, *chosen]]) == [*shown.values(), *chosen]


async def test_rows_of_a_grid_are_found_by_the_name_shown_and_by_the_id(tab: Tab) -> None:
    rows = [
        {"id": "g", "label": "First part", "kind": "group", "depth": 0},
        {"id": "g.load", "label": "Load IT", "kind": "task", "depth": 1},
        {"id": "other", "label": "other", "kind": "task", "depth": 0},
    ]

    found = await ask(
        tab, "../parts/grid/model.js", "visibleRows", [[rows, [], text] for text in ("d it", "G.LO", "x")]
    )

    assert [[row["id"] for row in each] for each in found] == [["g", "g.load"], ["g", "g.load"], []]


async def test_durations_have_no_empty_units_and_stay_on_one_line(tab: Tab) -> None:
    seconds = [0.0012, 6, 6.04, 6.25, 9.97, 12.4, 59.6, 60, 252, 3599.7, 3600, 5400, 86_400, 97_200, -90]
    told = await ask(tab, "time.js", "duration", [[one] for one in seconds])
    words = ["1 ms", "6 s", "6 s", "6.3 s", "10 s", "12 s", "1 m", "1 m", "4 m 12 s", "1 h", "1 h", "1 h 30 m"]
    assert [one.replace("\u00a0", " ") for one in told] == [*words, "1 d", "1 d 3 h", "-1 m 30 s"]
    assert told[8] == "4\u00a0m 12\u00a0s"  # may break between the parts only


async def test_the_lines_of_an_axis_stand_at_round_instants(tab: Tab) -> None:
    def ms(text: str) -> float:
        return datetime.fromisoformat(f"2026-11-{text}+00:00").timestamp() * 1000

    asked = [
        ("20T16:13:07", "21T01:13:07", 6, "20T18:00:00 20T20:00:00 20T22:00:00 21T00:00:00"),
        ("20T22:23:56.4", "20T22:23:57.6", 7, "20T22:23:57"),
        ("20T22:23:50", "20T22:25:50", 6, "20T22:24:00 20T22:24:30 20T22:25:00 20T22:25:30"),
        ("18T05:00:00", "20T05:00:00", 2, "19T00:00:00 20T00:00:00"),
        ("20T05:00:00", "20T05:00:00", 6, "20T05:00:00"),
    ]
    told = await ask(tab, "time.js", "roundInstants", [[ms(low), ms(high), most] for low, high, most, _ in asked])
    assert told == [[ms(one) for one in words.split()] for *_, words in asked]


async def test_offsets_on_an_axis_are_as_long_as_its_step_needs(tab: Tab) -> None:
    told = await ask(tab, "time.js", "lengthAtStep", [[0.005, 0.005], [1.02, 0.01], [10.5, 0.5], [60, 30], [6, 2]])
    assert [one.replace("\u00a0", " ") for one in told] == ["5 ms", "1.02 s", "10.5 s", "1 m", "6 s"]


async def test_runs_took_the_same_time_only_if_it_reads_the_same(tab: Tab) -> None:
    asked = [[0.011, 0.018], [0.011, 0.0112], [60, 75], [0, 12], [120, 30]]
    told = await ask(tab, "../pages/run/compare.js", "changeWords", asked)
    words = ["7 ms longer, 64 %", "the same", "15 s longer, 25 %", "12 s longer", "1 m 30 s shorter, 75 %"]
    assert [one.replace("\u00a0", " ") for one in told] == words


async def test_a_dag_without_runs_says_only_what_can_make_one(tab: Tab) -> None:
    dags = [{"schedule": "@daily"}, {"schedule": None}, {"schedule": "@daily", "quarantine": {"failures": 2}}]
    assert await ask(tab, "../parts/grid/tab.js", "firstRunWords", [[dag] for dag in dags]) == [
        "Trigger one, or wait for the next scheduled run.",
        "Trigger one: this DAG has no schedule.",
        "None is created while the DAG is in quarantine.",
    ]


async def test_settings_that_are_numbers_of_something_have_their_unit(tab: Tab) -> None:
    asked: list[tuple[Any, str, str | None, str]] = [
        (300, "core.x", "default seconds between two tries", "300 s"),
        (30.0, "logs.retention_days", "days after which logs of seconds ago are removed; 0: never", "30 days"),
        (1_048_576, "core.max_xcom_bytes", "maximum size of an XCom value as JSON", "1,048,576 bytes"),
        (8484, "web.port", "port of the web server; seconds are not meant", "8484"),
        ("2 GiB", "executor.memory_limit", "memory, in bytes or as '2 GiB'", "2 GiB"),
        (None, "a.b_seconds", None, "null"),
    ]
    lists = [[value, {"key": key, "description": description}] for value, key, description, _ in asked]
    told = await ask(tab, "../pages/settings.js", "valueWords", lists)
    assert [one.replace("\u00a0", " ") for one in told] == [words for *_, words in asked]
