"""The options of a request: what a method, a command or a body of the API offers of it.

    @options_of(Clear)
    async def clear(self, dag_id: str, request: Clear) -> list[dict[str, Any]]: ...

makes a method `clear(dag_id, run_ids=None, *, only_failed=False, …)` with all fields of `Clear`, which builds the
request and calls the function. The commands (cli/base/request_options.py) and the bodies (web/api/base/bodies.py) do
the same with `options`. With `options_of_jobs` a function that is a job stands for its DAG, and its arguments beside
the options. What callers give as `conf` may have any type that comes back. Pure.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from inspect import Parameter
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    overload,
)

import msgspec

from aiosched.core.requests.jobs import called, job_behind, with_types
from aiosched.core.requests.requests import Help, Request

P = ParamSpec("P")
R = TypeVar("R", bound=Request)
S = TypeVar("S")
T = TypeVar("T")

NEEDED: Final = Parameter.empty  # the default of an option that has none
OF_EVERY_REQUEST: Final = frozenset({"reason", "key"})  # these are no arguments of the verb
_AT_THE_END: Final = ("", "dry_run", "reason", "key")  # however many more a request has


class Option(NamedTuple):
    """An option of a request; `type` is without None, and `stored` is its name in stored requests."""

    name: str
    stored: str
    type: Any
    is_optional: bool
    default: Any
    help: Help


@functools.cache
def options(kind: type[Request]) -> tuple[Option, ...]:
    """The options of a request in the order of its fields, `dry_run`, `reason` and `key` last."""
    found = map(_option, msgspec.structs.fields(kind))
    return tuple(sorted(found, key=lambda each: _AT_THE_END.index(each.name if each.name in _AT_THE_END else "")))


def _option(field: msgspec.structs.FieldInfo) -> Option:
    type_, help_ = get_args(field.type) if get_origin(field.type) is Annotated else (field.type, Help(""))
    is_optional = NoneType in get_args(type_)
    if is_optional:
        type_ = functools.reduce(operator.or_, (each for each in get_args(type_) if each is not NoneType))
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Option(field.name, field.encode_name, type_, is_optional, NEEDED if field.required else default, help_)


class options_of(Generic[P, R]):
    """Give a method that takes a request, as its last parameter, the options of this request in its place.

    `defaults` are other defaults than those of the struct. None for an option whose default is not None means the
    default. Type checkers and editors know the options, too: `P` is how the struct is made.
    """

    def __init__(self, kind: Callable[P, R], **defaults: Any) -> None:
        self._kind, self._defaults = cast("type[R]", kind), defaults

    @overload
    def __call__(self, method: Callable[[S, R], T]) -> Callable[Concatenate[S, P], T]: ...

    @overload
    def __call__(self, method: Callable[[S, str, R], T]) -> Callable[Concatenate[S, str, P], T]: ...

    def __call__(self, method: Callable[..., T]) -> Callable[..., T]:
        """The method with the options."""
        *own, _ = inspect.signature(method).parameters.values()
        signature = inspect.Signature([*own, *self._parameters()])
        kind, defaults = self._kind, {option.name: option.default for option in options(self._kind)} | self._defaults

        @functools.wraps(method)
        def with_options(*args: Any, **given: Any) -> T:
            arguments, given = self._split(given, signature)
            bound = signature.bind(*args, **given).arguments
            first = {parameter.name: bound.pop(parameter.name) for parameter in own}
            chosen = {name: defaults[name] if value is None else value for name, value in bound.items()}
            self._fill(first, chosen, arguments)
            if "conf" in chosen:
                chosen["conf"] = with_types(f"{method.__name__}: conf", chosen["conf"])
            return method(*first.values(), kind(**(self._defaults | chosen)))

        with_options.__signature__ = signature  # type: ignore[attr-defined]  # read by `inspect`, so by help and docs
        return with_options

    def _split(self, given: dict[str, Any], _: inspect.Signature) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is given by name for a job, and for the method."""
        return {}, given

    def _fill(self, own: dict[str, Any], chosen: dict[str, Any], arguments: dict[str, Any]) -> None:
        """Put a job and its arguments in their places."""

    def _parameters(self) -> list[Parameter]:
        """One for each option; those that the struct takes by position come first."""
        by_name = {option.name: option for option in options(self._kind)}
        made_of = inspect.signature(self._kind).parameters
        return [
            Parameter(
                name,
                made_of[name].kind,
                default=self._defaults.get(name, by_name[name].default),
                annotation=by_name[name].type | None if by_name[name].is_optional else by_name[name].type,
            )
            for kind, names in ((Parameter.POSITIONAL_OR_KEYWORD, made_of), (Parameter.KEYWORD_ONLY, by_name))
            for name in names
            if made_of[name].kind is kind
        ]


S_contra = TypeVar("S_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Asks(Protocol[P, T_co]):
    """A method of an object that takes the id of a DAG with options, or a job with its arguments and options."""

    @overload
    def __call__(self, dag_id: str, /, *args: P.args, **options: P.kwargs) -> T_co: ...

    @overload
    def __call__(self, job: Callable[..., Any], /, *args: Any, **arguments: Any) -> T_co: ...


class AsksOf(Protocol[S_contra, P, T_co]):
    """The same as a function whose first parameter is the object."""

    @overload
    def __call__(self, it: S_contra, dag_id: str, /, *args: P.args, **options: P.kwargs) -> T_co: ...

    @overload
    def __call__(self, it: S_contra, job: Callable[..., Any], /, *args: Any, **arguments: Any) -> T_co: ...

    def __get__(self, it: Any, owner: Any = None, /) -> Asks[P, T_co]: ...


class options_of_jobs(options_of[P, R]):
    """As `options_of` for a method of a DAG, where a function that is a job can be its `dag_id`.

    What is given by a name that no option has is an argument of the job, and becomes a part of `conf`; an argument with
    the name of an option is given there. A wrong name, and a missing argument, is Refused.
    """

    if TYPE_CHECKING:

        def __call__(self, method: Callable[[S, str, R], T]) -> AsksOf[S, P, T]:  # type: ignore[override]
            """The method with the options."""
            raise NotImplementedError

    def _split(self, given: dict[str, Any], signature: inspect.Signature) -> tuple[dict[str, Any], dict[str, Any]]:
        known = signature.parameters
        return {n: v for n, v in given.items() if n not in known}, {n: v for n, v in given.items() if n in known}

    def _fill(self, own: dict[str, Any], chosen: dict[str, Any], arguments: dict[str, Any]) -> None:
        dag = own["dag_id"]
        if callable(dag):
            job = job_behind(dag)
            own["dag_id"], chosen["conf"] = job.dag_id, called(job, chosen.get("conf", {}), arguments)
        elif arguments:
            raise TypeError(f"unexpected keyword argument {next(iter(arguments))!r}")
