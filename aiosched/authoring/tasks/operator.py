"""`BaseOperator`: the base class of tasks, and the parameters that all tasks have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol, Self, TypeAlias

from aiosched.authoring.base import checks
from aiosched.authoring.base.building import current_dag, current_group, is_at_work, made_without_dag
from aiosched.authoring.base.dates import optional_aware
from aiosched.authoring.base.dependencies import Dependable, Label, connect
from aiosched.authoring.base.executor_config import executor_config_as_json
from aiosched.authoring.base.location import Location
from aiosched.authoring.base.plain_callers import gives_coroutine
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.base.unknown import Unknown, written_in
from aiosched.authoring.tasks.defaults_by_name import OperatorMeta
from aiosched.authoring.tasks.rendering import CONTAINERS, render_task, strings_in, template_references
from aiosched.authoring.tasks.retry_policies import RetryPolicy
from aiosched.authoring.tasks.setup_scopes import close_scope, join_scope, open_scope
from aiosched.authoring.tasks.start_trigger import StartTriggerArgs, declared
from aiosched.authoring.tasks.templater import Templater
from aiosched.authoring.tasks.weight_strategies import PriorityWeightStrategy, weight_rule_of
from aiosched.authoring.tasks.xcom_arg import XComArg, iter_outputs, length_sources, unfilled_keys
from aiosched.core.graph.spec import DEFAULT_POOL
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.values.messages import RETURN_VALUE, Resume, XComRef
from aiosched.errors import (
    AioschedError,
    DagError,
    Refused,
    TaskDeferralError,
    TaskDeferralTimeout,
    TaskDeferred,
    TaskTimeout,
)
from aiosched.lazy import provided

if TYPE_CHECKING:
    from aiosched.authoring.base.dialects import Dialect
    from aiosched.authoring.base.params import ParamsDict
    from aiosched.authoring.base.protocols import Dag, Group, MapInputs
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.tasks.links import BaseOperatorLink
    from aiosched.authoring.tasks.setup_scopes import Scope
    from aiosched.authoring.triggers.base import BaseTrigger
    from aiosched.core.graph.spec import ExternalMark

# Options that are needed before the task starts, or by others, so that nothing is filled in there.
_EARLY: Final = (
    *("_params", "email", "executor", "inlets", "outlets"),
    *("owner", "pool", "queue", "run_as_user", "task_display_name"),
)
MAX_RETRIES: Final = 30_000  # the column of the try number is a smallint

Callback: TypeAlias = Callable[["Context"], Any]
Callbacks: TypeAlias = Callback | Sequence[Callback] | None
CallbackList: TypeAlias = list[Callable[..., Any]]
Seconds: TypeAlias = timedelta | float
RetryFunction: TypeAlias = Callable[[BaseException, "Context"], Seconds | bool | None]
"""Called when a try has failed and has a retry left. False: no retry. A duration: the delay of the retry. None, or an
exception: the options of the task apply. Source: the semantics reference, section 22.4."""


class Partial(Protocol):
    """What `SomeOperator.partial(…)` returns: see `OperatorPartial`."""

    def expand(self, **mapped: Any) -> BaseOperator: ...
    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> BaseOperator: ...


class BaseOperator(Templater, Dependable, metaclass=OperatorMeta):
    """A task of a DAG. Subclasses implement `execute`.

    All parameters are keywords and mean what they mean in Airflow; durations are timedeltas or seconds. `email` gets
    mails about missed SLAs (slas.py); failures are reported by callbacks. `execute` may be a plain function or a
    coroutine function (or return a coroutine, if `is_async` is true): coroutines share a process.

    Each attempt runs on a shallow copy of the task, so `execute` may store what `on_kill` needs on `self`.
    """

    template_fields: ClassVar[Sequence[str]] = ()  # attributes that are rendered before each attempt
    template_ext: ClassVar[Sequence[str]] = ()  # a value with such an ending is the name of a template file
    template_fields_renderers: ClassVar[Mapping[str, str]] = {}
    operator_extra_links: Collection[BaseOperatorLink] = ()  # of the class, or of the task itself
    ui_color: ClassVar[str] = "#fff"
    can_skip_downstream: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True  # False: execute does not change self, so attempts share it; not inherited

    logger_name: str | None = None  # also while a subclass has not called __init__ yet
    start_from_trigger: bool = False  # start in the trigger of start_trigger_args, without a worker
    start_trigger_args: StartTriggerArgs | None = None

    _partial_type: ClassVar[Callable[[type[BaseOperator], Mapping[str, Any]], Partial]]  # given by mapping/mapped.py
    expand_input: MapInputs | None = None  # what a mapped task is mapped over
    _origin: Location | None
    _defaults: Mapping[str, Any]
    _dialect: Dialect | None = None  # of the file that has built it

    def __init__(
        self,
        *,
        task_id: str,
        owner: str = "",
        retries: int | None = None,
        retry_delay: Seconds | None = None,
        retry_exponential_backoff: bool | float = False,
        max_retry_delay: Seconds | None = None,
        retry_policy: RetryPolicy | RetryFunction | None = None,
        execution_timeout: Seconds | None = None,
        sla: Seconds | None = None,
        email: str | Collection[str] | None = None,
        email_on_failure: bool | None = None,
        email_on_retry: bool | None = None,
        start_date: datetime | str | None = None,
        end_date: datetime | str | None = None,
        depends_on_past: bool = False,
        wait_for_downstream: bool = False,
        ignore_first_depends_on_past: bool = True,
        wait_for_past_depends_before_skipping: bool = False,
        trigger_rule: str = "all_success",
        pool: str | None = None,
        pool_slots: int = 1,
        priority_weight: int = 1,
        weight_rule: str | PriorityWeightStrategy | None = None,
        queue: str = "default",
        executor: str | None = None,
        executor_config: Mapping[str, Any] | None = None,
        run_as_user: str | None = None,
        max_active_tis_per_dag: int | None = None,
        max_active_tis_per_dagrun: int | None = None,
        params: Mapping[str, Any] | None = None,
        default_args: Mapping[str, Any] | None = None,
        dag: Dag | None = None,
        task_group: Group | None = None,
        on_execute_callback: Callbacks = None,
        on_success_callback: Callbacks = None,
        on_failure_callback: Callbacks = None,
        on_retry_callback: Callbacks = None,
        on_skipped_callback: Callbacks = None,
        pre_execute: Callable[[Context], Any] | None = None,
        post_execute: Callable[..., Any] | None = None,
        do_xcom_push: bool = True,
        multiple_outputs: bool = False,
        inlets: Sequence[Any] | Any | None = None,
        outlets: Sequence[Any] | Any | None = None,
        map_index_template: str | None = None,
        task_display_name: str | None = None,
        logger_name: str | None = None,
        doc: str | None = None,
        doc_md: str | None = None,
        doc_json: str | None = None,
        doc_yaml: str | None = None,
        doc_rst: str | None = None,
    ) -> None:
        where = self._origin
        self.label: str = checks.valid_key("task_id", task_id, where)
        self.owner = owner
        self.upstream_task_ids: set[str] = set()
        self.downstream_task_ids: set[str] = set()

        retries = defaults().retries if retries is None else retries
        retry_delay = defaults().retry_delay if retry_delay is None else retry_delay
        self.retries: int = checks.whole_number("retries", retries, least=0, most=MAX_RETRIES, where=where)
        self.retry_delay: timedelta = checks.duration("retry_delay", retry_delay, where)
        self.retry_exponential_backoff: float = _backoff(retry_exponential_backoff, where)
        self.max_retry_delay: timedelta | None = checks.optional_duration("max_retry_delay", max_retry_delay, where)
        self.retry_policy: RetryPolicy | RetryFunction | None = _policy(retry_policy, where)
        execution_timeout = defaults().execution_timeout if execution_timeout is None else execution_timeout
        self.execution_timeout: timedelta | None = checks.optional_duration(
            "execution_timeout", execution_timeout, where
        )
        self.sla: timedelta | None = checks.optional_duration("sla", sla, where)
        self.email: str | list[str] = checks.mail_addresses("email", email, where)
        self.email_on_failure: bool | None = email_on_failure
        self.email_on_retry: bool | None = email_on_retry
        if self._dialect is None:
            checks.without_effect(self, ("email_on_failure", "email_on_retry"), where)

        self.start_date: datetime | None = optional_aware("start_date", start_date, where)
        self.end_date: datetime | None = optional_aware("end_date", end_date, where)
        self.wait_for_downstream = wait_for_downstream
        self.depends_on_past: bool = depends_on_past or wait_for_downstream
        self.ignore_first_depends_on_past = ignore_first_depends_on_past
        self.wait_for_past_depends_before_skipping = wait_for_past_depends_before_skipping

        self.trigger_rule: str = _named(TriggerRule.parse, trigger_rule, where).value
        self.weight_rule: str | PriorityWeightStrategy = weight_rule_of(weight_rule or defaults().weight_rule, where)
        self.pool: str = pool or DEFAULT_POOL
        self.pool_slots: int = checks.whole_number("pool_slots", pool_slots, least=1, where=where)
        self.priority_weight: int = checks.whole_number("priority_weight", priority_weight, where=where)
        self.queue = queue
        self.executor = executor
        self.executor_config: dict[str, Any] = executor_config_as_json(executor_config, where)
        self.run_as_user: str | None = checks.optional_text("run_as_user", run_as_user, where)
        self.max_active_tis_per_dag: int | None = checks.optional_number(
            "max_active_tis_per_dag", max_active_tis_per_dag, least=0, where=where
        )
        self.max_active_tis_per_dagrun: int | None = checks.optional_number(
            "max_active_tis_per_dagrun", max_active_tis_per_dagrun, least=0, where=where
        )

        self.on_execute_callback: CallbackList = checks.callbacks("on_execute_callback", on_execute_callback, where)
        self.on_success_callback: CallbackList = checks.callbacks("on_success_callback", on_success_callback, where)
        self.on_failure_callback: CallbackList = checks.callbacks("on_failure_callback", on_failure_callback, where)
        self.on_retry_callback: CallbackList = checks.callbacks("on_retry_callback", on_retry_callback, where)
        self.on_skipped_callback: CallbackList = checks.callbacks("on_skipped_callback", on_skipped_callback, where)
        self._pre_execute = pre_execute
        self._post_execute = post_execute

        self.do_xcom_push = do_xcom_push
        self.multiple_outputs = multiple_outputs
        self.inlets: list[Any] = _as_list(inlets)
        self.outlets: list[Any] = _as_list(outlets)
        self.map_index_template = map_index_template
        self.task_display_name: str = task_display_name or task_id
        self.logger_name = logger_name
        self.doc_md = doc_md
        self.doc: str | None = doc or doc_md or doc_rst or doc_json or doc_yaml
        self.is_setup: bool = False
        self.is_teardown: bool = False
        self.on_failure_fail_dagrun: bool = False

        if self.start_trigger_args is not None:
            self.start_trigger_args = self.start_trigger_args.copy()

        self._params = dict(params or {})
        self.dag: Dag | None = None
        self.task_group: Group | None = None
        self.task_id: str = task_id
        self._join(dag, task_group)

    @staticmethod
    def xcom_push(context: Any, key: str, value: Any, execution_date: Any = None) -> None:
        """`context["ti"].xcom_push(key, value)`, as operators of Airflow 1.10 and 2 call it."""
        context["ti"].xcom_push(key, value)

    @staticmethod
    def xcom_pull(context: Any, task_ids: Any = None, dag_id: str | None = None, **options: Any) -> Any:
        """`context["ti"].xcom_pull(…)`, as operators of Airflow 1.10 and 2 call it."""
        return context["ti"].xcom_pull(task_ids=task_ids, dag_id=dag_id, **options)

    def set_downstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        """Let `other` (one or a list) wait for this. A DAG gets the task, as `task >> dag` means in Airflow 1.10."""
        if not self._is_given_to(other):
            super().set_downstream(other, edge_modifier)

    def set_upstream(self, other: Any, edge_modifier: Label | None = None) -> None:
        """Let this wait for `other` (one or a list). A DAG gets the task, as `dag >> task` means in Airflow 1.10."""
        if not self._is_given_to(other):
            super().set_upstream(other, edge_modifier)

    def _is_given_to(self, other: Any) -> bool:
        """Whether `other` is a DAG, which has the task then."""
        if not hasattr(other, "task_dict") or (self.dag is not None and self.dag is not other):
            return False
        other.add_task(self)
        return True

    def _join(self, dag: Dag | None, group: Group | None) -> None:
        """Join the given DAG and group, or those of the innermost `with`."""
        where = self._origin
        if dag is None:
            dag = group.dag if group is not None else current_dag()
        if dag is None:
            made_without_dag(self)
            return
        if group is not None and group.dag is not dag:
            raise checks.fail(f"Task {self.label!r}: group {group.group_id!r} belongs to another DAG than dag=.", where)
        group = group or current_group(dag)
        if group is not None:
            self.task_group = group
            self.task_id = checks.valid_key("task_id", group.child_id(self.label), where)
        dag.add_task(self)
        if group is not None:
            group.children[self.task_id] = self
        join_scope(self)

    # Implemented by subclasses, called by the runner

    def execute(self, context: Context) -> Any:
        """Do the work and return the value for XCom, or None. A coroutine function if it mostly waits."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(self, context): implement it.")

    def pre_execute(self, context: Context) -> None:
        """Called just before `execute`."""
        if self._pre_execute is not None:
            self._pre_execute(context)

    def post_execute(self, context: Context, result: Any = None) -> None:
        """Called with the result just after `execute` has returned."""
        if self._post_execute is not None:
            self._post_execute(context, result)

    def on_kill(self) -> None:
        """Called when the attempt is stopped: release resources outside this process."""

    def timed_out(self, error: TaskTimeout) -> Exception:
        """The exception to raise after the `execution_timeout`: by default `error`, which fails the try."""
        return error

    def defer(
        self,
        *,
        trigger: BaseTrigger,
        method_name: str,
        kwargs: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
    ) -> NoReturn:
        """Free the slot until `trigger` fires; then `method_name(context, event=…, **kwargs)` continues the task.

        The method runs in a new copy of the task, perhaps in another process, so pass what it needs as `kwargs`
        (plain data, instants, durations). It may defer again. Raises TaskDeferred.
        """
        raise TaskDeferred(trigger=trigger, method_name=method_name, kwargs=kwargs, timeout=timeout)

    def initial_trigger(self) -> StartTriggerArgs | None:
        """The trigger in which the task starts; None if it starts in a worker. Raises DagError."""
        return declared(self, self.start_trigger_args) if self.start_from_trigger else None

    def external_mark(self) -> ExternalMark | None:
        """The task of another DAG that is cleared with this one; None for all but an `ExternalTaskMarker`."""
        return None

    def resumes_async(self, resume: Resume) -> bool:
        """Whether `resume_execution` returns a coroutine."""
        return resume.error is None and gives_coroutine(getattr(self, resume.next_method, None))

    def resume_execution(self, resume: Resume, context: Context) -> Any:
        """Called instead of `execute` after a deferral; the value of the method, or a coroutine.

        Raises TaskDeferralError when the trigger failed, TaskDeferralTimeout when it did not fire in time.
        """
        if resume.error is not None:
            if resume.timed_out:
                raise TaskDeferralTimeout(resume.error)
            raise TaskDeferralError(f"what it waited for failed: {resume.error}")
        from aiosched.authoring.triggers.encoding import load  # few tasks defer

        method = getattr(self, resume.next_method, None)
        if method is None:
            raise AioschedError(
                f"Task {self.task_id!r} was to continue with {resume.next_method!r}, but {self.task_type} has no such "
                "method: name an existing one in defer(method_name=…)."
            )
        return method(context, event=load(resume.event), **load(resume.next_kwargs))

    @property
    def is_async(self) -> bool:
        """Whether `execute` is a coroutine function, or returns a coroutine."""
        return gives_coroutine(type(self).execute)

    def render(self, context: Context) -> Self:
        """The task to execute: a shallow copy with templates rendered and outputs of other tasks filled in.

        The task itself when there is nothing to fill in and `execute` does not change it. Fetch
        `xcom_references()` before (`await ti.prefetch(...)`), so that this method does not block.
        """
        return render_task(self, context)

    def xcom_references(self, map_index: int = -1) -> tuple[XComRef, ...]:
        """All XComs that the arguments read: outputs of other tasks, and `ti.xcom_pull(…)` in templates.

        For a task in a mapped group, those of `map_index` where it reads only its own index.
        """
        arguments = [
            value for value in self._arguments() if value is not None and (type(value) not in CONTAINERS or value)
        ]
        if not arguments:
            return ()
        sources = [source for output in iter_outputs(arguments) for source in output.sources]
        sources += length_sources(self, [source.operator for source in sources])
        refs = dict.fromkeys(ref for source in sources for ref in source.refs_of(self, map_index))
        refs.update(dict.fromkeys(template_references(arguments, self, map_index)))
        return tuple(refs)

    def _arguments(self) -> Sequence[Any]:
        """The values to fill in before each attempt: templates, and outputs of other tasks."""
        return [getattr(self, name, None) for name in self.template_fields]

    def _shown_fields(self) -> dict[str, Any]:
        """The template fields by name, to display."""
        return {name: getattr(self, name, None) for name in self.template_fields}

    @property
    def operator_extra_link_dict(self) -> Mapping[str, BaseOperatorLink]:
        """The links by name."""
        return {link.name: link for link in self.operator_extra_links}

    @property
    def extra_links(self) -> list[str]:
        """The names of the links."""
        return sorted(self.operator_extra_link_dict)

    def run(self, start_date: datetime | None = None, end_date: datetime | None = None, **options: Any) -> None:
        """Run the task alone for each logical date between two, as tests of Airflow projects do; raises what it raises.

        Nothing is stored, and upstream tasks count as done. Raises Refused in a task.
        """
        if is_at_work():
            raise Refused(f"A task cannot run others: make {self.task_id!r} downstream of it.")
        provided("run_task")(self, start_date, end_date, **options)

    def dry_run(self) -> None:
        """Log the template fields; nothing is done."""
        for name in self.template_fields:
            self.log.info("%s: %s", name, getattr(self, name, None))

    @cached_property
    def log(self) -> logging.Logger:
        """The logger for `execute`. Its messages are in the attempt's log."""
        return logging.getLogger(self.logger_name or f"aiosched.task.{type(self).__module__}.{type(self).__name__}")

    @cached_property
    def params(self) -> ParamsDict:
        """The params of this task: the DAG's, overridden by its own."""
        from aiosched.authoring.base.params import ParamsDict

        outer = self.dag.params if self.dag is not None else {}
        return ParamsDict({**outer, **self._params}, owner=f"task {self.task_id!r}")

    # Dependencies

    @property
    def output(self) -> XComArg[Any]:
        """What the task returns, as an argument for other tasks."""
        return XComArg(self, RETURN_VALUE)

    @property
    def first_tasks(self) -> Sequence[BaseOperator]:
        return [self]

    @property
    def last_tasks(self) -> Sequence[BaseOperator]:
        return [self]

    @property
    def upstream_list(self) -> list[BaseOperator]:
        """The tasks that this one waits for, by id."""
        return [self.dag.task(task_id) for task_id in sorted(self.upstream_task_ids)] if self.dag else []

    @property
    def downstream_list(self) -> list[BaseOperator]:
        """The tasks that wait for this one, by id."""
        return [self.dag.task(task_id) for task_id in sorted(self.downstream_task_ids)] if self.dag else []

    def has_dag(self) -> bool:
        """Whether the task belongs to a DAG."""
        return self.dag is not None

    def get_dag(self) -> Dag | None:
        """The DAG of the task, or None."""
        return self.dag

    def get_direct_relative_ids(self, upstream: bool = False) -> set[str]:
        """The ids of the tasks just after this one, or just before it."""
        return set(self.upstream_task_ids if upstream else self.downstream_task_ids)

    def get_direct_relatives(self, upstream: bool = False) -> list[BaseOperator]:
        """The tasks just after this one, or just before it, by id."""
        return self._relatives_by_id(self.get_direct_relative_ids(upstream))

    def get_flat_relative_ids(self, *, upstream: bool = False) -> set[str]:
        """The ids of all tasks after this one, or before it, however far."""
        return set(self._flat_ids(upstream))

    def get_flat_relatives(self, upstream: bool = False) -> list[BaseOperator]:
        """All tasks after this one, or before it, however far, by id."""
        return self._relatives_by_id(self._flat_ids(upstream))

    def _flat_ids(self, upstream: bool) -> Iterator[str]:
        seen: set[str] = set()
        waiting = sorted(self.get_direct_relative_ids(upstream))
        while waiting:
            task_id = waiting.pop()
            if task_id in seen:
                continue
            seen.add(task_id)
            yield task_id
            [task] = self._relatives_by_id({task_id})
            waiting += sorted(task.get_direct_relative_ids(upstream))

    def _relatives_by_id(self, task_ids: Iterable[str]) -> list[BaseOperator]:
        wanted = sorted(task_ids)
        if wanted and self.dag is None:
            raise AioschedError(f"Task {self.task_id!r} is in no DAG, so its relatives are not known. Give it dag=.")
        return [self.dag.task(task_id) for task_id in wanted] if self.dag is not None else []

    @property
    def dag_id(self) -> str:
        """The id of the task's DAG; empty for a task without one."""
        return self.dag.dag_id if self.dag is not None else ""

    @property
    def task_type(self) -> str:
        """The name of the class, to display."""
        return self.operator_class.__name__

    @property
    def operator_name(self) -> str:
        """As `task_type`; of a decorated function `@task` or the like."""
        return str(getattr(self.operator_class, "custom_operator_name", "") or self.task_type)

    @property
    def node_id(self) -> str:
        """The id of the task; a group has one, too."""
        return self.task_id

    @property
    def roots(self) -> list[Self]:
        """The task, as the only one of itself."""
        return [self]

    leaves = roots

    @property
    def operator_class(self) -> type[BaseOperator]:
        """The operator class; for a mapped task, the class of its instances."""
        return type(self)

    def wire_arguments(self) -> None:
        """Make every task whose output is an argument of this one upstream of it."""
        arguments = self._arguments()
        templates: Collection[str] = self.dag.outputs_in_texts if self.dag is not None else ()
        for name in _EARLY:
            if _is_unknown(getattr(self, name), templates):
                raise self.fail(
                    f"Task {self.task_id!r} got {name.lstrip('_')}= with a value that is not known yet, and this "
                    "option is needed before the task starts. Give it a fixed value."
                )
        for text in strings_in(arguments):
            if (kind := written_in(text)) is not None:
                raise self.fail(
                    f"Task {self.task_id!r} got the text {text!r:.80}, in which {kind}(…) stands for a value that is "
                    "not known yet. Pass it to the task by itself, or in a list or dict, and make the text there."
                )
        for key in unfilled_keys(arguments, templates):
            raise self.fail(
                f"Task {self.task_id!r} got {key!r:.80} as a key of a dict, which is not known yet. "
                "Pass a list of pairs, and make the dict in the task."
            )
        for output in iter_outputs(arguments):
            output.check_reader(self)
            for source in output.sources:
                if source.operator is not self and source.operator.task_id not in self.upstream_task_ids:
                    connect(source.operator, self)

    def as_setup(self) -> Self:
        """Mark the task as a setup."""
        if self.is_teardown:
            raise self.fail(f"Task {self.task_id!r} is a teardown, so it cannot be a setup. Make two tasks of it.")
        self.is_setup = True
        return self

    def as_teardown(
        self, *, setups: Dependable | Collection[Dependable] | None = None, on_failure_fail_dagrun: bool = False
    ) -> Self:
        """Mark the task as a teardown. `setups` are marked as setups and become its direct upstreams.

        Its failure fails the run only with `on_failure_fail_dagrun`. Source: the semantics reference,
        section 8.
        """
        if self.is_setup:
            raise self.fail(f"Task {self.task_id!r} is a setup, so it cannot be a teardown. Make two tasks of it.")
        if self.trigger_rule not in {TriggerRule.ALL_SUCCESS, TriggerRule.ALL_DONE_SETUP_SUCCESS}:
            raise self.fail(
                f"Task {self.task_id!r} is a teardown, and teardowns have their own trigger rule. "
                f"Leave out trigger_rule={self.trigger_rule!r}."
            )
        self.is_teardown = True
        self.on_failure_fail_dagrun = on_failure_fail_dagrun
        self.trigger_rule = TriggerRule.ALL_DONE_SETUP_SUCCESS.value
        for setup in [setups] if isinstance(setups, Dependable) else setups or ():
            for task in setup.last_tasks:
                connect(task.as_setup(), self)
        return self

    def __enter__(self) -> Scope:
        """The tasks created in the block run after the setup and before the teardown."""
        return open_scope([self])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_scope(wire=error is None)

    @classmethod
    def partial(cls, **kwargs: Any) -> Partial:
        """The arguments that all instances of a mapped task share; `.expand(…)` on the result creates the task."""
        return cls._partial_type(cls, kwargs)

    def fail(self, message: str) -> DagError:
        """The error to raise about this task, with the line where its author created it."""
        return checks.fail(message, self._origin)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.task_id}>"


def _named(parse: Callable[[str], Any], name: str, where: Location | None) -> Any:
    try:
        return parse(name)
    except DagError as error:
        raise checks.fail(str(error), where) from None


def _policy(value: object, where: Location | None) -> RetryPolicy | RetryFunction | None:
    if value is None or isinstance(value, RetryPolicy) or (callable(value) and not isinstance(value, type)):
        return value
    raise checks.fail(f"retry_policy={value!r} is wrong: give a function, or a RetryPolicy.", where)


def _backoff(value: object, where: Location | None) -> float:
    """The multiplier of an exponential backoff: True is 2, False 0."""
    if isinstance(value, bool):
        return 2.0 if value else 0.0
    if isinstance(value, int | float) and value >= 0:
        return float(value)
    raise checks.fail(f"retry_exponential_backoff={value!r} is wrong: give True, False or a multiplier.", where)


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple | set) else [value]


def _is_unknown(option: Any, templates: Collection[str]) -> bool:
    """Whether an option is, or has, a value that is not known yet or a text with one of the `templates` of outputs."""
    if isinstance(option, str):
        return bool(templates) and any(template in option for template in templates)
    if isinstance(option, Mapping):
        option = option.values()
    elif not isinstance(option, list | tuple):
        texts = (getattr(option, "name", None), getattr(option, "uri", None)) if option is not None else ()
        return isinstance(option, Unknown) or any(
            _is_unknown(text, templates) for text in texts if isinstance(text, str | Unknown)
        )
    return any(_is_unknown(one, templates) for one in option)
