"""Outputs of tasks: arguments of other tasks, or what other tasks are mapped over.

Source: the semantics reference, sections 26.1 and 26.2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, Self, TypeVar

from aiosched.authoring.base.building import current_group
from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import Dependable
from aiosched.authoring.base.unknown import Unknown
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.authoring.tasks.nesting import groups_around, indexes_read, is_mapped, mapped_groups, reads_own_index
from aiosched.core.graph.spec import Concatenated, MapInput, TaskOutput, Zipped
from aiosched.core.values.messages import RETURN_VALUE, XComRef
from aiosched.core.values.typed_json import items_in
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Group, Task
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.tasks.setup_scopes import Scope

R = TypeVar("R")  # what the task returns

# Kinds of arguments. Tuples: a union in a call of isinstance is built at each call.
PLAIN: Final = frozenset({NoneType, bool, int, float, bytes})  # never contain anything to fill in
SEQUENCES: Final = (list, tuple, set, frozenset)
MAPPINGS: Final = (dict, Mapping)
_SCALARS: Final = (NoneType, str, int, float, bytes)
_NO_FILL: Final = object()


class XComView(NamedTuple):
    """The values of an output that is mapped over: their number, and each by its position."""

    length: int
    at: Callable[[int], Any]


class Output(Unknown, Dependable):
    """What one or several tasks return. It is read when the task with this argument starts."""

    _inner: Sequence[Output] = ()  # what it is made of

    @property
    def sources(self) -> Sequence[XComArg[Any]]:
        """The stored values that it consists of."""
        return [source for one in self._inner for source in one.sources]

    @property
    @abstractmethod
    def map_input(self) -> MapInput:
        """The length of a mapping over it, for the scheduler."""

    @abstractmethod
    def resolve(self, context: Context) -> Any:
        """The value, from the XComs that were fetched for the task."""

    def check_reader(self, reader: Task) -> None:
        """Raise DagError if it cannot be an argument of `reader`."""

    def view(self, context: Context) -> XComView:
        """The values to map over: the items of a list, the (key, value) pairs of a dict."""
        value = self.resolve(context)
        if isinstance(value, Mapping):
            value = list(value.items())
        if isinstance(value, list | tuple):
            return XComView(len(value), value.__getitem__)
        raise AioschedError(f"{self!r} is mapped over, but it is {value!r:.80}: return a list or a dict there.")

    def map(self, function: Callable[[Any], Any]) -> MappedOutput:
        """Apply `function` to each value when it is read. If it raises SkipTask, that instance is skipped."""
        if not callable(function) or hasattr(function, "expand"):
            remedy = "use .expand() to run a task for each value" if callable(function) else "give a function"
            raise fail(f"{self!r}.map({getattr(function, '__name__', function)!s}) needs a plain function: {remedy}.")
        return MappedOutput(self, function)

    def zip(self, *others: Output, fillvalue: Any = _NO_FILL) -> ZippedOutput:
        """Tuples of one value of each output: as many as the shortest has or, with `fillvalue`, the longest."""
        return ZippedOutput(_outputs("zip", self, *others), fillvalue)

    def concat(self, *others: Output) -> ConcatenatedOutput:
        """The values of this, then those of `others`."""
        return ConcatenatedOutput(_outputs("concat", self, *others))

    def __iter__(self) -> NoReturn:
        raise fail(
            f"{self!r} cannot be iterated: it is not known yet. "
            "Pass it to a task and iterate there, or map a task over it with .expand()."
        )

    @property
    def first_tasks(self) -> Sequence[Task]:
        return list({arg.operator.task_id: arg.operator for arg in self.sources}.values())

    @property
    def last_tasks(self) -> Sequence[Task]:
        return self.first_tasks


class XComArg(Output, Generic[R]):
    """What task `operator` pushed under `key`. It is read when the task with this argument starts.

    `arg["name"]` is the value pushed under that key: with `multiple_outputs`, a key of the returned dict.
    For a mapped task it is the list of the values of all its instances; inside one mapped group it is the value of
    the instance with the same index.
    """

    def __init__(self, operator: Task, key: str = RETURN_VALUE) -> None:
        self._operator = operator
        self._key = key

    @property
    def operator(self) -> Task:
        """The task that pushes the value."""
        return self._operator

    @property
    def key(self) -> str:
        """The key under which it does so."""
        return self._key

    def __getitem__(self, key: str) -> XComArg[Any]:
        if self._key != RETURN_VALUE:
            raise self._refused(f"indexed with {key!r:.80}")
        if not isinstance(key, str):
            raise fail(
                f"The output of task {self.operator.task_id!r} was indexed with {key!r}: only names of keys are "
                "possible, because the value is not known yet. Index it inside the task that receives it."
            )
        return XComArg(self.operator, key)

    def __iter__(self) -> NoReturn:
        raise fail(
            f"The output of task {self.operator.task_id!r} cannot be iterated: it is not known yet. Pass it to a "
            "task and iterate there, map a task over it with .expand(), or name its keys: output['key'] with "
            "multiple_outputs=True."
        )

    def _same(self, other: Unknown) -> bool:
        return isinstance(other, XComArg) and other.operator is self.operator and other.key == self.key

    def __hash__(self) -> int:
        """It stands for its task, too: code keeps sets of tasks."""
        return hash((id(self.operator), self.key))

    def __repr__(self) -> str:
        return f"XComArg({self.operator.task_id!r}, {self.key!r})"

    def _template(self) -> str:
        """The template that reads the value.

        Inside its mapped group it reads the value of the own index. Raises DagError where that is another one.
        A task that gets such a text waits for the value, unless the DAG connects the two in some way.
        """
        key = "" if self.key == RETURN_VALUE else f", key={self.key!r}"
        theirs, here = mapped_groups(self.operator), self._groups_here()
        if theirs == here and theirs:
            key += ", map_indexes=ti.map_index"
        elif theirs and here and theirs[0] is here[0]:
            raise self._refused(f"put into a text in the mapped group {here[-1].group_id!r}, where indexes differ")
        template = f"{{{{ ti.xcom_pull(task_ids={self.operator.task_id!r}{key}) }}}}"
        if self.operator.dag is not None:
            self.operator.dag.outputs_in_texts[template] = self.operator.task_id
        return template

    def _groups_here(self) -> Sequence[Group]:
        """The mapped groups that are open in the code that is running, outermost first."""
        group = current_group(self.operator.dag) if self.operator.dag is not None else None
        return groups_around(group) if group is not None else ()

    @property
    def sources(self) -> Sequence[XComArg[Any]]:
        return (self,)

    @property
    def map_input(self) -> MapInput:
        return TaskOutput(self.operator.task_id)

    def refs_of(self, reader: Task, map_index: int) -> Sequence[XComRef]:
        """The stored values that instance `map_index` of `reader` reads, first those that it is about.

        Of one of several outputs also what was returned as a whole: without it the task pushed nothing.
        """
        is_a_part = self.key != RETURN_VALUE and getattr(self.operator, "multiple_outputs", False)
        index = (map_index,) if map_index >= 0 and reads_own_index(self.operator, reader) else ()
        return [
            XComRef(self.operator.task_id, key, *index)
            for key in ([self.key, RETURN_VALUE] if is_a_part else [self.key])
        ]

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

    def __enter__(self) -> Scope:
        scope: Scope = self.operator.__enter__()
        return scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.operator.__exit__(kind, error, trace)

    def resolve(self, context: Context) -> Any:
        """The value, from the XComs that were fetched for the task. None when the task returned nothing.

        So is each of several outputs then, as in Airflow. For a mapped task a list in index order, without the indexes
        that have no value. Raises AioschedError when a named key was not pushed.
        """
        texts, is_list = self._texts(context)
        if is_list:
            return [read_xcom(text) for text in texts]
        if texts:
            return read_xcom(texts[0])
        if self.key == RETURN_VALUE:
            return None
        _, *whole = self.refs_of(context["task"], context["ti"].map_index)
        if whole and not context["ti"].texts_of(whole[0]):
            return None
        raise AioschedError(
            f"Task {self.operator.task_id!r} pushed no XCom with the key {self.key!r}. "
            "Return a dict that has it with multiple_outputs=True, or push it with ti.xcom_push()."
        )

    def view(self, context: Context) -> XComView:
        """See Output. Each value is decoded only when it is read: there may be thousands of readers."""
        texts, is_list = self._texts(context)
        if is_list:
            return XComView(len(texts), lambda position: read_xcom(texts[position]))
        items = _items_of(texts[0]) if texts else None
        if items is None:
            return super().view(context)  # raises the error
        if isinstance(items, list):
            return XComView(len(items), lambda position: read_xcom(bytes(items[position])))
        pairs = list(items.items())
        return XComView(len(pairs), lambda position: (pairs[position][0], read_xcom(bytes(pairs[position][1]))))

    def _texts(self, context: Context) -> tuple[list[str], bool]:
        """The stored values that the running task reads, as JSON texts; and whether the value is a list of them."""
        ti = context["ti"]
        pairs = ti.texts_of(self.refs_of(context["task"], ti.map_index)[0])
        if not is_mapped(self.operator) and not any(map_index >= 0 for map_index, _ in pairs):
            return [text for _, text in pairs], False
        indexes = indexes_read(self.operator, context)
        texts = [text for map_index, text in pairs if indexes is None or map_index in indexes]
        return texts, not _is_one(self.operator, context["task"])


_items_of = lru_cache(maxsize=4)(items_in)  # not decoded yet: each reader needs one


def _is_one(source: Task, reader: Task) -> bool:
    """Whether `reader` reads a single instance of `source`, because all mapped groups of `source` are around it too."""
    groups = mapped_groups(source)
    return bool(groups) and mapped_groups(reader)[: len(groups)] == groups


class MappedOutput(Output):
    """The values of `inner`, with `function` applied to each in the task that reads them."""

    def __init__(self, inner: Output, function: Callable[[Any], Any]) -> None:
        self._inner = (inner,)
        self._function = function

    @property
    def map_input(self) -> MapInput:
        return self._inner[0].map_input

    def view(self, context: Context) -> XComView:
        length, at = self._inner[0].view(context)
        return XComView(length, lambda position: self._function(at(position)))

    def resolve(self, context: Context) -> Any:
        return _all(self.view(context))

    def __repr__(self) -> str:
        return f"{self._inner[0]!r}.map({getattr(self._function, '__qualname__', type(self._function).__qualname__)})"


class ZippedOutput(Output):
    """Tuples of one value of each of `inputs`."""

    def __init__(self, inputs: Sequence[Output], fill: Any) -> None:
        self._inner = inputs
        self._fill = fill

    @property
    def map_input(self) -> MapInput:
        return Zipped(tuple(one.map_input for one in self._inner), longest=self._fill is not _NO_FILL)

    def view(self, context: Context) -> XComView:
        views = [one.view(context) for one in self._inner]
        lengths = [view.length for view in views]

        def at(position: int) -> tuple[Any, ...]:
            return tuple(view.at(position) if position < view.length else self._fill for view in views)

        return XComView(min(lengths) if self._fill is _NO_FILL else max(lengths), at)

    def resolve(self, context: Context) -> Any:
        return _all(self.view(context))

    def __repr__(self) -> str:
        first, *others = map(repr, self._inner)
        fill = [] if self._fill is _NO_FILL else [f"fillvalue={self._fill!r}"]
        return f"{first}.zip({', '.join(others + fill)})"


class ConcatenatedOutput(Output):
    """The values of all `inputs`, in order."""

    def __init__(self, inputs: Sequence[Output]) -> None:
        self._inner = inputs

    @property
    def map_input(self) -> MapInput:
        return Concatenated(tuple(one.map_input for one in self._inner))

    def view(self, context: Context) -> XComView:
        views = [one.view(context) for one in self._inner]

        def at(position: int) -> Any:
            for view in views:
                if position < view.length:
                    return view.at(position)
                position -= view.length
            raise IndexError(position)

        return XComView(sum(view.length for view in views), at)

    def resolve(self, context: Context) -> Any:
        return _all(self.view(context))

    def __repr__(self) -> str:
        first, *others = map(repr, self._inner)
        return f"{first}.concat({', '.join(others)})"


def iter_outputs(value: Any) -> Iterator[Output]:
    """Every output inside `value`: in lists, tuples, sets, values of dicts, template fields of objects."""
    if isinstance(value, Output):
        yield value
    elif isinstance(value, _SCALARS):
        return
    elif isinstance(value, SEQUENCES):
        for item in value:
            if type(item) not in PLAIN:
                yield from iter_outputs(item)
    elif isinstance(value, MAPPINGS):
        for item in value.values():
            yield from iter_outputs(item)
    elif not isinstance(value, Dependable):
        for name in getattr(type(value), "template_fields", ()):
            yield from iter_outputs(getattr(value, name, None))


def unfilled_keys(value: Any, templates: Collection[str]) -> Iterator[Any]:
    """Every key of a dict in `value` that has an output, or one of the `templates` of outputs: it is not filled in."""
    if isinstance(value, MAPPINGS):
        for key in value:
            if isinstance(key, str):
                if templates and "{{" in key and any(template in key for template in templates):
                    yield key
            elif any(True for _ in iter_outputs(key)):
                yield key
        value = value.values()
    elif not isinstance(value, SEQUENCES):
        return
    for item in value:
        if type(item) not in PLAIN:
            yield from unfilled_keys(item, templates)


def length_sources(reader: Task, read: Iterable[Task]) -> list[XComArg[Any]]:
    """The values whose lengths determine which indexes of the tasks in `read` an instance of `reader` reads."""
    groups = {group.group_id: group for group in mapped_groups(reader)}
    if groups:
        groups |= {group.group_id: group for task in read for group in mapped_groups(task)}
    if len(groups) < 2:  # all have the same index
        return []
    return [source for group in groups.values() if group.expand_input for source in group.expand_input.sources]


def _outputs(method: str, *inputs: Output) -> Sequence[Output]:
    for one in inputs:
        if not isinstance(one, Output):
            raise fail(
                f"{inputs[0]!r}.{method}({one!r:.80}) needs the output of a task. Return the value from a task, or "
                "put it in with .map()."
            )
    return inputs


def _all(view: XComView) -> list[Any]:
    return [view.at(position) for position in range(view.length)]
