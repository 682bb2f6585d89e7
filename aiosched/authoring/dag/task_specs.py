"""Serializes a task to its `TaskSpec`. Source: the semantics reference, section 31.1."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, outlet_of
from aiosched.authoring.base.checks import display_name
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.dag.blocking_checks import checked_asset
from aiosched.authoring.operators.empty import EmptyOperator
from aiosched.authoring.tasks.rendering import needs_rendering
from aiosched.authoring.tasks.shown_values import as_json
from aiosched.authoring.tasks.weight_strategies import weights_of
from aiosched.core.graph.spec import AssetRef, TaskSpec
from aiosched.core.values.instants import plain_utc
from aiosched.core.values.messages import Deferral
from aiosched.core.values.retries import MAX_TASK_RETRY_DELAY

if TYPE_CHECKING:
    from aiosched.authoring.tasks.operator import BaseOperator
    from aiosched.authoring.triggers.base import BaseTrigger


def task_spec(task: BaseOperator) -> TaskSpec:
    """The serialized form of one task."""
    weights = weights_of(task)
    return TaskSpec(
        task_id=task.task_id,
        operator=task.task_type,
        display_name=display_name(
            "task_display_name", task.task_display_name, {task.task_id, task.label}, task._origin
        ),
        module=task.operator_class.__module__,
        upstream=tuple(sorted(task.upstream_task_ids)),
        group_id=task.task_group.group_id if task.task_group else None,
        trigger_rule=task.trigger_rule,
        is_async=task.is_async,
        is_empty=_is_empty(task),
        can_skip_downstream=task.can_skip_downstream,
        has_retry_callback=bool(task.on_retry_callback),
        has_failure_callback=bool(task.on_failure_callback),
        has_success_callback=bool(task.on_success_callback),
        has_skipped_callback=bool(task.on_skipped_callback),
        starts_deferred=_starts_deferred(task),
        marks=task.external_mark(),
        retries=task.retries,
        retry_delay=task.retry_delay.total_seconds(),
        retry_exponential_backoff=task.retry_exponential_backoff,
        max_retry_delay=_max_retry_delay(task),
        execution_timeout=seconds(task.execution_timeout),
        sla=seconds(task.sla),
        pool=task.pool,
        pool_slots=task.pool_slots,
        priority_weight=task.priority_weight,
        weight_rule="absolute" if weights else str(task.weight_rule),
        weights=weights,
        queue=task.queue,
        executor=task.executor,
        executor_config=task.executor_config,
        run_as_user=task.run_as_user,
        max_active_tis_per_dag=task.max_active_tis_per_dag,
        max_active_tis_per_dagrun=task.max_active_tis_per_dagrun,
        depends_on_past=bool(task.depends_on_past),
        wait_for_downstream=bool(task.wait_for_downstream),
        ignore_first_depends_on_past=bool(task.ignore_first_depends_on_past),
        wait_for_past_depends_before_skipping=bool(task.wait_for_past_depends_before_skipping),
        start_date=utc(task.start_date),
        end_date=utc(task.end_date),
        mapping=task.expand_input.spec() if task.expand_input is not None else None,
        map_index_template=task.map_index_template,
        is_setup=task.is_setup,
        is_teardown=task.is_teardown,
        on_failure_fail_dagrun=task.on_failure_fail_dagrun,
        owner=task.owner,
        doc=task.doc,
        template_fields={name: as_json(value) for name, value in task._shown_fields().items()},
        inlets=_inlets(task),
        outlets=_asset_refs(task, "outlet", task.outlets),
        params={name: as_json(task.params[name]) for name in task._params},
    )


def _starts_deferred(task: BaseOperator) -> Deferral | None:
    """The deferral with which `task` starts; None if it starts in a worker. Raises DagError."""
    if (args := task.initial_trigger()) is None:
        return None
    from aiosched.authoring.triggers.encoding import deferral  # few tasks start so

    called = f"Task {task.task_id!r}"
    if needs_rendering((args.trigger_kwargs, args.next_kwargs), task):
        raise task.fail(
            f"{called} starts in its trigger, where templates and outputs of other tasks are not filled in. "
            "Give plain values in start_trigger_args, or leave start_from_trigger out and let execute() defer."
        )
    if not callable(getattr(task.operator_class, args.next_method, None)):
        raise task.fail(
            f"{called} is to continue with {args.next_method!r} after its trigger, but {task.task_type} has no such "
            "method. Name an existing one in StartTriggerArgs(next_method=…)."
        )
    try:
        path = _path_of(args.trigger_cls)
        return deferral(path, args.trigger_kwargs or {}, args.next_method, args.next_kwargs or {}, args.timeout)
    except TypeError as error:
        raise task.fail(f"{called}, start_trigger_args: {error}") from None


def _path_of(kind: type[BaseTrigger] | str) -> str:
    if isinstance(kind, str):
        if "." not in kind:
            raise TypeError(f"trigger_cls={kind!r} is not the path of a class, such as 'my_triggers.Door'.")
        return kind
    if not isinstance(kind, type) or "<locals>" in kind.__qualname__:
        raise TypeError(f"trigger_cls={kind!r} is neither a class at the top of a module nor the path of one.")
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_empty(task: BaseOperator) -> bool:
    kind = type(task)
    return (
        isinstance(task, EmptyOperator)
        and task.is_trivial
        and kind.pre_execute is EmptyOperator.pre_execute
        and kind.post_execute is EmptyOperator.post_execute
        and task._pre_execute is None
        and task._post_execute is None
        and not (task.on_execute_callback or task.on_success_callback or task.inlets or task.outlets)
    )


def _max_retry_delay(task: BaseOperator) -> float | None:
    """The limit of the growing retry delay of a task; None for the default (22.1)."""
    own, limit = seconds(task.max_retry_delay), defaults().max_retry_delay
    if own is not None:
        return min(own, limit)
    grows = task.retry_exponential_backoff not in (0, 1)
    return limit if grows and limit != MAX_TASK_RETRY_DELAY else None


def _inlets(task: BaseOperator) -> tuple[AssetRef, ...]:
    refs = _asset_refs(task, "inlet", task.inlets)
    if (asset := checked_asset(task)) is None:
        return refs
    checked = _ref(task, "inlet", asset)
    return tuple(msgspec.structs.replace(ref, is_check=True) if ref == checked else ref for ref in refs)


def _asset_refs(task: BaseOperator, role: str, values: Iterable[object]) -> tuple[AssetRef, ...]:
    """The inlets or outlets of a task as in its spec, each once; a string is the name of an asset."""
    refs = (_ref(task, role, value) for value in values)
    return tuple({(ref.is_alias, ref.kind, ref.name): ref for ref in refs}.values())


def _ref(task: BaseOperator, role: str, value: object) -> AssetRef:
    found = outlet_of(value)
    if isinstance(found, AssetAlias):
        return AssetRef(name=found.name, is_alias=True)
    if isinstance(found, AssetLink):
        return AssetRef(name=found.name or found.uri, kind="name" if found.name else "uri")
    if isinstance(found, Asset):
        uri = "" if found.uri == found.name else found.uri
        within = seconds(found.fresh_within)
        return AssetRef(name=found.name, uri=uri, extra=found.shown_extra, fresh_within=within, group=found.group)
    raise task.fail(f"Task {task.task_id!r}: {value!r} among its {role}s is not an asset. Write Asset('…').")


def utc(moment: datetime | None) -> datetime | None:
    """The instant in UTC."""
    return None if moment is None else plain_utc(moment)


def seconds(span: timedelta | None) -> float | None:
    """The length of a duration."""
    return None if span is None else span.total_seconds()
