"""What an attempt changes in the process of its worker does not reach the next attempt, and its log says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.executors.local.executor import LocalExecutor
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, write_dag
from tests.patience import until

IMPORTS: Final = (
    "import asyncio, builtins, contextvars, datetime as dt, decimal, gc, json, locale, logging, logging.config, "
    "resource, signal, socket, sys, threading, time, warnings"
)
FOREVER: Final = "threading.Event().wait"
DROP_RIGHTS: Final = """
def drop_rights():  # CAP_SYS_RESOURCE, with which root raises a hard limit again
    import ctypes
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, data) == 0
    data[0] &= ~(1 << 24)
    data[1] &= ~(1 << 24)
    assert libc.capset(header, data) == 0
"""


class Leftover(NamedTuple):
    """`leave` is what a task does, `look` what the next one sees; `name` how the log calls it."""

    leave: str
    look: str
    name: str


PUT_BACK: Final = {
    "builtins": Leftover("builtins.open = None", "open", "builtins.open"),
    "builtins deleted": Leftover("del builtins.sorted", "sorted", "builtins.sorted"),
    "timer": Leftover(
        "signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 100)",
        "signal.getitimer(signal.ITIMER_REAL)", "an interval timer; the handler of SIGALRM",
    ),
    "profiling timer": Leftover(
        "signal.setitimer(signal.ITIMER_PROF, 100)", "signal.getitimer(signal.ITIMER_PROF)", "an interval timer"
    ),
    "handler": Leftover(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "signal.getsignal(signal.SIGTERM)", "the handler of SIGTERM"
    ),
    "other handler": Leftover(
        "signal.signal(signal.SIGUSR1, print)", "signal.getsignal(signal.SIGUSR1)", "the handler of SIGUSR1"
    ),
    "mask": Leftover(
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [])", "the signal mask",
    ),
    "module replaced": Leftover("sys.modules['json'] = None", "__import__('json').loads", "the module json"),
    "module removed": Leftover("del sys.modules['json']", "sys.modules['json'] is json", "the module json"),
    "stream": Leftover("sys.stdout = open(os.devnull, 'w')", "type(sys.stdout).__name__", "sys.stdout"),
    "stdin": Leftover("sys.stdin = None", "sys.stdin", "sys.stdin"),
    "hook": Leftover("sys.excepthook = None", "sys.excepthook", "sys.excepthook"),
    "thread's hook": Leftover("threading.excepthook = None", "threading.excepthook", "threading.excepthook"),
    "trace": Leftover("sys.settrace(lambda *_: None)", "sys.gettrace()", "sys.settrace"),
    "profile": Leftover("sys.setprofile(lambda *_: None)", "sys.getprofile()", "sys.setprofile"),
    "recursion": Leftover("sys.setrecursionlimit(900)", "sys.getrecursionlimit()", "the recursion limit"),
    "path": Leftover("sys.path.insert(0, '/nowhere')", "sys.path", "sys.path"),
    "path replaced": Leftover("sys.path = []", "sys.path", "sys.path"),
    "argv": Leftover("sys.argv = ['x']", "sys.argv", "sys.argv"),
    "importers": Leftover("sys.meta_path.clear()", "len(sys.meta_path)", "sys.meta_path"),
    "folder": Leftover("os.chdir('/')", "os.getcwd()", "the working directory (/)"),
    "environment": Leftover("os.environ['LEFT'] = '1'", "os.environ.get('LEFT')", "the environment variable LEFT"),
    "time zone": Leftover(
        "os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()", "time.tzname", "the environment variable TZ; the time zone"
    ),
    "umask": Leftover("os.umask(0o777)", "os.umask(0o022)", "the umask (777)"),
    "soft limit": Leftover(
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
        "resource.getrlimit(resource.RLIMIT_NOFILE)", "the limit RLIMIT_NOFILE",
    ),
    "locale": Leftover("locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "locale.setlocale(locale.LC_ALL)", "the locale"),
    "decimal": Leftover("decimal.getcontext().prec = 3", "decimal.getcontext().prec", "the decimal context"),
    "decimal trap": Leftover(
        "decimal.getcontext().traps[decimal.Inexact] = True", "decimal.Decimal(1) / 3", "the decimal context"
    ),
    "warnings": Leftover("warnings.simplefilter('error')", "warnings.warn('w')", "the warnings filters"),
    "log level": Leftover(
        "logging.getLogger().setLevel('CRITICAL')", "logging.getLogger().level", "the configuration of logging"
    ),
    "log configuration": Leftover(
        "logging.config.dictConfig({'version': 1})", "logging.getLogger('aiosched.task').disabled",
        "the configuration of logging",
    ),
    "logging disabled": Leftover(
        "logging.disable()", "logging.getLogger().isEnabledFor(logging.ERROR)", "the configuration of logging"
    ),
    "garbage": Leftover("gc.disable()", "gc.isenabled()", "gc.disable"),
    "sockets": Leftover("socket.setdefaulttimeout(1)", "socket.getdefaulttimeout()", "the default timeout of sockets"),
}  # fmt: skip

OWN_OF_COROUTINES: Final = {"decimal", "decimal trap"}  # each has a decimal context of its own

REPLACES: Final = {
    "hard limit": Leftover(
        "drop_rights(); resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))",
        "resource.getrlimit(resource.RLIMIT_NOFILE)", "the limit RLIMIT_NOFILE",
    ),
    "thread": Leftover(
        f"threading.Thread(target={FOREVER}, name='left', daemon=True).start()",
        "[one.name for one in threading.enumerate() if one.name == 'left']", "the thread 'left'",  # others come and go
    ),
    "function": Leftover("time.sleep = None", "time.sleep", "time.sleep"),
    "class": Leftover("dt.datetime = None", "dt.datetime.min", "datetime.datetime"),
}  # fmt: skip

SILENT: Final = {
    "import": "import colorsys",
    "new builtin": "builtins.invented = 1",
    "thread that ends": "t = threading.Thread(target=int); t.start(); t.join()",
    "new importer": "sys.meta_path.append(type('Importer', (), {'find_spec': lambda *_: None}))",
    "everything put back by itself": "x = sys.path; sys.path = []; sys.path = x",
}


def write_tasks(dags_folder: Path, leftovers: Mapping[str, tuple[str, str]], *, is_async: bool = False) -> None:
    """A pair of tasks for each leftover: `leave` and `look`, with its name."""
    define = "async def" if is_async else "def"
    lines = [IMPORTS, DROP_RIGHTS]
    for number, (leave, look) in enumerate(leftovers.values()):
        lines.append(f"{define} leave{number}(): {leave}")
        lines.append(f"{define} look{number}(ti=None): ti.xcom_push(key='seen', value=repr((os.getpid(), {look})))")
        lines.append(f"task(leave{number}), task(look{number})")
    write_dag(dags_folder, "\n".join(lines))


async def seen_and_told(
    executor: LocalExecutor, reports: Reports, logs_folder: Path, number: int, *, is_async: bool
) -> tuple[str, str, str]:
    """What is seen before and after a leftover, with the process, and the log of the attempt that left it."""
    look, leave, again = (
        attempt(f"{name}{number}", is_async=is_async, number=3 * number + position)
        for position, name in enumerate(("look", "leave", "look"))
    )
    seen = []
    for one in (look, leave, again):
        executor.submit([one])
        report = await reports.of(one)
        assert report.outcome is Outcome.SUCCESS, report.reason
        seen += [str(xcom.value) for xcom in report.xcoms]
    path = log_path(logs_folder, leave)
    return seen[0], seen[1], path.read_text() if path.exists() else ""


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_what_can_be_put_back_is_put_back(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, is_async: bool
) -> None:
    leftovers = {name: one for name, one in PUT_BACK.items() if not (is_async and name in OWN_OF_COROUTINES)}
    write_tasks(dags_folder, {name: one[:2] for name, one in leftovers.items()}, is_async=is_async)
    executor = await start_local(slots=1, async_workers=1)

    found = [
        await seen_and_told(executor, reports, logs_folder, number, is_async=is_async)
        for number in range(len(leftovers))
    ]

    for (name, leftover), (before, after, told) in zip(leftovers.items(), found, strict=True):
        assert after == before, name  # in the same process
        assert f"INFO  aiosched  changed and restored: {leftover.name}\n" in told, name


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_what_cannot_be_put_back_replaces_the_worker(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, is_async: bool
) -> None:
    write_tasks(dags_folder, {name: one[:2] for name, one in REPLACES.items()}, is_async=is_async)
    executor = await start_local(slots=1, async_workers=1)

    found = [
        await seen_and_told(executor, reports, logs_folder, number, is_async=is_async)
        for number in range(len(REPLACES))
    ]

    for (name, leftover), (before, after, told) in zip(REPLACES.items(), found, strict=True):
        assert process(after) != process(before), name
        assert after.split(", ", 1)[1] == before.split(", ", 1)[1], name
        assert f"WARNING aiosched  changed permanently: {leftover.name}; the worker process is replaced" in told, name


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
async def test_what_harms_nobody_is_no_leftover(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, is_async: bool
) -> None:
    write_tasks(dags_folder, {name: (leave, "None") for name, leave in SILENT.items()}, is_async=is_async)
    executor = await start_local(slots=1, async_workers=1)

    found = [
        await seen_and_told(executor, reports, logs_folder, number, is_async=is_async) for number in range(len(SILENT))
    ]

    assert [told for _, _, told in found] == [""] * len(SILENT)
    assert len({process(seen) for before, after, _ in found for seen in (before, after)}) == 1


def process(seen: str) -> str:
    return seen.split(", ", 1)[0]


async def test_a_context_variable_that_a_task_sets_is_its_own(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    leave = "global variable; variable = contextvars.ContextVar('left', default='clean'); variable.set('dirty')"
    look = "globals()['variable'].get() if 'variable' in globals() else 'clean'"
    write_tasks(dags_folder, {"variable": (leave, look)})
    executor = await start_local(slots=1)

    before, after, told = await seen_and_told(executor, reports, logs_folder, 0, is_async=False)

    assert after == before
    assert told == ""


async def test_what_the_import_of_a_dag_file_sets_stays_for_all_its_attempts(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = f"""
    {IMPORTS}
    os.environ["SET_BY_FILE"] = "1"
    socket.setdefaulttimeout(77)
    threading.Thread(target={FOREVER}, name="of the file", daemon=True).start()
    def seen(): return [os.getpid(), os.environ["SET_BY_FILE"], socket.getdefaulttimeout()]
    def look(ti=None): ti.xcom_push(key="seen", value=seen())
    task(look)
    """
    write_dag(dags_folder, body)
    executor = await start_local(slots=1)
    looks = [attempt("look", number=number) for number in range(3)]

    executor.submit(looks)

    seen = [(await reports.of(look)).xcoms[0].value for look in looks]
    assert len(set(seen)) == 1, seen
    assert '"1",77.0' in seen[0]
    assert not any(log_path(logs_folder, look).exists() for look in looks)


async def test_what_a_coroutine_changes_while_others_run_is_looked_at_when_they_have_ended(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    body = f"""
    {IMPORTS}
    async def wait():
        while not os.path.exists({str(tmp_path / "go")!r}): await asyncio.sleep(0.01)
    async def leave(): builtins.sorted = None
    async def look(ti=None): ti.xcom_push(key="seen", value=repr((os.getpid(), sorted)))
    task(wait), task(leave), task(look)
    """
    write_dag(dags_folder, body)
    executor = await start_local(async_workers=1)
    wait, leave, during, after = (
        attempt(name, is_async=True, number=n) for n, name in enumerate(("wait", "leave", "look", "look"))
    )
    executor.submit([wait, leave])
    await reports.of(leave)
    executor.submit([during])
    assert "None" in str((await reports.of(during)).xcoms[0].value), "wait may count on it"
    (tmp_path / "go").touch()
    await reports.of(wait)

    executor.submit([after])

    assert "built-in function sorted" in str((await reports.of(after)).xcoms[0].value)
    assert "changed and restored: builtins.sorted" in log_path(logs_folder, leave).read_text()


async def test_a_worker_that_never_rests_is_replaced_when_only_later_attempts_run_in_it(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    body = f"""
    {IMPORTS}
    async def wait(number, ti=None):
        open({str(tmp_path)!r} + f"/began{{number}}", "w").write(str(os.getpid()))
        while not os.path.exists({str(tmp_path)!r} + f"/go{{number}}"): await asyncio.sleep(0.01)
    async def leave(): sys.settrace(lambda *_: None)
    async def look(ti=None): ti.xcom_push(key="seen", value=os.getpid())
    task(leave), task(look)
    for number in range(2): PythonOperator(task_id=f"wait{{number}}", python_callable=wait, op_args=[number])
    """
    write_dag(dags_folder, body)
    executor = await start_local(async_workers=1)
    names = ("wait0", "leave", "wait1", "look")
    first, leave, second, look = (attempt(name, is_async=True, number=n) for n, name in enumerate(names))
    executor.submit([first, leave])
    await reports.of(leave)
    executor.submit([second])
    await until((tmp_path / "began1").exists)
    (tmp_path / "go0").touch()
    await reports.of(first)

    executor.submit([look])

    assert (await reports.of(look)).xcoms[0].value != (tmp_path / "began1").read_text()
    assert "WARNING aiosched  changed: sys.settrace, by this attempt or one that ran beside it" in (
        log_path(logs_folder, leave).read_text()
    )
    (tmp_path / "go1").touch()
    assert (await reports.of(second)).outcome is Outcome.SUCCESS
