"""The output of a task as an argument of another one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from aiosched.authoring.checks import fail
from aiosched.authoring.dependencies import Dependable
from aiosched.core.messages import XComRef
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.context import Context
    from aiosched.authoring.operator import BaseOperator

RETURN_VALUE: Final = "return_value"


class XComArg(Dependable):
    """What task `operator` pushed under `key`, read when the task that has it as argument starts.

    `arg["name"]` is the value pushed under that key: with `multiple_outputs`, a key of the returned dict.
    """

    def __init__(self, operator: BaseOperator, key: str = RETURN_VALUE) -> None:
        self.operator = operator
        self.key = key

    def __getitem__(self, key: str) -> XComArg:
        if not isinstance(key, str):
            raise fail(
                f"The output of task {self.operator.task_id!r} was indexed with {key!r}: only names of keys are "
                "possible, because the value is not known yet. Index it inside the task that receives it."
            )
        return XComArg(self.operator, key)

    def __iter__(self) -> NoReturn:
        raise fail(
            f"The output of task {self.operator.task_id!r} cannot be iterated: it is not known yet. "
            "Pass it to a task and iterate there, or name its keys: output['key'] with multiple_outputs=True."
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XComArg) and other.operator is self.operator and other.key == self.key

    def __hash__(self) -> int:
        return hash((id(self.operator), self.key))

    def __repr__(self) -> str:
        return f"XComArg({self.operator.task_id!r}, {self.key!r})"

    def __str__(self) -> str:
        """A template that reads the value, for use inside a longer template string."""
        key = "" if self.key == RETURN_VALUE else f", key={self.key!r}"
        return f"{{{{ ti.xcom_pull(task_ids={self.operator.task_id!r}{key}) }}}}"

    @property
    def first_tasks(self) -> Sequence[BaseOperator]:
        return [self.operator]

    @property
    def last_tasks(self) -> Sequence[BaseOperator]:
        return [self.operator]

    @property
    def ref(self) -> XComRef:
        """The stored values that this stands for."""
        return XComRef(self.operator.task_id, self.key)

    def as_setup(self) -> Self:
        """Mark the task as a setup."""
        self.operator.as_setup()
        return self

    def as_teardown(
        self, *, setups: Dependable | Collection[Dependable] | None = None, on_failure_fail_dagrun: bool = False
    ) -> Self:
        """Mark the task as a teardown, of `setups` when given."""
        self.operator.as_teardown(setups=setups, on_failure_fail_dagrun=on_failure_fail_dagrun)
        return self

    def resolve(self, context: Context) -> Any:
        """The value, from the XComs that were fetched for the task. None when the task returned nothing.

        Raises AioschedError when a named key was not pushed.
        """
        pairs = context["ti"].values_of(self.ref)
        if any(map_index >= 0 for map_index, _ in pairs):
            return [value for _, value in pairs]
        if pairs:
            return pairs[0][1]
        if self.key == RETURN_VALUE:
            return None
        raise AioschedError(
            f"Task {self.operator.task_id!r} pushed no XCom with the key {self.key!r}. "
            "Return a dict that has it with multiple_outputs=True, or push it with ti.xcom_push()."
        )


def iter_xcom_args(value: Any) -> Iterator[XComArg]:
    """Every XComArg inside `value`: lists, tuples, sets, values of dicts, template fields of objects."""
    if isinstance(value, XComArg):
        yield value
    elif isinstance(value, str | int | float | bytes) or value is None:
        return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from iter_xcom_args(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from iter_xcom_args(item)
    elif not isinstance(value, Dependable):
        for name in getattr(type(value), "template_fields", ()):
            yield from iter_xcom_args(getattr(value, name, None))
