"""Tasks whose function runs with another Python interpreter.

Only the source of the function is copied, so it must import what it needs in its body. Arguments and result are JSON,
in which the types of Python itself keep their type (core/values/typed_json.py; the other interpreter has a small copy
of that), or pickles, also those of dill and cloudpickle.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote, urlsplit

from aiosched.authoring.base import checks
from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.python import PythonOperator, call_arguments, decide_branch, plain_source
from aiosched.authoring.operators.subprocesses import ProcessCommand, command_environment, command_folder, describe_code
from aiosched.authoring.operators.venvs import Environment, cache_folder, ensure
from aiosched.authoring.runtime.connections import Connection
from aiosched.authoring.triggers import encoding
from aiosched.core.values.typed_json import MARK, RESERVED
from aiosched.errors import AioschedError, CommandFailed, SkipTask
from aiosched.signatures import signature_of

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

_SCRIPT: Final = """\
from __future__ import annotations

{source}

def __main():
    import asyncio, base64, datetime, decimal, inspect, json, math, sys, uuid

    def zoned(value, found):
        if "zone" in found or "pendulum_zone" in found:
            import zoneinfo
            value = value.replace(tzinfo=zoneinfo.ZoneInfo(found.get("zone") or found["pendulum_zone"]))
        elif "offset_name" in found:
            value = value.replace(tzinfo=datetime.timezone(value.tzinfo.utcoffset(None), found["offset_name"]))
        return value.replace(fold=found.get("fold", 0))

    def moment(found):
        return zoned(datetime.datetime.fromisoformat(found["value"]), found)

    def instant(found):
        if {with_pendulum}:
            try:
                import pendulum
            except ImportError:
                return moment(found)
            return pendulum.instance(moment(found))
        return moment(found)

    readers = {{
        "int": lambda found: int(found["value"], 0),
        "float": lambda found: float(found["value"]),
        "dict": lambda found: dict(found["value"]),
        "tuple": lambda found: tuple(found["value"]),
        "set": lambda found: set(found["value"]),
        "frozenset": lambda found: frozenset(found["value"]),
        "datetime": moment,
        "pendulum.DateTime": instant,
        "date": lambda found: datetime.date.fromisoformat(found["value"]),
        "time": lambda found: zoned(datetime.time.fromisoformat(found["value"]), found),
        "timedelta": lambda found: datetime.timedelta(
            seconds=found["value"], microseconds=found.get("microseconds", 0)
        ),
        "decimal": lambda found: decimal.Decimal(found["value"]),
        "uuid": lambda found: uuid.UUID(found["value"]),
        "bytes": lambda found: base64.b64decode(found["value"]),
        "bytearray": lambda found: bytearray(base64.b64decode(found["value"])),
        "complex": lambda found: complex(*map(float, found["value"])),
        "range": lambda found: range(*found["value"]),
    }}

    def revived(found):
        return readers[found["{mark}"]](found) if "{mark}" in found else found

    def mark(kind, value, **more):
        return {{"{mark}": kind, "value": value, **more}}

    def clock(value):
        zone = value.tzinfo
        more = {{"fold": 1}} if value.fold else {{}}
        if type(zone) is datetime.timezone:
            name = zone.tzname(None)
            if name != datetime.timezone(zone.utcoffset(None)).tzname(None):
                more["offset_name"] = name
        if zone is None or type(zone) is datetime.timezone:
            return more
        if getattr(zone, "key", None) and type(zone).__module__ in ("zoneinfo", "backports.zoneinfo"):
            return dict(more, zone=zone.key)
        if type(zone).__module__.startswith("pendulum.") and type(zone).__name__ == "Timezone":
            return dict(more, pendulum_zone=zone.name)
        raise TypeError(f"the function returned a time in a {{type(zone).__name__}}, which cannot be given back")

    def plain(value):
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if -(2**63) <= value < 2**64 else mark("int", hex(value))
        if kind is float:
            return value if math.isfinite(value) else mark("float", repr(value))
        if kind is list:
            return [plain(item) for item in value]
        if kind is dict:
            if all(type(key) is str and key not in {reserved} for key in value):
                return {{key: plain(item) for key, item in value.items()}}
            return mark("dict", [[plain(key), plain(item)] for key, item in value.items()])
        if kind in (tuple, set, frozenset):
            return mark(kind.__name__, [plain(item) for item in value])
        if kind is datetime.datetime:
            return mark("datetime", value.isoformat(), **clock(value))
        if kind is datetime.time:
            return mark("time", value.isoformat(), **clock(value))
        if kind is datetime.date:
            return mark("date", value.isoformat())
        if kind is datetime.timedelta:
            return mark("timedelta", value.days * 86400 + value.seconds, microseconds=value.microseconds)
        if kind in (decimal.Decimal, uuid.UUID):
            return mark(kind.__name__.lower(), str(value))
        if kind in (bytes, bytearray):
            return mark(kind.__name__, base64.b64encode(value).decode())
        if kind is complex:
            return mark("complex", [repr(value.real), repr(value.imag)])
        if kind is range:
            return mark("range", [value.start, value.stop, value.step])
        if kind.__module__.startswith("pendulum.") and kind.__name__ == "DateTime":
            return mark("pendulum.DateTime", datetime.datetime.isoformat(value), **clock(value))
        raise TypeError(f"the function returned a {{type(value).__name__}}, which JSON cannot hold")

    with open(sys.argv[1], "rb") as file:
        given = {load}
    result = {name}(*given["args"], **given["kwargs"])
    if inspect.isawaitable(result):
        async def finish():
            return await result
        result = asyncio.run(finish())
    text = {dump}
    with open(sys.argv[2], "wb") as file:
        file.write(text)


if __name__ == "__main__":
    __main()
"""


_JSON: Final = ("json.load(file, object_hook=revived)", "json.dumps(plain(result), allow_nan=False).encode()")
_PICKLE: Final = ("__import__({name!r}).load(file)", "__import__({name!r}).dumps(result)")
_KINDS: Final = re.compile(rf'"{re.escape(MARK)}": ?"([^"]*)"')
_KNOWN: Final = frozenset(re.findall(r'^        "([\w.]+)": ', _SCRIPT, re.MULTILINE))  # its readers
SERIALIZERS: Final = ("json", "pickle", "dill", "cloudpickle")


class IsolatedPythonOperator(PythonOperator):
    """Calls a function with the interpreter that `interpreter` returns. Base class of the two below."""

    keeps_state: ClassVar[bool] = True

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        serializer: str = "json",
        string_args: Collection[str] | None = None,
        env_vars: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        skip_on_exit_code: int | Container[int] | None = None,
        expect_airflow: bool = True,
        expect_pendulum: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(python_callable=python_callable, **kwargs)
        self.serializer: str = checks.one_of("serializer", serializer, SERIALIZERS, self._origin)
        self.expect_airflow = expect_airflow
        self.expect_pendulum = expect_pendulum
        self.string_args: list[str] = list(string_args or ())
        self.env_vars: dict[str, str] = dict(env_vars or {})
        self.inherit_env = inherit_env
        self.skip_on_exit_code: Container[int] = (
            (skip_on_exit_code,) if isinstance(skip_on_exit_code, int) else skip_on_exit_code or ()
        )
        self._source = self._read_source()
        self._command: ProcessCommand | None = None

    @property
    def is_async(self) -> bool:
        """True: the worker only waits for the other interpreter."""
        return True

    async def interpreter(self, env: Mapping[str, str]) -> str:
        """The path of the interpreter. `env`: the environment of commands that are run to create it."""
        raise NotImplementedError

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """Run the function; raises SkipTask or CommandFailed, depending on its exit code."""
        given = self._function_arguments(context)
        env = command_environment(context, self.env_vars, inherit=self.inherit_env)
        python = await self.interpreter(env)
        library = None if self.serializer == "json" else self._library()
        load, dump = _JSON if library is None else (part.format(name=self.serializer) for part in _PICKLE)
        with command_folder() as folder:
            script, taken, result = (Path(folder, name) for name in ("script.py", "arguments", "result"))
            name = self.python_callable.__name__
            text = _SCRIPT.format(
                source=self._sources(),
                name=name,
                load=load,
                dump=dump,
                with_pendulum=self.expect_pendulum,
                mark=MARK,
                reserved=set(RESERVED),
            )
            script.write_text(text, encoding="utf-8")
            taken.write_bytes(library.dumps(given) if library else _dump(given, "arguments").encode())
            arguments = [python, str(script), str(taken), str(result)]
            self._command = ProcessCommand(arguments=arguments, env=env, log=self.log, cwd=folder)
            code, last = await self._command.run()
            if code in self.skip_on_exit_code:
                raise SkipTask(f"the function ended with exit code {code}, which means skip")
            if code != 0 or not result.exists():
                raise CommandFailed(f"The function of task {self.task_id!r} {describe_code(code)}. Last line: {last!r}")
            data = result.read_bytes()
        return self.conclude(library.loads(data) if library else encoding.load(data.decode()), context)

    def _library(self) -> Any:
        """The module that pickles; raises AioschedError if the worker does not have it."""
        try:
            return importlib.import_module(self.serializer)
        except ImportError:
            raise AioschedError(
                f"Task {self.task_id!r}: serializer={self.serializer!r} needs the package {self.serializer} in the "
                f"worker, too: `pip install {self.serializer}`."
            ) from None

    def on_kill(self) -> None:
        """Stop the function and everything it started."""
        if self._command is not None:
            self._command.stop()

    def _function_arguments(self, context: Context) -> dict[str, Any]:
        """The arguments for the function: its own, and those from the context that are plain data."""
        kwargs: dict[str, Any] = {}
        for name, value in call_arguments(self.python_callable, self.op_args, self.op_kwargs, context).items():
            if name not in self.op_kwargs:
                try:
                    _dump(value, name)
                except TypeError:
                    if name in signature_of(self.python_callable).parameters:
                        raise AioschedError(
                            f"Task {self.task_id!r}: {name!r} of the context cannot go to another interpreter. "
                            "Name what you need of it, such as ds, run_id or params, or pass it as an argument."
                        ) from None
                    continue
            kwargs[name] = value
        return {"args": list(self.op_args), "kwargs": kwargs}

    def _sources(self) -> str:
        constant = f"virtualenv_string_args = {json.dumps(self.string_args)}\n\n\n" if self.string_args else ""
        return constant + self._source

    def _read_source(self) -> str:
        """The source of the function without its decorators; raises DagError if there is none."""
        if (source := plain_source(self.python_callable)) is None:
            raise self.fail(f"Task {self.task_id!r}: only a function made by `def` can run with another interpreter.")
        return source


class PythonVirtualenvOperator(IsolatedPythonOperator):
    """Calls a function in a virtual environment with `requirements` (a list, or the name or text of a file).

    `index_urls_from_connection_ids` name connections whose host is the URL of a package index, with login and password.
    The environment is created on first use and kept in `venv_cache_path` (`~/.cache/aiosched/venvs`), one
    for each set of requirements, `python_version` and options. The function must import what it needs in its body.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "requirements",
        "index_urls",
        "index_urls_from_connection_ids",
        "venv_cache_path",
        *PythonOperator.template_fields,
    )
    template_ext: ClassVar[Sequence[str]] = (".txt",)

    def __init__(
        self,
        *,
        requirements: Collection[str] | str | None = None,
        python_version: str | None = None,
        system_site_packages: bool = True,
        pip_install_options: Sequence[str] | None = None,
        index_urls: Collection[str] | str | None = None,
        index_urls_from_connection_ids: Collection[str] | str | None = None,
        venv_cache_path: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.requirements: Collection[str] | list[str] | str = requirements or []
        self.python_version = python_version
        self.system_site_packages = system_site_packages
        self.pip_install_options: list[str] = list(pip_install_options or ())
        self.index_urls: Collection[str] | list[str] | str = index_urls or []
        self.index_urls_from_connection_ids: Collection[str] | list[str] | str = index_urls_from_connection_ids or []
        self.venv_cache_path = venv_cache_path

    async def interpreter(self, env: Mapping[str, str]) -> str:
        """The interpreter of the environment, which is created if needed."""
        requirements = _lines(self.requirements)
        if self.serializer in ("dill", "cloudpickle") and not any(_is_of(self.serializer, one) for one in requirements):
            requirements = (*requirements, self.serializer)
        connections = [await Connection.aget(conn_id) for conn_id in _lines(self.index_urls_from_connection_ids)]
        wanted = Environment(
            requirements=requirements,
            python=self.python_version,
            system_site_packages=self.system_site_packages,
            pip_install_options=tuple(self.pip_install_options),
            index_urls=(*_lines(self.index_urls), *map(_index_url, connections)),
        )
        cache = Path(self.venv_cache_path) if self.venv_cache_path else cache_folder()
        return str(await ensure(wanted, cache, log=self.log, env=env))


class ExternalPythonOperator(IsolatedPythonOperator):
    """Calls a function with the interpreter at the path `python`, for instance that of a virtual environment."""

    template_fields: ClassVar[Sequence[str]] = ("python", *PythonOperator.template_fields)

    def __init__(self, *, python: str | Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.python: str = str(python)

    async def interpreter(self, env: Mapping[str, str]) -> str:
        """`python`; raises AioschedError when it does not exist."""
        if shutil.which(self.python) is None:
            raise AioschedError(f"Task {self.task_id!r}: there is no interpreter {self.python!r} on this machine.")
        return self.python


class BranchPythonVirtualenvOperator(PythonVirtualenvOperator):
    """Follows the tasks whose ids the function returns, as BranchPythonOperator; runs as PythonVirtualenvOperator."""

    can_skip_downstream: ClassVar[bool] = True

    def conclude(self, result: Any, context: Context) -> Any:
        """Set `ti.skip_decision`; raises BranchError for an id that is not in the DAG."""
        return decide_branch(self, result, context)


class BranchExternalPythonOperator(ExternalPythonOperator):
    """Follows the tasks whose ids the function returns, as BranchPythonOperator; it runs as ExternalPythonOperator."""

    can_skip_downstream: ClassVar[bool] = True

    def conclude(self, result: Any, context: Context) -> Any:
        """Set `ti.skip_decision`; raises BranchError for an id that is not in the DAG."""
        return decide_branch(self, result, context)


def _dump(value: Any, what: str) -> str:
    """The JSON of a value that the other interpreter can read. Raises TypeError."""
    text = encoding.dump(value, what)
    if unknown := set(_KINDS.findall(text)) - _KNOWN:
        raise TypeError(
            f"{what} has a value of the kind {min(unknown)!r}, which another interpreter cannot read: give plain data, "
            'or use serializer="cloudpickle".'
        )
    return text


def _is_of(name: str, requirement: str) -> bool:
    """Whether a requirement is one of the package `name`."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found is not None and re.sub(r"[-_.]+", "-", found[0]).lower() == name


def _index_url(connection: Connection) -> str:
    """The URL of a package index, with the login of its connection. Raises AioschedError without one."""
    if not connection.host:
        raise AioschedError(f"The connection {connection.conn_id!r} has no host: it is the URL of a package index.")
    if not connection.login:
        return connection.host
    url = urlsplit(connection.host)
    password = f":{quote(connection.password, safe='')}" if connection.password else ""
    server = url.netloc.rpartition("@")[2]
    return url._replace(netloc=f"{quote(connection.login, safe='')}{password}@{server}").geturl()


def _lines(value: Collection[str] | str) -> tuple[str, ...]:
    """The lines, without blank ones and comments."""
    listed = value.splitlines() if isinstance(value, str) else value
    return tuple(line.strip() for line in listed if line.strip() and not line.strip().startswith("#"))
