"""Files that do their worst at import. Each concerns itself alone.

Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 30.4.

All of them are parsed once, together, by the real processes; the tests look at the outcomes. Only files that hang have
short limits: on a busy machine any other file may take a while.
"""

from __future__ import annotations

import asyncio
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.parsing.check import check_paths
from aiosched.parsing.result import FileError, ParsedFile
from tests.parsing.builders import dag_source, settings_for, write, write_zip

WORDS = "# aiosched dag\n"
IMPORT_TIMEOUT, FILE_TIMEOUT, PLENTY = 1.0, 4.0, 60.0

FILES: dict[str, str | bytes] = {
    "sys_exit.py": "import sys\nsys.exit(3)",
    "os_exit.py": "import os\nos._exit(4)",
    "exit_zero.py": "import os\nos._exit(0)",
    "segfault.py": "import ctypes\nprint('so far so good')\nctypes.string_at(0)",
    "abort.py": "import os\nos.abort()",
    "kill.py": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "memory.py": "x = bytearray(2 << 30)",
    "many_small.py": "x = [bytes(1 << 20) for _ in range(4096)]",
    "unpicklable.py": """
        class Odd(Exception):
            def __init__(self, lock):
                super().__init__(lock)
                self.lock = lock
            def __reduce__(self):
                raise RuntimeError("cannot be pickled")
            def __str__(self):
                raise RuntimeError("cannot even be shown")
        import threading
        raise Odd(threading.Lock())
    """,
    "group.py": "raise ExceptionGroup('many', [ValueError('a'), ExceptionGroup('deep', [KeyError('b')])])",
    "group_of_no_errors.py": """
        class Wild(ExceptionGroup):
            exceptions = property(lambda self: [3, None])
        raise Wild("many", [ValueError("a")])
    """,
    "syntax.py": "def f(:\n    pass",
    "latin.py": b"# aiosched dag\nname = '\xe9'\n",
    "nul.py": b"# aiosched dag\nraise ValueError('a\\x00b \\ud800')\n",
    "nul_tag.py": dag_source("nul_tag", extra=r", tags=['ok', 'a\0b']"),
    "nul_pool.py": dag_source("nul_pool").replace("'t0'", r"'t0', pool='a\0b'"),
    "half_a_character.py": dag_source("half", extra=r", description='\ud800'"),
    "number_as_param.py": dag_source("number_as_param", extra=", params={5: 1}"),
    "one_for_true.py": dag_source("one_for_true", extra=", catchup=0")
    .replace("catchup=False, ", "")
    .replace("'t0'", "'t0', depends_on_past=1, wait_for_downstream=0"),
    "nul_argument.py": dag_source("nul_argument")
    .replace("EmptyOperator", "BashOperator")
    .replace("'t0'", r"'t0', bash_command='tr , \0', env={'a\0': '\0', 'b': '\ud800', 'c': r'\u0000'}"),
    "closes_everything.py": "import os\nos.closerange(0, 100)",
    "recursion.py": "def f():\n    return f()\nf()",
    "interrupt.py": "raise KeyboardInterrupt",
    "odd_modules.py": dag_source("odd_modules") + "import sys\nsys.modules['aiosched'] = None\nsys.modules['m'] = 7\n",
    "helper_user.py": "import broken_helper",
    "waits_for_input.py": "raise ValueError(repr(input()))",
    "cycle.py": """
        from aiosched.authoring.dag.dag import DAG
        from aiosched import EmptyOperator
        with DAG("cycle", schedule=None, catchup=False):
            a, b = EmptyOperator(task_id="a"), EmptyOperator(task_id="b")
            a >> b >> a
    """,
    "bad_cron.py": dag_source("bad_cron").replace("schedule=None", "schedule='0 25 * * *'"),
    "twice_a.py": dag_source("twice", "only_a"),
    "twice_b.py": dag_source("twice", "only_b"),
    "ten_thousand.py": dag_source("ten_thousand").replace(
        "    EmptyOperator(task_id='t0')", "    [EmptyOperator(task_id=f't{n}') for n in range(10_000)]"
    ),
    "forks.py": dag_source("forks") + "import os\nchild = os.fork()\nchild == 0 or os.waitpid(child, 0)\n",
    "forks_and_raises.py": dag_source("forks_and_raises") + "import os\nchild = os.fork()\n1 / (child or 0)\n",
    "exits_later.py": dag_source("exits_later") + "import atexit, os\natexit.register(os._exit, 9)\n",
    "thread.py": dag_source("thread")
    + "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n",
    "pool_of_no_one.py": dag_source("pooled").replace("task_id='t0'", "task_id='t0', pool='nobodys'"),
    "fine.py": dag_source("fine", tasks=2) + "print('hello')\n",
    "nested/deep.py": dag_source("deep") + "import helper\n",
}
HANGING = {
    "loop.py": "while True:\n    pass",
    "stubborn.py": """
        import signal, time
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        print("still here")
        time.sleep(600)
    """,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dags")
    for name, text in FILES.items():
        write(folder, name, text)
        if isinstance(text, str):
            path = folder / name
            path.write_text(path.read_text() + "\n" + WORDS)
    write(folder, "helper.py", "x = 1")
    write(folder, "broken_helper.py", "x = 1\ny = x.nothing\n")
    write_zip(folder / "bundle.zip", {"zipped.py": "import inside\n" + dag_source("zipped"), "inside.py": "z = 1"})
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("bomb.py", "#" * (2**24 + 1))  # 16 KB, packed
    write_zip(folder / "bad.zip", {"bad.py": "# first\nraise ValueError('in the archive')\n"})
    for kind, leave in {"child": "", "daemon": "os.setsid()\n    if os.fork(): os._exit(0)\n    "}.items():
        write(
            folder,
            f"leaves_{kind}.py",
            f"import os, time\n{dag_source(kind)}\nready, told = os.pipe()\nif os.fork() == 0:\n    {leave}"
            f"open({str(folder / kind)!r}, 'w').write(str(os.getpid()))\n    os.write(told, b'!')\n"
            "    time.sleep(600)\n    os._exit(0)\nos.read(ready, 1)\n",
        )
    return folder


@pytest.fixture(scope="module")
def outcomes(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ParsedFile]]:
    apart = tmp_path_factory.mktemp("hanging")
    loop, stubborn = (write(apart, name, text) for name, text in HANGING.items())

    async def parse() -> dict[str, ParsedFile]:
        parsed = await asyncio.gather(
            check_paths([folder], settings_for(folder, import_timeout=PLENTY, file_timeout=PLENTY)),
            check_paths([loop], settings_for(apart, import_timeout=IMPORT_TIMEOUT, file_timeout=PLENTY)),
            check_paths([stubborn], settings_for(apart, import_timeout=IMPORT_TIMEOUT, file_timeout=FILE_TIMEOUT)),
        )
        return {result.name: result for results in parsed for result in results}

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        yield runner.run(parse())


def error_of(outcome: ParsedFile) -> FileError:
    assert outcome.error is not None
    assert outcome.dags == ()
    return outcome.error


@pytest.mark.parametrize(
    ("name", "kind", "message", "line"),
    [
        ("sys_exit.py", "SystemExit", r"called sys\.exit\(3\) at import", 2),
        ("os_exit.py", "Exited", r"called os\._exit\(4\)", None),
        ("exit_zero.py", "Exited", r"called os\._exit\(0\)", None),
        ("segfault.py", "Killed", r"killed by SIGSEGV \(segmentation fault\)", 3),
        ("abort.py", "Killed", r"killed by SIGABRT \(abort\)", 2),
        ("kill.py", "Killed", r"killed by SIGKILL \(.*ran out of memory\)", None),
        ("loop.py", "Timeout", r"longer than 1 s.*core\.dagbag_import_timeout", None),
        ("stubborn.py", "Timeout", r"killed after 4 s.*parsing\.file_timeout", 5),
        ("memory.py", "MemoryError", r"more than 512 MiB of memory.*parsing\.max_memory_bytes", 1),
        ("many_small.py", "MemoryError", r"more than 512 MiB of memory", 1),
        ("unpicklable.py", "Odd", r"Odd without a message", 11),
        ("group.py", "ExceptionGroup", r"^many \(2 sub-exceptions\): ValueError: a; KeyError: 'b'$", 1),
        ("group_of_no_errors.py", "Wild", r"^many \(1 sub-exception\): int: 3; NoneType: None$", 4),
        ("syntax.py", "SyntaxError", r"invalid syntax", 1),
        ("latin.py", "SyntaxError", r"utf-8", None),
        ("nul.py", "ValueError", r"^a\\x00b \\ud800$", 2),
        ("recursion.py", "RecursionError", r"maximum recursion depth", 2),
        ("interrupt.py", "KeyboardInterrupt", r"KeyboardInterrupt without a message", 1),
        ("helper_user.py", "AttributeError", r"nothing", 1),
        ("waits_for_input.py", "EOFError", r"EOF", 1),
        ("cycle.py", "DagCycleError", r"a.*b", None),
        ("bad_cron.py", "TimetableError", r"0 25 \* \* \*", None),
        ("nul_tag.py", "DagError", r"^DAG 'nul_tag'\['tags'\]\[0\] has a NUL character", 4),
        ("nul_pool.py", "DagError", r"^DAG 'nul_pool'\['tasks'\]\[0\]\['pool'\] has a NUL character", 4),
        ("half_a_character.py", "DagError", r"^DAG 'half'\['description'\] has half of a surrogate pair", 4),
        ("number_as_param.py", "DagError", r"^DAG 'number_as_param' cannot be stored", 4),
        ("closes_everything.py", "NotImported", r"closes descriptors", None),
        ("bad.zip/bad.py", "ValueError", r"^in the archive$", 2),
        ("bomb.zip/bomb.py", "ValueError", r"an archive may have 16,777,216 bytes, and this one has more", None),
    ],
)
def test_a_hostile_file_gets_an_error_that_says_what_happened(
    outcomes: dict[str, ParsedFile], name: str, kind: str, message: str, line: int | None
) -> None:
    """Section 30.4, the rows on files that raise and on parsers that take too long."""
    error = error_of(outcomes[name])

    assert error.type == kind
    assert re.search(message, error.message)
    assert "\n" not in error.message
    if line is not None:
        assert error.line == line
        assert error.code_frame is not None
        assert "\n> " in error.code_frame


@pytest.mark.parametrize(
    ("name", "dag_ids"),
    [
        ("fine.py", ["fine"]),
        ("one_for_true.py", ["one_for_true"]),
        ("nul_argument.py", ["nul_argument"]),
        ("ten_thousand.py", ["ten_thousand"]),
        ("forks.py", ["forks"]),
        ("forks_and_raises.py", ["forks_and_raises"]),
        ("exits_later.py", ["exits_later"]),
        ("odd_modules.py", ["odd_modules"]),
        ("thread.py", ["thread"]),
        ("leaves_child.py", ["child"]),
        ("leaves_daemon.py", ["daemon"]),
        ("nested/deep.py", ["deep"]),
        ("twice_a.py", ["twice", "only_a"]),
        ("bundle.zip/zipped.py", ["zipped"]),
    ],
)
def test_the_files_beside_them_are_parsed(outcomes: dict[str, ParsedFile], name: str, dag_ids: list[str]) -> None:
    assert outcomes[name].error is None
    assert [dag.dag_id for dag in outcomes[name].dags] == dag_ids


def test_a_large_dag_comes_through_whole(outcomes: dict[str, ParsedFile]) -> None:
    assert len(outcomes["ten_thousand.py"].dags[0].spec.tasks) == 10_000


def test_the_second_file_with_a_dag_id_gets_an_error_that_names_the_first(outcomes: dict[str, ParsedFile]) -> None:
    error = outcomes["twice_b.py"].error

    assert error is not None
    assert "'twice' is already defined in twice_a.py" in error.message


def test_a_traceback_shows_the_frames_of_the_user_alone(outcomes: dict[str, ParsedFile]) -> None:
    traceback = error_of(outcomes["helper_user.py"]).traceback

    assert traceback is not None
    assert re.findall(r'File ".*/(.*)", line (\d+)', traceback) == [("helper_user.py", "1"), ("broken_helper.py", "2")]


def test_the_code_frame_shows_where_in_a_helper_it_went_wrong(outcomes: dict[str, ParsedFile]) -> None:
    frame = error_of(outcomes["helper_user.py"]).code_frame

    assert frame is not None
    assert frame.splitlines()[0] == "broken_helper.py:2:5"


def test_what_a_crashing_file_printed_is_kept(outcomes: dict[str, ParsedFile]) -> None:
    traceback = error_of(outcomes["segfault.py"]).traceback

    assert traceback is not None
    assert "so far so good" in traceback
    assert "aiosched/parsing" not in traceback


@pytest.mark.slow
async def test_a_printing_storm_is_capped(tmp_path: Path) -> None:
    storm = "for n in range(1_000_000):\n    print('line', n)\nraise ValueError('after the storm')"
    settings = settings_for(tmp_path, import_timeout=60, file_timeout=90)

    (outcome,) = await check_paths([write(tmp_path, "storm.py", storm)], settings)
    traceback = error_of(outcome).traceback

    assert error_of(outcome).message == "after the storm"
    assert traceback is not None
    assert len(traceback) < 20_000
    assert "line 0\n" in traceback
    assert "line 999999" in traceback
    assert "bytes more were dropped" in traceback


def test_a_file_that_hangs_says_where(outcomes: dict[str, ParsedFile]) -> None:
    error = error_of(outcomes["stubborn.py"])

    assert error.code_frame is not None
    assert "time.sleep(600)" in error.code_frame
    assert "still here" in (error.traceback or "")


@pytest.mark.parametrize("kind", ["child", "daemon"])
def test_processes_that_a_file_leaves_behind_are_killed(
    outcomes: dict[str, ParsedFile], folder: Path, kind: str
) -> None:
    assert outcomes[f"leaves_{kind}.py"].error is None

    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / kind).read_text()), 0)


def test_the_time_limits_free_the_place_at_once(outcomes: dict[str, ParsedFile]) -> None:
    """Nobody waits for the limit that comes after, nor for what a file leaves behind (ten minutes)."""
    assert IMPORT_TIMEOUT <= outcomes["loop.py"].seconds < PLENTY
    assert FILE_TIMEOUT <= outcomes["stubborn.py"].seconds < PLENTY
    assert outcomes["leaves_child.py"].seconds < PLENTY


def test_the_imports_of_a_file_are_known(outcomes: dict[str, ParsedFile]) -> None:
    assert (outcomes["nested/deep.py"].sources or {}).keys() == {"nested/deep.py", "helper.py"}
    assert (outcomes["bundle.zip/zipped.py"].sources or {}).keys() == {"bundle.zip"}
    assert (outcomes["helper_user.py"].sources or {}).keys() == {"helper_user.py", "broken_helper.py"}
    for name in ("syntax.py", "helper_user.py"):  # what was read is known of a file with an error, too
        assert (outcomes[name].sources or {})[name] == outcomes[name].digest
    assert outcomes["os_exit.py"].sources is None


def test_the_source_is_kept_with_the_outcome(outcomes: dict[str, ParsedFile]) -> None:
    assert "EmptyOperator(task_id='t1')" in (outcomes["fine.py"].source or "")
    assert (outcomes["bundle.zip/zipped.py"].source or "").startswith("import inside")
    assert r"'\xe9'" in (outcomes["latin.py"].source or "")


async def test_two_parses_give_the_same_hash(folder: Path, outcomes: dict[str, ParsedFile]) -> None:
    names = ["fine.py", "ten_thousand.py", "nested/deep.py"]

    settings = settings_for(folder, import_timeout=PLENTY, file_timeout=PLENTY)
    again = await check_paths([folder / name for name in names], settings)

    assert [[d.content_hash for d in r.dags] for r in again] == [
        [d.content_hash for d in outcomes[r.name].dags] for r in again
    ]
    assert sorted(r.name for r in again) == sorted(names)
