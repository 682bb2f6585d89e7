"""The shared state of a worker's process: how each part is read, compared and restored.

Functions, modules and streams are compared by identity. Parts that take more than a microsecond to read are read in
their cheapest form, since all are read after every attempt (process_state.py). Decision 27 explains why imports and
tasks are treated differently.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # takes numbers; `signal` makes enums of them, ten times as slow
import asyncio
import builtins
import datetime
import decimal
import gc
import io
import json
import locale
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aiosched.executors.worker.process_state import CannotPutBack, ProcessPart

_SIGNALS: Final = sorted({int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP})
_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS: Final = {  # some have two names
    getattr(resource, name): name for name in sorted(dir(resource), reverse=True) if name.startswith("RLIMIT_")
}
_OUR_THREADS: Final = ("asyncio_", "uvloop_", "aiosched ", "fsspecIO")  # a loop's, and our own: they remain

# If one of these was replaced, other changes are unknown.
_FUNCTIONS: Final[tuple[tuple[Any, str], ...]] = (
    (os, "environ"), (os, "open"), (os, "getpid"), (os, "fork"), (io, "open"), (time, "time"), (time, "monotonic"),
    (time, "sleep"), (datetime, "datetime"), (datetime, "date"), (json, "dumps"), (json, "loads"), (socket, "socket"),
    (subprocess, "Popen"), (subprocess, "run"), (threading, "Thread"), (asyncio, "run"), (asyncio, "sleep"),
    (logging, "getLogger"), (logging.Logger, "handle"), (signal, "signal"),
)  # fmt: skip
_OWNERS, _ATTRIBUTES = zip(*_FUNCTIONS, strict=True)


def parts_of_this_process() -> tuple[ProcessPart, ...]:
    """All parts, in restore order: first those that can interrupt the restore."""
    return (
        ProcessPart(_read_timers, _named("an interval timer"), _stop_timers),
        ProcessPart(_read_handlers, _changed_handlers, _set_handlers),
        _setting(
            "the signal mask",
            lambda: _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            lambda was: _signal.pthread_sigmask(signal.SIG_SETMASK, was),
        ),
        ProcessPart(threading.enumerate, _left_threads, _cannot, is_set_by_imports=True),
        ProcessPart(_read_functions, _changed_functions, _set_functions),
        _names(vars(builtins), "builtins.{}"),
        _names(sys.modules, "the module {}"),
        *(_attribute(sys, name) for name in ("stdin", "stdout", "stderr")),
        *(_attribute(sys, name, imports=True) for name in ("excepthook", "displayhook", "unraisablehook")),
        _attribute(threading, "excepthook", imports=True),
        _setting("sys.settrace", sys.gettrace, sys.settrace),
        _setting("sys.setprofile", sys.getprofile, sys.setprofile),
        _setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, imports=True),
        _setting("the switch interval", sys.getswitchinterval, sys.setswitchinterval, imports=True),
        _list(sys, "path"),
        _list(sys, "argv"),
        _list(sys, "meta_path", may_grow=True),
        _list(sys, "path_hooks", may_grow=True),
        ProcessPart(_read_directory, _changed_directory, os.chdir),
        ProcessPart(raw_environment, _changed_environment, _set_environment, dict, True),
        _setting("the time zone", lambda: time.tzname, lambda _: time.tzset(), imports=True),
        _umask(),
        _limits(),
        _setting("the priority", lambda: os.getpriority(os.PRIO_PROCESS, 0), _set_priority),
        _setting(
            "the locale",
            lambda: locale.setlocale(locale.LC_ALL),
            lambda was: locale.setlocale(locale.LC_ALL, was),
            imports=True,
        ),
        _decimal_context(),
        ProcessPart(lambda: warnings.filters, _named("the warnings filters"), _set_filters, list, True),
        _attribute(warnings, "showwarning", imports=True),
        _logging(),
        _setting("gc.disable", gc.isenabled, lambda was: gc.enable() if was else gc.disable(), imports=True),
        _setting("gc.set_threshold", gc.get_threshold, lambda was: gc.set_threshold(*was), imports=True),
        _setting(
            "the default timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout, imports=True
        ),
    )  # fmt: skip


def raw_environment() -> dict[bytes, bytes]:
    """The mapping that os.environ wraps: comparing it is thirty times cheaper than decoding it after every attempt."""
    raw = getattr(os.environ, "_data", None)
    return raw if isinstance(raw, dict) else dict(os.environb)


# -- Kinds of things --------------------------------------------------------------------------------------


def _named(name: str) -> Callable[[Any, Any], str]:
    return lambda was, now: name


def _setting(name: str, read: Callable[[], Any], put: Callable[[Any], Any], *, imports: bool = False) -> ProcessPart:
    """A part that one function reads and another one sets."""
    return ProcessPart(read, _named(name), put, is_set_by_imports=imports)


def parts_of_loop(loop: asyncio.AbstractEventLoop) -> tuple[ProcessPart, ...]:
    """The parts of an event loop on which attempts run."""
    return (
        _setting("the event loop's task factory", loop.get_task_factory, loop.set_task_factory),
        _setting("the event loop's exception handler", loop.get_exception_handler, loop.set_exception_handler),
        _setting("the event loop's debug mode", loop.get_debug, loop.set_debug),
    )


def _attribute(owner: Any, attribute: str, *, imports: bool = False) -> ProcessPart:
    """An attribute of a module, which must be the same object."""
    return _setting(
        f"{owner.__name__}.{attribute}",
        lambda: getattr(owner, attribute),
        lambda was: setattr(owner, attribute, was),
        imports=imports,
    )


def _list(owner: Any, attribute: str, *, may_grow: bool = False) -> ProcessPart:
    """A list that is an attribute of a module; `may_grow`: libraries imported by a task can add entries."""
    name = f"{owner.__name__}.{attribute}"

    def changed(was: list[Any], now: Any) -> str:
        return "" if may_grow and isinstance(now, list) and all(entry in now for entry in was) else name

    return ProcessPart(
        lambda: getattr(owner, attribute), changed, lambda was: setattr(owner, attribute, list(was)), list, True
    )


def _names(place: dict[str, Any], form: str) -> ProcessPart:
    """A mapping of names, which must keep its values; new names are harmless."""
    was: dict[str, Any] = {}

    def differing() -> list[str]:
        return [name for name, value in was.items() if place.get(name, was) is not value]

    def keep(values: list[Any]) -> list[Any]:
        was.clear()
        was.update(place)
        return values

    return ProcessPart(
        lambda: list(place.values()),
        lambda _, now: _listed([form.format(name) for name in differing()]),
        lambda _: place.update({name: was[name] for name in differing()}),
        keep,
        is_set_by_imports=True,
    )


def _cannot(_: Any) -> None:
    raise CannotPutBack


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# -- Signals, timers, threads -------------------------------------------------------------------------------


def _read_timers() -> list[tuple[float, float]]:
    return [timer for timer in map(_signal.getitimer, _TIMERS) if timer[0]]


def _stop_timers(_: Any) -> None:
    for timer in _TIMERS:
        _signal.setitimer(timer, 0)


def _read_handlers() -> list[Any]:
    return list(map(_signal.getsignal, _SIGNALS))


def _changed_handlers(was: Sequence[Any], now: Sequence[Any]) -> str:
    changed = [number for number, old, new in zip(_SIGNALS, was, now, strict=True) if old is not new]
    return _listed([f"the handler of {_signal_name(number)}" for number in changed])


def _set_handlers(was: Sequence[Any]) -> None:
    for number, handler in zip(_SIGNALS, was, strict=True):
        if _signal.getsignal(number) is not handler:
            if handler is None:  # it was not set from Python
                raise CannotPutBack
            _signal.signal(number, handler)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _left_threads(was: Sequence[threading.Thread], now: Sequence[threading.Thread]) -> str:
    left = [thread for thread in now if thread not in was and not thread.name.startswith(_OUR_THREADS)]
    return _listed([f"the thread {thread.name!r}" for thread in left])


# -- Functions that all attempts use --------------------------------------------------------------------------


def _read_functions() -> tuple[Any, ...]:
    return tuple(map(getattr, _OWNERS, _ATTRIBUTES))


def _changed_functions(was: Sequence[Any], now: Sequence[Any]) -> str:
    changed = [place for place, old, new in zip(_FUNCTIONS, was, now, strict=True) if old is not new]
    return _listed([f"{owner.__name__}.{name}" for owner, name in changed])


def _set_functions(was: Sequence[Any]) -> None:
    for (owner, name), value in zip(_FUNCTIONS, was, strict=True):
        setattr(owner, name, value)
    raise CannotPutBack


# -- Files, environment, limits -----------------------------------------------------------------------------


def _read_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  three times cheaper
    except OSError:  # it was deleted
        return None


def _changed_directory(was: str, now: str | None) -> str:
    return f"the working directory ({now or 'a deleted folder'})"


def _changed_environment(was: Mapping[bytes, bytes], now: Mapping[bytes, bytes]) -> str:
    changed = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    return _listed([f"the environment variable {os.fsdecode(name)}" for name in changed])


def _set_environment(was: Mapping[bytes, bytes]) -> None:
    os.environ.clear()
    os.environb.update(was)


def _umask() -> ProcessPart:
    """Reading the umask sets it, so it is restored at once."""
    was = os.umask(0o022)
    os.umask(was)
    found = was

    def read() -> int:
        nonlocal found
        now = os.umask(was)
        if now != was:
            found = now
        return found

    def put_back(_: int) -> None:
        nonlocal found
        found = was

    return ProcessPart(read, lambda _, now: f"the umask ({now:03o})", put_back)


def _limits() -> ProcessPart:
    """Reading all limits takes ten microseconds, so they are only read after one was set."""
    are_known, known = False, tuple[tuple[int, int], ...]()

    def on_event(event: str, _: Any) -> None:
        nonlocal are_known
        if event in {"resource.setrlimit", "resource.prlimit"}:
            are_known = False

    def read() -> tuple[tuple[int, int], ...]:
        nonlocal are_known, known
        if not are_known:
            known, are_known = tuple(map(resource.getrlimit, _LIMITS)), True
        return known

    def changed(was: Sequence[Any], now: Sequence[Any]) -> str:
        limits = zip(_LIMITS.values(), was, now, strict=True)
        return _listed([f"the limit {name}" for name, old, new in limits if old != new])

    def put_back(was: Sequence[tuple[int, int]]) -> None:
        try:
            for limit, pair in zip(_LIMITS, was, strict=True):
                if resource.getrlimit(limit) != pair:
                    resource.setrlimit(limit, pair)
        except (ValueError, OSError):  # a hard limit was lowered
            raise CannotPutBack from None

    sys.addaudithook(on_event)
    return ProcessPart(read, changed, put_back)


def _set_priority(was: int) -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, was)
    except OSError:
        raise CannotPutBack from None


# -- Decimal, warnings, logging -------------------------------------------------------------------------------


def _decimal_context() -> ProcessPart:
    kept = decimal.getcontext().copy()

    def read() -> tuple[Any, ...]:
        c = decimal.getcontext()
        return (c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, c.traps)

    def keep(value: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal kept
        kept = decimal.getcontext().copy()  # its traps are part of it, and have the same lifetime
        return (*value[:-1], kept.traps)

    def put_back(_: Any) -> None:
        decimal.setcontext(kept.copy())

    return ProcessPart(read, _named("the decimal context"), put_back, keep, is_set_by_imports=True)


def _set_filters(was: Sequence[Any]) -> None:
    with warnings.catch_warnings():  # leaving the context makes the interpreter notice changed filters
        pass
    warnings.filters[:] = was  # type: ignore[index]


def _logging() -> ProcessPart:
    """Compares the root logger and the task logger; restores all loggers that existed."""
    task = logging.getLogger("aiosched.task")
    loggers: dict[logging.Logger, tuple[Any, ...]] = {}

    def read() -> tuple[Any, ...]:
        root = logging.root
        return (
            root.level, root.handlers, root.filters, root.disabled, root.manager.disable, logging.raiseExceptions,
            task.level, task.handlers, task.filters, task.disabled, task.propagate,
        )  # fmt: skip

    def keep(value: tuple[Any, ...]) -> tuple[Any, ...]:
        loggers.clear()
        for one in (logging.root, *logging.root.manager.loggerDict.values()):
            if isinstance(one, logging.Logger):
                loggers[one] = (one.level, list(one.handlers), list(one.filters), one.disabled, one.propagate)
        return tuple(list(one) if isinstance(one, list) else one for one in value)

    def put_back(was: tuple[Any, ...]) -> None:
        logging.disable(was[4])
        logging.raiseExceptions = was[5]
        for one, (level, handlers, filters, disabled, propagate) in loggers.items():
            one.setLevel(level)
            one.handlers[:], one.filters[:] = handlers, filters
            one.disabled, one.propagate = disabled, propagate

    return ProcessPart(read, _named("the configuration of logging"), put_back, keep, True)
