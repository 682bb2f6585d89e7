"""How a child ended, in words."""

from __future__ import annotations

import msgspec
import pytest

from aiosched.core.graph.spec import DagSpec, encode_spec
from aiosched.parsing.killable import ChildEnding
from aiosched.parsing.limits import Limits
from aiosched.parsing.result import ChildAnswer, ParsedFile, one_line, shortened
from aiosched.parsing.verdict import parsed_file

LIMITS = Limits(import_timeout=1, file_timeout=2, memory=1 << 30, result=1 << 20, output=1 << 16)


def outcome_of(
    answer: bytes = b"", *, status: int | None = 0, signal: int | None = None, output: bytes = b""
) -> ParsedFile:
    ending = ChildEnding(status=status, signal=signal, answer=answer, output=output)
    return parsed_file(ending, name="a.py", path="/dags/a.py", digest="d", source="x = 1\n", seconds=0.1, limits=LIMITS)


def answer_with(*documents: bytes) -> bytes:
    return msgspec.json.encode(ChildAnswer(dags=tuple(map(msgspec.Raw, documents))))


def test_a_document_is_made_canonical() -> None:
    (dag,) = outcome_of(answer_with(b'{"tags": ["b"],  "dag_id": "x", "from_the_future": 1}')).dags

    assert dag.document == encode_spec(DagSpec(dag_id="x", tags=("b",)))


@pytest.mark.parametrize("answer", [b"{", b"\x80\x04pickle", b'{"dags": [{"dag_id": 7}]}', b'{"error": {}}', b"[]"])
def test_an_answer_that_is_not_ours_is_the_files_error(answer: bytes) -> None:
    outcome = outcome_of(answer)

    assert outcome.dags == ()
    assert outcome.error is not None
    assert outcome.error.message.startswith("The file's answer cannot be read")


@pytest.mark.parametrize(
    ("number", "words"), [(9, "SIGKILL (from outside"), (11, "SIGSEGV (segmentation fault)"), (40, "signal 40 while")]
)
def test_a_signal_has_a_name(number: int, words: str) -> None:
    error = outcome_of(status=None, signal=number).error

    assert error is not None
    assert words in error.message


def test_a_signal_counts_more_than_an_answer_that_was_begun() -> None:
    error = outcome_of(answer_with(encode_spec(DagSpec(dag_id="x"))), status=None, signal=11).error

    assert error is not None
    assert error.type == "Killed"


def test_a_crash_dump_points_at_the_line_and_leaves_our_frames_out() -> None:
    dump = (
        b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
        b'  File "/lib/c.py", line 9 in f\n'
        b'  File "/dags/a.py", line 1 in <module>\n  File "<frozen importlib._bootstrap>", line 2 in g\n'
        b'  File "/lib/python/concurrent/process.py", line 3 in run\n\nbye\n'
    )

    error = outcome_of(status=None, signal=6, output=dump).error

    assert error is not None
    assert error.line == 1
    assert error.code_frame == "a.py:1\n> 1 | x = 1\n  2 |"
    assert error.traceback is not None
    assert '"/lib/c.py"' in error.traceback
    assert "process.py" not in error.traceback
    assert error.traceback.endswith("bye\n")


def test_text_becomes_storable_and_is_shortened() -> None:
    assert shortened("a\0b\ud800", 100) == "a\\x00b\\ud800"
    assert one_line("a\n\n  b\tc") == "a b c"
    assert one_line("x" * 10_000) == "x" * 4_000 + "…"
    assert len(shortened("x" * 10_000, 100)) < 150
