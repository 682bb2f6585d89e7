"""Values that are not known yet when a DAG is built: outputs of tasks, arguments of mapped groups, params of a run.

Source: docs/decisions/0060-values-that-are-not-known-yet.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn

from aiosched.authoring.base.building import is_at_work
from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.context_values import bound
from aiosched.errors import DagError

_REMEDY: Final = "Pass it to a task and do that there, where it is known."

_constructing: ContextVar[bool] = ContextVar("aiosched_constructing_operator", default=False)


def constructing() -> bound[bool]:
    """In the block an operator keeps what it is given, so `headers or {}` keeps a value that is not known yet."""
    return bound(_constructing, True)


class UnknownAttribute(DagError, AttributeError):
    """An attribute of a value that is not known yet was read: `hasattr` is false."""


if TYPE_CHECKING:

    class _Anything(Any):  # type: ignore[misc] # an output may be given where its value is meant, whatever that is
        pass

else:
    _Anything = object


class Unknown(_Anything):
    """A value that is known when the task with this argument starts.

    Python would answer what only the value can answer: `if value` is always true, `value == "x"` always false. Such
    uses raise DagError at their line. While an operator is constructed it is true, and equal to nothing else.
    """

    def _refused(self, verb: str, *, kind: type[DagError] = DagError) -> DagError:
        """The error for a use of the value: it "cannot be `verb`"."""
        return fail(f"{self!r} cannot be {verb}: it is not known yet. {_REMEDY}", kind=kind)

    def __bool__(self) -> bool:
        if _constructing.get():
            return True
        raise self._refused("tested for being true")

    def __eq__(self, other: object) -> bool:
        if self is other or (isinstance(other, Unknown) and self._same(other)):
            return True
        if _constructing.get():
            return False
        raise self._refused("compared")

    def _same(self, other: Unknown) -> bool:
        """Whether `other` stands for the same value."""
        return False

    def __hash__(self) -> int:
        if _constructing.get():
            return object.__hash__(self)
        raise self._refused("put into a set or looked up")

    def _template(self) -> str:
        """The template that reads the value, for a longer text that a task gets."""
        raise self._refused("put into a text")

    def __str__(self) -> str:
        if is_at_work() and not _constructing.get():  # nobody renders what is written now
            raise self._refused("put into a text in a task that did not get it as an argument")
        return self._template()

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._refused(f"formatted as {spec!r}")
        return str(self)

    def __iter__(self) -> Iterator[Any]:
        raise self._refused("iterated")

    def __len__(self) -> NoReturn:
        raise self._refused("measured")

    def __getitem__(self, key: Any) -> Any:
        raise self._refused(f"indexed with {key!r:.80}")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise self._refused("changed")

    def __delitem__(self, key: Any) -> NoReturn:
        raise self._refused("changed")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise self._refused(f"changed by setting .{name}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise self._refused("changed")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self.__dict__:  # asked of every object, or before it is complete
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise self._refused(f"asked for .{name}", kind=UnknownAttribute)

    def _number(self) -> NoReturn:
        raise self._refused("made a number")

    def _order(self, other: Any) -> NoReturn:
        raise self._refused("compared")

    def _compute(self, *others: Any) -> NoReturn:
        raise self._refused("computed with")


_REFUSED: Final = {
    Unknown._number: "int float complex index",
    Unknown._order: "lt le gt ge",
    Unknown._compute: "add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod divmod "
    "rdivmod pow rpow and rand or ror xor rxor neg pos abs invert round",
}
for _refuse, _operators in _REFUSED.items():
    for _operator in _operators.split():
        setattr(Unknown, f"__{_operator}__", _refuse)


def explained(message: str) -> str:
    """`message` of an error that Python raised; one about a value that is not known yet also says so."""
    name = next((name for name in sorted(_names(Unknown)) if name in message), None)
    return message if name is None else f"{message}. {name} stands for a value that is not known yet. {_REMEDY}"


def written_in(text: str) -> str | None:
    """The kind of a value that is not known yet of which `text` has the `repr`, as from `str([value])`; or None."""
    return next((mark[:-2] for mark in _MARKS if mark in text), None)


_MARKS: Final = ("XComArg('", "GroupArgument('", "DagParam('")


def _names(kind: type[Unknown]) -> Iterator[str]:
    for one in kind.__subclasses__():
        yield one.__name__
        yield from _names(one)
