"""Serializes a DAG to its `DagSpec`, after the last checks.

Two parses of the same file give equal specs: sets are sorted, and nothing depends on memory addresses, the path
of the file or the time of day. Source: the semantics reference, section 31.1.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from aiosched.authoring.base.checks import display_name, fail, warn
from aiosched.authoring.base.dependencies import connect
from aiosched.authoring.base.plain_values import strict_json
from aiosched.authoring.dag.blocking_checks import check_blocking
from aiosched.authoring.dag.task_specs import seconds, task_spec, utc
from aiosched.authoring.mapping.mapped import check_rule
from aiosched.authoring.tasks.rendering import strings_in
from aiosched.core.graph.graph import cycle_in
from aiosched.core.graph.spec import DagSpec, GroupSpec, ParamSpec, RunKeySpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.timetables import AssetOrTimeSchedule, condition_of
from aiosched.core.values.states import RunType
from aiosched.errors import DagCycleError, ParamError

if TYPE_CHECKING:
    from aiosched.authoring.base.location import Location
    from aiosched.authoring.base.params import Param
    from aiosched.authoring.dag.contents import DagContents
    from aiosched.authoring.tasks.operator import BaseOperator


def to_spec(dag: DagContents, *, now: datetime) -> DagSpec:
    """The serialized form of `dag`. Raises DagError, or a subclass, for a DAG that cannot run."""
    for task in dag.task_dict.values():
        task.wire_arguments()
    if dag.outputs_in_texts:
        _wire_texts(dag)
    check_cycle(dag)
    _check_schedule(dag)
    for task in dag.task_dict.values():
        _check_rules(dag, task)
    check_blocking(dag)
    return DagSpec(
        dag_id=dag.dag_id,
        display_name=display_name("dag_display_name", dag.dag_display_name, {dag.dag_id}, dag._origin),
        timetable=dag.timetable_at(now),
        timezone=dag.zone_name,
        start_date=utc(dag.start_date),
        end_date=utc(dag.end_date),
        catchup=bool(dag.catchup),
        max_active_runs=dag.max_active_runs,
        run_key=_run_key(dag),
        max_active_tasks=dag.max_active_tasks,
        max_active_tasks_per_run=dag.max_active_tasks_per_run,
        max_consecutive_failed_dag_runs=dag.max_consecutive_failed_dag_runs,
        dagrun_timeout=seconds(dag.dagrun_timeout),
        fail_fast=bool(dag.fail_fast),
        is_paused_upon_creation=dag.is_paused_upon_creation,
        allowed_run_types=dag.allowed_run_types,
        params={name: _param(name, param, dag) for name, param in dag.params.declared().items()},
        param_order=tuple(dag.params.declared()),
        tags=tuple(dag.tags),
        owner=dag.owner,
        description=dag.description,
        doc_md=dag.doc_md,
        has_success_callback=bool(dag.on_success_callback),
        has_failure_callback=bool(dag.on_failure_callback),
        tells_missed_slas=any(task.sla is not None and (dag.sla_miss_callback or task.email) for task in dag.tasks),
        tasks=tuple(task_spec(task) for task in dag.task_dict.values()),
        groups=tuple(
            GroupSpec(
                group_id=group.group_id,
                parent_id=group.parent_group.group_id if group.parent_group else None,
                display_name=display_name(
                    "group_display_name", group.group_display_name, {group.group_id, group.label}, group._origin
                ),
                tooltip=group.tooltip,
                mapping=group.expand_input.spec() if group.expand_input is not None else None,
                arguments=group.expand_input.shown() if group.expand_input is not None else {},
            )
            for group in dag.task_groups.values()
        ),
        owner_links=dag.owner_links,
        access_control=dag.access_control,
        deadlines=tuple(deadline.to_spec() for deadline in dag.deadlines),
        edge_labels=dict(dag.edge_labels),
        defaults_of=dag.dialect.name if dag.dialect is not None else "",
        catchup_is_guess=dag.catchup_is_guess and dag.catchup,
    )


def advise(dag: DagContents) -> None:
    """Warn, at the author's line, about what works but perhaps not as the author expects."""
    for partial in dag.partials:
        if not partial.expanded:
            warn(f"{partial.name}.partial() makes no task. Call .expand() or .expand_kwargs() on it.", partial.where)
    for function in dag.task_functions:
        if not function.is_used:
            warn(
                f"The task function {function.__name__} is never called, so DAG {dag.dag_id!r} has no task of it. "
                f"Call it: {function.__name__}().",
                function.where,
            )
    _advise_on_dates(dag)
    _advise_on_slas(dag)
    _advise_on_run_types(dag)
    _advise_on_texts(dag)
    for task in dag.task_dict.values():
        before = task.upstream_task_ids
        if task.is_teardown and not any(dag.task(task_id).is_setup for task_id in before):
            when = "once all its upstream tasks are done, whatever their states" if before else "at once"
            warn(
                f"The teardown {task.task_id!r} has no setup, so it runs {when}. "
                "Name its setups: .as_teardown(setups=…).",
                task._origin,
            )


def _run_key(dag: DagContents) -> RunKeySpec | None:
    """The limit by key. Raises DagError for one that would wait for itself, and for a secret."""
    if dag.run_key is not None:
        if (name := dag.run_key.path[0]) in dag.params.secret_names():
            raise fail(
                f"DAG {dag.dag_id!r}: its concurrency_key names the param {name!r}, which holds a secret. Secrets are "
                "stored encrypted, the same one differently each time, and a key is shown: use a param that is none.",
                dag._origin,
            )
        for task in dag.tasks:
            if task.depends_on_past or task.wait_for_downstream:
                raise fail(
                    f"DAG {dag.dag_id!r} has a concurrency_key, and task {task.task_id!r} waits for the previous run, "
                    "which may be one that the key holds back: they would wait for each other. Leave out one of them.",
                    task._origin,
                )
    return dag.run_key


def _advise_on_dates(dag: DagContents) -> None:
    _advise_on_end(f"DAG {dag.dag_id!r}", dag.start_date, dag.end_date, dag._declared)
    for task in dag.tasks:
        start, end = task.start_date or dag.start_date, task.end_date or dag.end_date
        if (start, end) != (dag.start_date, dag.end_date):
            _advise_on_end(f"Task {task.task_id!r}", start, end, task._origin)


def _advise_on_end(what: str, start: datetime | None, end: datetime | None, where: Location | None) -> None:
    if start is not None and end is not None and end < start:
        warn(f"{what} never runs by its schedule: its end_date {end.isoformat()} is before its start_date "
             f"{start.isoformat()}. Exchange them, or leave out end_date.", where)  # fmt: skip


def _advise_on_run_types(dag: DagContents) -> None:
    condition, timetable = condition_of(dag.timetable), dag.timetable
    is_timed = isinstance(timetable, AssetOrTimeSchedule) or (condition is None and timetable.can_be_scheduled)
    for run_type, makes in ((RunType.SCHEDULED, is_timed), (RunType.ASSET_TRIGGERED, condition is not None)):
        if makes and dag.allowed_run_types is not None and run_type not in dag.allowed_run_types:
            warn(f"The schedule of DAG {dag.dag_id!r} makes no {run_type} runs, since its allowed_run_types leave "
                 "them out. Add them, or leave out schedule=.", dag._origin)  # fmt: skip


def _advise_on_slas(dag: DagContents) -> None:
    slas = [task for task in dag.tasks if task.sla is not None]
    if slas and not dag.timetable.periodic:
        warn(f"DAG {dag.dag_id!r} has no schedule dates, so no SLA of its tasks can be missed. Leave out sla=.",
             slas[0]._origin)  # fmt: skip
    if dag.sla_miss_callback and not slas:
        warn(f"DAG {dag.dag_id!r} has an sla_miss_callback, and no task with an SLA. Give one sla=….", dag._origin)
    for task in dag.tasks:
        if task.email and task.sla is None and "email" not in task._defaults and task._dialect is None:
            warn(f"Task {task.task_id!r}: 'email' gets mails about missed SLAs, and there is no sla=. For failures use "
                 "on_failure_callback=send_email(to=…).", task._origin)  # fmt: skip


def _advise_on_texts(dag: DagContents) -> None:
    for task in dag.task_dict.values() if dag.outputs_in_texts else ():
        into, given = getattr(task, "into", None), getattr(task, "partial_kwargs", None)
        if into is not None:  # the arguments of a function
            continue
        fields = {*task.operator_class.template_fields, "doc", "doc_md", "map_index_template"}
        options = vars(task) if given is None else given
        filled = [text for name in fields & options.keys() for text in strings_in(options[name])]
        for name, value in options.items():
            if name in fields or name.startswith("_"):
                continue
            kept = [text for text in strings_in(value) if "xcom_pull" in text]
            if any(template in text and not any(template in one for one in filled)
                   for template in dag.outputs_in_texts for text in kept):  # fmt: skip
                warn(f"Task {task.task_id!r} got {name}= with the output of a task in a text, and {name!r} is no "
                     f"template field of {task.task_type}: it stays a template. Make the text in a task.",
                     task._origin)  # fmt: skip


def _wire_texts(dag: DagContents) -> None:
    """Let tasks wait for the outputs in their texts, unless the author has put the two in an order."""
    for task in dag.task_dict.values():
        texts = [text for text in strings_in(task._arguments()) if "xcom_pull" in text]
        for template, task_id in dag.outputs_in_texts.items():
            if dag.has_task(task_id) and any(template in text for text in texts):
                source = dag.task(task_id)
                if source not in {task, *task.get_flat_relatives(upstream=True), *task.get_flat_relatives()}:
                    connect(source, task)


def check_cycle(dag: DagContents) -> None:
    """Raise DagCycleError naming the tasks of a cycle, if there is one."""
    cycle = cycle_in({task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks})
    if cycle is not None:
        raise fail(
            f"The tasks of DAG {dag.dag_id!r} wait for each other: {' >> '.join(cycle)}. "
            "Remove one of these dependencies.",
            dag._origin,
            kind=DagCycleError,
        )


def _check_schedule(dag: DagContents) -> None:
    if not dag.timetable.can_be_scheduled:
        return
    starts = [dag.start_date, *(task.start_date for task in dag.task_dict.values())]
    if dag.catchup and not any(starts):
        message = "has catchup=True, but no start_date to begin at. Give it one, or catchup=False."
        raise fail(f"DAG {dag.dag_id!r} {message}", dag._origin)
    for name, param in dag.params.declared().items():
        try:
            param.resolve(name)
        except ParamError as error:
            message = f"DAG {dag.dag_id!r} has a schedule, so every param needs a valid default. {error}"
            raise fail(message, param.origin or dag._origin, kind=ParamError) from None


def _check_rules(dag: DagContents, task: BaseOperator) -> None:
    """Source: the semantics reference, section 5.2 (parse-time restrictions) and 8.1."""
    check_rule(task)
    if task.on_failure_fail_dagrun and not task.is_teardown:
        raise task.fail(
            f"Task {task.task_id!r} has on_failure_fail_dagrun, which is for teardowns only. "
            "Mark it with .as_teardown(on_failure_fail_dagrun=True), or leave it out."
        )
    if task.is_teardown or task.trigger_rule == TriggerRule.ALL_SUCCESS:
        return
    if task.trigger_rule == TriggerRule.ALL_DONE_SETUP_SUCCESS:
        raise task.fail(
            f"Task {task.task_id!r} has trigger_rule='all_done_setup_success', which is for teardowns. "
            "Use .as_teardown(), or another rule."
        )
    if dag.fail_fast:
        raise task.fail(
            f"DAG {dag.dag_id!r} has fail_fast=True, so task {task.task_id!r} must have "
            f"trigger_rule='all_success', not {task.trigger_rule!r}."
        )
    for upstream_id in sorted(task.upstream_task_ids):
        if dag.task(upstream_id).is_setup:
            raise task.fail(
                f"Task {task.task_id!r} is directly downstream of the setup {upstream_id!r}, so it must have "
                f"trigger_rule='all_success', not {task.trigger_rule!r}."
            )


def _param(name: str, param: Param, dag: DagContents) -> ParamSpec:
    try:
        spec = param.to_spec()
        return msgspec.structs.replace(
            spec,
            value=strict_json(spec.value),
            typed=strict_json(spec.typed),
            json_schema=strict_json(spec.json_schema),
        )
    except TypeError as error:
        raise fail(
            f"Param {name!r} of DAG {dag.dag_id!r} cannot be stored: {error}. Use what a task can return.",
            param.origin or dag._origin,
            kind=ParamError,
        ) from None
