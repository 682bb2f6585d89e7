"""What a task's child processes and C code wrote to descriptors 1 and 2 is in its log, also if its worker died."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.core.values.messages import Attempt, Outcome
from aiosched.executors.worker.direct_output import LAST, DirectOutput
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag


class Stored(FakeServices):
    """A scheduler that knows a connection, and a variable that is a secret for each of its many lines."""

    async def call(self, run: int, name: str, args: str) -> str:
        asked = json.loads(args)["get"]
        lines = "\n".join(f"the line {number} of a secret" for number in range(10_000))
        value = lines if asked == "many_tokens" else {"conn_type": "postgres", "host": "db", "password": "hunter2"}
        return json.dumps({"value": value})


@pytest.fixture
def services() -> Stored:
    return Stored()


def log_of(logs_folder: Path, one: Attempt) -> str:
    return log_path(logs_folder, one).read_bytes().decode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV"),
        ("os.abort()", "was killed by SIGABRT"),
        ("os._exit(1)", "ended with exit code 1"),
    ],
)
async def test_what_was_written_before_a_worker_died_is_in_the_log_before_the_reason(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, end: str, reason: str
) -> None:
    body = f"""
    def first(): os.system("echo by the first")
    def dies():
        os.write(2, b"last words, \\xff\\n")
        os.system("echo more")
        {end}
    task(first), task(dies)
    """
    write_dag(dags_folder, body)
    first, dies, after = attempt("first", number=1), attempt("dies", number=2), attempt("first", number=3)
    executor = await start_local(slots=1)

    executor.submit([first, dies, after])

    assert (await reports.of(dies)).outcome is Outcome.FAILED
    *said, last = log_of(logs_folder, dies).splitlines()
    assert said == ["last words, \\xff", "more"]
    assert last.endswith(f"ERROR aiosched  the worker process {reason}")
    await reports.of(after)
    assert [log_of(logs_folder, one) for one in (first, after)] == ["by the first\n"] * 2


async def test_secrets_are_hidden_in_what_a_dead_worker_wrote(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    from aiosched import Connection
    def dies():
        password = Connection.get("sales").password
        os.write(1, b"the password is " + password.encode() + b"\\n")
        subprocess.run(["echo", "child", password])
        os.kill(os.getpid(), 9)
    task(dies)
    """
    write_dag(dags_folder, body)
    dies = attempt("dies")
    executor = await start_local()

    executor.submit([dies])

    await reports.of(dies)
    assert log_of(logs_folder, dies).startswith("the password is ***\nchild ***\n")


@pytest.mark.parametrize(
    "text",
    [
        "Variable.get('many_tokens').encode()[:100]",  # they are too many to remember
        "b'x' * 100 if os.fork() else os._exit(secrets.register('hunter2') or 0)",  # a child has read one
    ],
)
async def test_what_a_dead_worker_wrote_is_not_shown_if_not_all_its_secrets_are_known(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, text: str
) -> None:
    body = f"""
    from aiosched import Variable
    from aiosched.core.values.masking import secrets
    def dies():
        text = {text}
        with __import__("contextlib").suppress(ChildProcessError): os.wait()
        os.write(1, text)
        os.kill(os.getpid(), 9)
    task(dies)
    """
    write_dag(dags_folder, body)
    dies = attempt("dies")
    executor = await start_local()

    executor.submit([dies])

    await reports.of(dies)
    left_out, killed = log_of(logs_folder, dies).splitlines()
    assert left_out == "... 100 bytes are not shown: they may hold secrets"
    assert killed.endswith("was killed by SIGKILL")


# ---- the shared output itself ----


@pytest.fixture
def output() -> Iterator[DirectOutput]:
    output = DirectOutput()
    yield output
    output.close()


def test_only_the_last_lines_of_much_output_are_kept(output: DirectOutput) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(100_000))
    os.write(output.descriptor, lines)

    notice, _, kept = output.rest().partition(b"\n")

    assert LAST - 20 < len(kept) <= LAST
    assert lines.endswith(b"\n" + kept)
    assert notice == f"... {len(lines) - len(kept):,} bytes are left out".encode()


@pytest.mark.parametrize("cut", range(1, 15))
def test_no_part_of_a_secret_is_left_where_much_output_is_cut(output: DirectOutput, cut: int) -> None:
    output.remember(["hunter2hunter2"])
    os.write(output.descriptor, b"x" * 1000 + b"hunter2hunter2" + b"y" * (LAST - cut))

    kept = output.rest().partition(b"\n")[2]

    assert set(kept) == set(b"y")
    assert len(kept) >= LAST - 100


def test_all_words_that_the_worker_knows_are_hidden(output: DirectOutput) -> None:
    output.remember(["hunter2", "\ud800 odd"])
    output.remember(["größe"])
    os.write(output.descriptor, "hunter2, größe \udcff".encode("utf-8", "surrogateescape"))

    assert output.rest() == b"***, *** \xff"


def test_threads_that_read_secrets_at_once_lose_none(output: DirectOutput) -> None:
    together = threading.Barrier(8)

    def read(number: int) -> None:
        together.wait()
        for index in range(20):
            output.remember([f"secret-{number}-{index}-end"])

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(output.descriptor, b"\n".join(b"secret-%d-%d-end" % (n, i) for n in range(8) for i in range(20)))

    assert set(output.rest().splitlines()) == {b"***"}


NOT_SHOWN = b"... 7 bytes are not shown: they may hold secrets\n"


@pytest.mark.parametrize(
    "written", [b"\xff\xff\xff\xff", b"\x09\0\0\0\0\xff", b"\x03\0\0\0\0[1]", b'\x05\0\0\0\0["*"]']
)
def test_nothing_is_shown_if_the_secrets_are_being_written_or_were_overwritten(
    output: DirectOutput, written: bytes
) -> None:
    os.write(output.descriptor, b"hunter2")
    output.remember(["hunter2"])
    output.secrets[: len(written)] = written

    assert output.rest() == NOT_SHOWN


def test_nothing_is_shown_if_a_forked_process_has_read_secrets(output: DirectOutput) -> None:
    os.write(output.descriptor, b"hunter2")
    if (pid := os.fork()) == 0:
        output.distrust(["hunter2"])
        os._exit(0)
    os.waitpid(pid, 0)
    output.remember(["other"])

    assert output.rest() == NOT_SHOWN


def test_nothing_was_written(output: DirectOutput) -> None:
    assert output.rest() == b""
