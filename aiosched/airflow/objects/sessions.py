"""`provide_session`, `create_session`, `settings.Session`: sessions on Airflow's database, which does not exist here.

Functions that only pass a session on work; the session itself answers every query with an error that says what to use.
What pytest runs gets a real one, on a database of its process (`aiosched.testing.airflow_database`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from aiosched.authoring.base.building import collector, running
from aiosched.errors import Refused
from aiosched.lazy import provided
from aiosched.signatures import signature_of

P = ParamSpec("P")
R = TypeVar("R")

NEW_SESSION: Final[Any] = None  # the default of a parameter `session`


of_tests: Final = Event()  # set where pytest runs


def is_test() -> bool:
    """Whether the code of a test or of a fixture runs here: no task, and no DAG file that aiosched reads."""
    return of_tests.is_set() and running.get() is None and collector.get() is None


class NoSession:
    """What `@provide_session` passes. It can be opened, committed and closed; it reads and changes nothing."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return provided("session_of_tests")() if is_test() else super().__new__(cls)

    def __enter__(self) -> NoSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""

    def commit(self) -> None:
        """There is nothing to commit."""

    def rollback(self) -> None:
        """There is nothing to roll back."""

    def flush(self) -> None:
        """There is nothing to flush."""

    def expunge_all(self) -> None:
        """Nothing is loaded."""

    def _refuse(self: object, *args: Any, **kwargs: Any) -> NoReturn:
        raise Refused(
            "There is no Airflow database behind this session, and tasks never write to aiosched's. To read, use "
            "DagRun.find(dag_id=…, run_id=…), ti.get_task_states(…), Variable.get(…) or Connection.get(…); to change "
            "something, use the REST API or the client (docs/api.md)."
        )

    add = add_all = delete = execute = get = merge = query = refresh = scalar = scalars = _refuse


class NoEngine:
    """`settings.engine`, which tests replace; it connects to nothing but the database of a test."""

    def __getattr__(self, name: str) -> Any:
        if is_test():
            return getattr(provided("session_of_tests")().get_bind(), name)
        if name not in {"begin", "connect", "execute", "raw_connection"}:
            raise AttributeError(f"There is no engine here, and so no attribute {name!r} of it.")
        return functools.partial(NoSession._refuse, self)

    def dispose(self) -> None:
        """Nothing is open."""


engine: Final = NoEngine()


@contextlib.contextmanager
def create_session(scoped: bool = True) -> Iterator[NoSession]:
    """A session for a block, committed at its end unless that raises."""
    session = NoSession()
    try:
        yield session
        session.commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        session.close()


def provide_session(func: Callable[P, R]) -> Callable[P, R]:
    """Give `func` a session, unless its caller does."""
    parameters = list(signature_of(func).parameters)
    if "session" not in parameters:
        raise ValueError(f"{func.__qualname__} has no parameter `session`: add it, or leave out @provide_session.")
    position = parameters.index("session")

    @functools.wraps(func)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if "session" in kwargs or len(args) > position:
            return func(*args, **kwargs)
        with create_session() as session:
            return func(*args, **{**kwargs, "session": session})  # type: ignore[arg-type] # its parameter

    return call
