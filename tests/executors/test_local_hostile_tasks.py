"""What becomes of attempts that misbehave in a worker process. Real processes, small limits.

Source: the semantics reference, sections 21.2 and 21.3.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, running, write_dag
from tests.patience import until


def log_of(logs_folder: Path, one: object) -> str:
    return log_path(logs_folder, one).read_text()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('bad')", "ValueError: bad"),
        ("sys.exit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("os._exit(3)", "the worker process ended with exit code 3"),
        ("os._exit(0)", "the worker process ended with exit code 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the worker process was killed by SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "the worker process was killed by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", "got SIGTERM from outside"),
        ("return {'a': [object()]}", "UnusableResult: return_value['a'][0] is an object, which JSON cannot hold"),
        ("return 'x' * 100_000_000", "UnusableResult: The XCom 'return_value' has 100,000,002 bytes, the limit is"),
    ],
)  # fmt: skip
async def test_a_plain_function_that_fails_in_any_way_is_a_failure_that_may_be_retried(
    start_local: StartLocal, dags_folder: Path, reports: Reports, body: str, reason: str
) -> None:
    write_dag(dags_folder, f"def bad():\n    {body}\ndef good(): return 1\ntask(bad), task(good)")
    executor = await start_local(slots=1)
    bad, good = attempt("bad", number=1), attempt("good", number=2)

    executor.submit([bad, good])

    report = await reports.of(bad)
    assert report.outcome is Outcome.FAILED
    assert report.reason is not None
    assert report.reason.startswith(reason)
    assert not report.fail_now
    assert (await reports.of(good)).outcome is Outcome.SUCCESS


async def test_a_silent_function_that_sigterm_ends_says_so_in_its_log(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def quiet():\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(1000)\ntask(quiet)")
    executor = await start_local()
    quiet = attempt("quiet")

    executor.submit([quiet])

    assert (await reports.of(quiet)).reason == "got SIGTERM from outside"
    assert log_of(logs_folder, quiet).endswith("WARNING aiosched  the attempt was told to stop by SIGTERM\n")


@pytest.mark.parametrize("make", ["os.mkfifo({0})", "os.symlink({0} + '.out', {0})", "os.mkdir({0})"])
async def test_what_a_task_puts_in_place_of_its_log_stops_nobody(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, make: str
) -> None:
    """The scheduler writes the last line of a log whose process is gone: it would wait for the reader of a FIFO."""
    bad, good = attempt("bad", number=1), attempt("good", number=2)
    path = log_path(logs_folder, bad)
    body = f"print('begins')\n    os.remove({str(path)!r})\n    {make.format(repr(str(path)))}\n    os._exit(3)"
    write_dag(dags_folder, f"def bad():\n    {body}\ndef good(): return 1\ntask(bad), task(good)")
    executor = await start_local(slots=1)

    executor.submit([bad, good])

    assert (await reports.of(bad)).reason == "the worker process ended with exit code 3"
    assert (await reports.of(good)).outcome is Outcome.SUCCESS
    assert not path.with_suffix(".log.out").exists()


async def test_a_traceback_shows_the_users_frames_alone(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def helper(): raise ValueError('bad')\ndef bad(): helper()\ntask(bad)")
    executor = await start_local()
    bad = attempt("bad")

    executor.submit([bad])

    report = await reports.of(bad)
    assert re.findall(r"in (\w+)", report.details or "") == ["bad", "helper"]
    assert "ValueError: bad" in log_of(logs_folder, bad)


async def test_execution_timeout_ends_a_function_that_blocks_for_ever(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    class Slow(BaseOperator):
        def execute(self, context): time.sleep(1000)
        def on_kill(self): print("killed")
    Slow(task_id="slow")
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    slow = attempt("slow", timeout=0.1)

    executor.submit([slow])

    report = await reports.of(slow)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "ran longer than its execution_timeout of 0.1 s")
    assert "killed" in log_of(logs_folder, slow)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    "body",
    [
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM}); time.sleep(1000)",
        "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGALRM, signal.SIGTERM)]; time.sleep(1000)",
    ],
)
async def test_a_function_that_ignores_timeout_and_term_is_killed(
    start_local: StartLocal, dags_folder: Path, reports: Reports, body: str
) -> None:
    write_dag(dags_folder, f"def deaf():\n    {body}\ndef good(): pass\ntask(deaf), task(good)")
    executor = await start_local(slots=1)
    deaf, good = attempt("deaf", timeout=0.1, number=1), attempt("good", number=2)

    executor.submit([deaf, good])

    report = await reports.of(deaf)
    assert report.outcome is Outcome.FAILED
    assert report.reason == "ran longer than its execution_timeout of 0.1 s, and its process was killed"
    assert (await reports.of(good)).outcome is Outcome.SUCCESS


async def test_cancel_lets_finally_blocks_and_on_kill_run_and_takes_the_children_along(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    body = f"""
    class Long(BaseOperator):
        def execute(self, context):
            child = subprocess.Popen(["sleep", "1000"])
            try:
                open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
                print("working")
                os.kill(os.getppid(), 0)
                time.sleep(1000)
            finally:
                print("finally")
        def on_kill(self): print("on_kill")
    Long(task_id="long")
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    long = attempt("long")
    executor.submit([long])
    await reports.of(long, outcome=Outcome.STARTED)
    await until(log_path(logs_folder, long).exists)

    await executor.cancel(long.key, 5)

    report = await reports.of(long)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "was stopped on request")
    text = log_of(logs_folder, long)
    assert text.index("finally") < text.index("on_kill")
    child = int((tmp_path / "pid").read_text())
    await until(lambda: not running(child))


async def test_cancel_kills_a_function_that_ignores_term(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    def deaf():
        print("deaf")
        while True:
            try: time.sleep(1000)
            except BaseException: pass
    task(deaf)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    deaf = attempt("deaf")
    executor.submit([deaf])
    await until(log_path(logs_folder, deaf).exists)

    await executor.cancel(deaf.key, 0.1)

    report = await reports.of(deaf)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "was stopped on request, and its process was killed")


async def test_cancelling_what_has_not_begun_takes_it_out_of_the_line(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def slow(): time.sleep(1000)\ntask(slow)")
    executor = await start_local(slots=1)
    first, second = attempt("slow", number=1), attempt("slow", number=2)
    executor.submit([first, second])

    await executor.cancel(second.key, 5)

    report = await reports.of(second)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "was stopped on request, before it began")


async def test_a_child_that_stays_is_ended_with_its_worker(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    body = """
    def leaves():
        return subprocess.Popen(["sleep", "1000"]).pid
    def forks():
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        return pid
    task(leaves), task(forks)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    leaves, forks = attempt("leaves", number=1), attempt("forks", number=2)

    executor.submit([leaves, forks])

    for one in (leaves, forks):
        report = await reports.of(one)
        assert report.outcome is Outcome.SUCCESS
        child = json.loads(report.xcoms[0].value)
        await until(lambda child=child: not running(child))


async def test_a_forked_child_that_returns_from_the_task_does_not_become_a_second_worker(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def forks(): return 0 if os.fork() else 1\ntask(forks)")
    executor = await start_local()
    forks, again = attempt("forks", number=1), attempt("forks", number=2)

    executor.submit([forks])
    first = await reports.of(forks)
    executor.submit([again])
    await reports.of(again)

    assert first.xcoms[0].value == "0"
    assert len(reports.final) == 2


@pytest.mark.parametrize(
    "fork",
    [
        *(
            pytest.param(f"if os.fork() == 0: {end}", id=end)
            for end in ("return 1", "await asyncio.sleep(60)", "raise ValueError", "raise SystemExit")
        ),
        pytest.param("await (await asyncio.create_subprocess_exec('true')).wait()", id="a program"),
        pytest.param("await (await asyncio.create_subprocess_shell('true')).wait()", id="a shell"),
        pytest.param("subprocess.run(['true'], preexec_fn=lambda: None)", id="a function before a program"),
    ],
)
async def test_a_child_that_an_async_task_forks_does_nothing_of_the_others(
    start_local: StartLocal, dags_folder: Path, tmp_path: Path, reports: Reports, fork: str
) -> None:
    steps = tmp_path / "steps"
    body = f"""
    async def forks():
        await asyncio.sleep(0.05)
        {fork}
    def step():
        with open({str(steps)!r}, "a") as file:
            file.write(f"{{os.getpid()}}\\n")
    async def beside():
        try:
            for _ in range(20):
                step()
                await asyncio.sleep(0.01)
        finally:
            step()
    task(forks), task(beside)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    forks, beside = attempt("forks", number=1, is_async=True), attempt("beside", number=2, is_async=True)

    executor.submit([forks, beside])

    assert [(await reports.of(one)).outcome for one in (forks, beside)] == [Outcome.SUCCESS] * 2
    assert len(reports.final) == 2
    pids = steps.read_text().split()
    assert (len(pids), len(set(pids))) == (21, 1)


@pytest.mark.parametrize("end", ["return 1", "await asyncio.sleep(60)", "raise ValueError", "await reader.read(1)"])
async def test_a_child_that_an_async_task_forks_reads_nothing_that_its_worker_waits_for(
    start_local: StartLocal, dags_folder: Path, reports: Reports, end: str
) -> None:
    body = f"""
    import socket
    async def forks():
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        theirs.send(b"1")
        first = await reader.read(1)
        theirs.send(b"2")
        asyncio.get_running_loop().call_soon_threadsafe(int)
        if (child := os.fork()) == 0: {end}
        os.waitpid(child, 0)
        second = await reader.read(1)
        writer.close()
        return (first + second).decode() + str(await asyncio.to_thread(int))
    task(forks)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    forks = attempt("forks", is_async=True)

    executor.submit([forks])

    assert (await reports.of(forks)).xcoms[0].value == '"120"'


@pytest.mark.parametrize("early", [False, True], ids=["a child that waits", "a child that has just been forked"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_a_child_that_a_task_forks_ends_when_the_task_terminates_it(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, is_async: bool, early: bool
) -> None:
    body = f"""
    import multiprocessing
    def wait(told):
        told.send("waits")
        signal.pause()
    {"async " if is_async else ""}def forks():
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=wait, args=(theirs,))
        child.start()
        {"" if early else "ours.recv()"}
        child.terminate()
        child.join()
        return child.exitcode
    task(forks)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    forks = attempt("forks", is_async=is_async)

    executor.submit([forks])

    assert (await reports.of(forks)).xcoms[0].value == "-15"
    assert not log_path(logs_folder, forks).exists()


@pytest.mark.parametrize(
    "do",
    [
        "await loop.shutdown_default_executor()",
        "pool = ThreadPoolExecutor(1); loop.set_default_executor(pool); pool.shutdown()",
        "loop.set_default_executor(ThreadPoolExecutor(1)); await loop.shutdown_default_executor()",
    ],
)
async def test_threads_that_an_async_task_shuts_down_are_not_those_of_the_others(
    start_local: StartLocal, dags_folder: Path, reports: Reports, do: str
) -> None:
    body = f"""
    from concurrent.futures import ThreadPoolExecutor
    async def bad():
        loop = asyncio.get_running_loop()
        {do}
        return await asyncio.to_thread(os.getpid)
    async def beside():
        await asyncio.sleep(0.1)
        return await asyncio.to_thread(os.getpid)
    task(bad), task(beside)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    together = attempt("bad", number=1, is_async=True), attempt("beside", number=2, is_async=True)
    later = attempt("beside", number=3, is_async=True)

    executor.submit(together)
    found = [await reports.of(one) for one in together]
    executor.submit([later])
    found.append(await reports.of(later))

    assert [one.outcome for one in found] == [Outcome.SUCCESS] * 3, [one.reason for one in found]
    assert len({one.xcoms[0].value for one in found}) == 1  # in one worker


async def test_an_async_task_sets_its_own_threads(start_local: StartLocal, dags_folder: Path, reports: Reports) -> None:
    body = """
    from concurrent.futures import ThreadPoolExecutor
    import threading
    async def sets():
        with ThreadPoolExecutor(1, "mine") as pool:
            asyncio.get_running_loop().set_default_executor(pool)
            return (await asyncio.create_task(asyncio.to_thread(threading.current_thread))).name
    task(sets)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    sets = attempt("sets", is_async=True)

    executor.submit([sets])

    assert json.loads((await reports.of(sets)).xcoms[0].value) == "mine_0"


async def test_what_an_async_task_sets_of_its_loop_is_put_back(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    async def sets():
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **more: 1 / 0)
        loop.set_exception_handler(print)
        loop.set_debug(True)
    async def look():
        loop = asyncio.get_running_loop()
        made = await asyncio.create_task(one())
        return [loop.get_task_factory(), loop.get_exception_handler(), loop.get_debug(), made]
    async def one(): return 1
    task(sets), task(look)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    sets, look = attempt("sets", number=1, is_async=True), attempt("look", number=2, is_async=True)

    executor.submit([sets])
    await reports.of(sets)
    executor.submit([look])

    assert json.loads((await reports.of(look)).xcoms[0].value) == [None, None, False, 1]
    assert "restored: the event loop's task factory" in log_of(logs_folder, sets)


async def test_a_warm_worker_is_as_new_for_the_next_attempt(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    body = f"""
    def messy():
        os.environ["MESS"] = "1"
        os.environ.pop("PATH")
        os.chdir({str(tmp_path)!r})
        os.umask(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdout = open(os.devnull, "w")
        os.close(1), os.close(2)
        return os.getpid()
    def look():
        print("seen")
        sys.stdout.flush()
        subprocess.run(["echo", "by a child"], check=True)
        umask = os.umask(0o22)
        handler = signal.getsignal(signal.SIGTERM)
        return [os.environ.get("MESS"), "PATH" in os.environ, os.getcwd(), umask, callable(handler), os.getpid()]
    task(messy), task(look)
    """
    write_dag(dags_folder, body)
    executor = await start_local(slots=1)
    before, messy, after = attempt("look", number=1), attempt("messy", number=2), attempt("look", number=3)

    executor.submit([before, messy, after])

    first, middle, second = [json.loads((await reports.of(one)).xcoms[0].value) for one in (before, messy, after)]
    assert middle == first[-1]  # the same process
    assert first == second
    for one in (before, after):
        assert re.search(r"stdout +seen\n", log_of(logs_folder, one))
        assert "by a child\n" in log_of(logs_folder, one)


async def test_a_flooding_task_is_cut_and_the_others_go_on(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    def flood():
        for _ in range(100_000): print("x" * 100)
    async def aflood():
        for _ in range(10_000): print("x" * 100)
    async def calm(): print("calm")
    task(flood), task(aflood), task(calm)
    """
    write_dag(dags_folder, body)
    executor = await start_local(max_log_bytes=10_000)
    floods = [attempt("flood", number=1), attempt("aflood", is_async=True, number=2)]
    calm = attempt("calm", is_async=True, number=3)

    executor.submit([*floods, calm])

    for one in floods:
        assert (await reports.of(one)).outcome is Outcome.SUCCESS
        text = log_of(logs_folder, one)
        assert len(text) < 10_200
        assert text.endswith("the log is full (core.max_log_bytes): the rest of this attempt's output is dropped\n")
    await reports.of(calm)
    assert "calm" in log_of(logs_folder, calm)


async def test_an_async_task_that_blocks_the_loop_is_killed_and_its_neighbours_are_lost(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    async def hog():
        print("on")
        time.sleep(1000)
    async def fine():
        print("on")
        await asyncio.sleep(1000)
    task(hog), task(fine)
    """
    write_dag(dags_folder, body)
    executor = await start_local(async_workers=1)
    fine, hog = attempt("fine", is_async=True, number=1), attempt("hog", is_async=True, number=2)
    for one in (fine, hog):
        executor.submit([one])
        await until(log_path(logs_folder, one).exists)

    await executor.cancel(hog.key, 0.1)

    killed, lost = await reports.of(hog), await reports.of(fine)
    assert (killed.outcome, killed.reason) == (
        Outcome.FAILED, "was stopped on request, and its process was killed",
    )  # fmt: skip
    assert lost.outcome is Outcome.LOST
    assert lost.reason == "the worker process was killed by SIGKILL, which ran 2 attempts at a time"
