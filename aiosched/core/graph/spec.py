"""The serialized DAG, which parsing stores and the scheduler reads. No code, no callbacks.

Source: the semantics reference, section 31.1. `DagSpec` does not hold the path of its file, so that moving a file does
not create a new version. Durations are seconds, instants aware UTC. Fields with their default value are left out of the
JSON.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from aiosched.core.assets.conditions import NO_GROUP, AssetReference, leaves, reference_of
from aiosched.core.timetables import AnyTimetable, NullTimetable, PartitionedAssetTimetable, condition_of
from aiosched.core.values.messages import Deferral
from aiosched.errors import Refused

DEFAULT_POOL: Final = "default_pool"
MARKED: Final = "marked_external_task"  # the XCom of a marker with templates: {dag_id, task_id, logical_date}


class LiteralLength(msgspec.Struct, frozen=True, tag_field="kind", tag="literal"):
    """Mapping over a value in the DAG file."""

    length: int


class TaskOutput(msgspec.Struct, frozen=True, tag_field="kind", tag="task"):
    """Mapping over the return value of a task (of all its instances, if it is mapped itself)."""

    task_id: str


class Zipped(msgspec.Struct, frozen=True, tag_field="kind", tag="zip"):
    """As long as the shortest input, or as the longest if there is a fill value."""

    inputs: tuple[MapInput, ...]
    longest: bool = False


class Concatenated(msgspec.Struct, frozen=True, tag_field="kind", tag="concat"):
    """As long as all inputs together."""

    inputs: tuple[MapInput, ...]


MapInput = LiteralLength | TaskOutput | Zipped | Concatenated


class MappingSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many instances a mapped task or group has: the product of the lengths of its inputs, in order.

    `.map(f)` does not change a length, so it is not stored here. Source: section 26.2.
    """

    inputs: tuple[MapInput, ...]


class AssetRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An inlet or outlet of a task: an asset or alias."""

    name: str
    uri: str = ""
    is_alias: bool = False
    kind: str = "asset"  # name or uri: an asset that another DAG defines
    extra: dict[str, Any] = {}  # of the asset itself
    fresh_within: float | None = None  # seconds; see core/assets/freshness.py
    group: str = NO_GROUP
    is_check: bool = False  # the task is a check of it


class ExternalMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an `ExternalTaskMarker` marks: a task of another DAG, cleared with the marker. Source: section 28.6."""

    dag_id: str = ""
    task_id: str = ""
    logical_date: datetime | None = None  # of the run that is meant; None: that of the marker's own run
    is_noted: bool = False  # templates: the marker stores what it marks when it runs, see `MARKED`
    recursion_depth: int = 10


class DeadlineSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deadline: reference + interval (seconds). Source: section 23.4."""

    reference: str  # logical_date, queued_at, fixed, average_runtime
    interval: float
    at: datetime | None = None  # of `fixed`
    max_runs: int = 10
    min_runs: int | None = None


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task. Its position in `DagSpec.tasks` is its task index."""

    task_id: str
    operator: str  # the name of the class, to display
    module: str = ""
    upstream: tuple[str, ...] = ()  # direct upstream task ids, sorted
    display_name: str = ""  # shown in place of its id; empty: the id
    group_id: str | None = None  # innermost task group
    trigger_rule: str = "all_success"
    is_async: bool = False  # its execute is a coroutine function: many share one process
    is_empty: bool = False  # trivial empty task: succeeds without an executor
    can_skip_downstream: bool = False  # branch, short circuit, latest only
    has_retry_callback: bool = False
    has_failure_callback: bool = False
    has_success_callback: bool = False
    has_skipped_callback: bool = False
    starts_deferred: Deferral | None = None  # it starts in this trigger, without a worker
    marks: ExternalMark | None = None  # a task of another DAG, which clearing follows

    retries: int = 0
    retry_delay: float = 300.0
    retry_exponential_backoff: float = 0.0  # multiplier; 0 and 1 mean constant
    max_retry_delay: float | None = None
    execution_timeout: float | None = None
    sla: float | None = None

    pool: str = DEFAULT_POOL
    pool_slots: int = 1
    priority_weight: int = 1
    weight_rule: str = "downstream"
    weights: tuple[int, ...] = ()  # of a weight strategy: by try, from the first on; the last is that of all later ones
    queue: str = "default"
    executor: str | None = None
    executor_config: dict[str, Any] = {}  # JSON, for its executor
    run_as_user: str | None = None  # the user of the worker's machine as whom it runs
    max_active_tis_per_dag: int | None = None
    max_active_tis_per_dagrun: int | None = None

    depends_on_past: bool = False
    wait_for_downstream: bool = False
    ignore_first_depends_on_past: bool = True
    wait_for_past_depends_before_skipping: bool = False
    start_date: datetime | None = None
    end_date: datetime | None = None

    mapping: MappingSpec | None = None
    map_index_template: str | None = None
    inlets: tuple[AssetRef, ...] = ()
    outlets: tuple[AssetRef, ...] = ()

    is_setup: bool = False
    is_teardown: bool = False
    on_failure_fail_dagrun: bool = False

    owner: str = ""
    doc: str | None = None
    template_fields: dict[str, Any] = {}  # literal values (JSON), to display
    params: dict[str, Any] = {}


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task group; `group_id` includes the prefixes of its parents."""

    group_id: str
    parent_id: str | None = None
    display_name: str = ""  # shown in place of its id
    tooltip: str = ""
    mapping: MappingSpec | None = None
    arguments: dict[str, Any] = {}  # what it is mapped over (JSON), to display


AIRFLOW_2: Final = "Airflow 2"  # a value of `DagSpec.defaults_of`


class ParamSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A param: its default (absent when `required`) and its JSON schema.

    `typed` is the default with the marks of its types (core/values/typed_json.py), for one that JSON does not hold.
    """

    value: Any = None
    typed: Any = None
    required: bool = False
    description: str | None = None
    json_schema: dict[str, Any] = {}


class RunKeySpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """At most `most` runs at a time that have the same value at `path` in their conf."""

    path: tuple[str, ...]
    most: int = 1


class DagSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One DAG as the scheduler sees it."""

    dag_id: str
    display_name: str = ""  # shown in place of its id
    timetable: AnyTimetable = NullTimetable()
    timezone: str = "UTC"
    start_date: datetime | None = None
    end_date: datetime | None = None
    catchup: bool = False
    max_active_runs: int = 16
    run_key: RunKeySpec | None = None
    max_active_tasks: int = 16
    max_active_tasks_per_run: int | None = None
    max_consecutive_failed_dag_runs: int = 0
    dagrun_timeout: float | None = None
    fail_fast: bool = False
    is_paused_upon_creation: bool | None = None
    allowed_run_types: tuple[str, ...] | None = None  # None: all
    params: dict[str, ParamSpec] = {}
    param_order: tuple[str, ...] = ()  # their names in the author's order: in the JSON they are sorted
    tags: tuple[str, ...] = ()  # sorted
    owner: str = ""
    description: str | None = None
    doc_md: str | None = None
    has_success_callback: bool = False
    has_failure_callback: bool = False
    tells_missed_slas: bool = False  # by a callback or by mail
    tasks: tuple[TaskSpec, ...] = ()
    groups: tuple[GroupSpec, ...] = ()
    owner_links: dict[str, str] = {}  # owner -> URL
    access_control: dict[str, str] = {}  # group or team -> role that the author gives it for this DAG
    deadlines: tuple[DeadlineSpec, ...] = ()
    edge_labels: dict[str, str] = {}  # "up>down" -> label
    defaults_of: str = ""  # whose defaults of catchup and schedule it has, such as Airflow 2; empty: ours
    catchup_is_guess: bool = False  # it catches up only because its file seems to be one of Airflow 2


def encode_spec(spec: DagSpec) -> bytes:
    """The canonical JSON of `spec`: keys sorted recursively, so that equal DAGs are equal bytes."""
    return msgspec.json.encode(spec, order="sorted")


def decode_spec(document: bytes | str) -> DagSpec:
    """The DAG of a stored document, its params in their author's order.

    Raises msgspec.ValidationError for an invalid document.
    """
    spec = _DECODER.decode(document)
    if not spec.param_order:
        return spec
    return msgspec.structs.replace(spec, params={name: spec.params[name] for name in spec.param_order})


def display_names(spec: DagSpec) -> dict[str, str]:
    """What is shown in place of the ids of tasks and groups, for those that have it."""
    tasks = {task.task_id: task.display_name for task in spec.tasks if task.display_name}
    return tasks | {group.group_id: group.display_name for group in spec.groups if group.display_name}


def asset_references(spec: DagSpec) -> tuple[AssetReference, ...]:
    """Every mention of an asset in the DAG's schedule and in its tasks' inlets and outlets, each once."""
    condition = condition_of(spec.timetable)
    found = [] if condition is None else [reference_of(leaf) for leaf in leaves(condition)]
    if isinstance(spec.timetable, PartitionedAssetTimetable):
        found = [replace(mention, partitioned=True) for mention in found]
    for task in spec.tasks:
        for role, refs in (("inlet", task.inlets), ("outlet", task.outlets)):
            found += [_mention(role, ref, task.task_id) for ref in refs]
    return tuple(dict.fromkeys(found))


def _mention(role: str, ref: AssetRef, task_id: str) -> AssetReference:
    kind = "alias" if ref.is_alias else ref.kind
    if kind == "asset":
        uri = ref.uri or ref.name
        extra, within, group = ref.extra, ref.fresh_within, ref.group
        return AssetReference(
            role, kind, ref.name, uri, task_id, extra, fresh_within=within, group=group, is_check=ref.is_check
        )
    return AssetReference(role, kind, ref.name or ref.uri, "", task_id, is_check=ref.is_check)


def content_hash(document: bytes) -> str:
    """The digest that distinguishes versions."""
    return hashlib.sha256(document).hexdigest()


_DECODER: Final = msgspec.json.Decoder(DagSpec)


def why_unreadable(dag_id: str, number: int, error: object) -> str:
    """The message about a version whose document this aiosched cannot read, with what to do."""
    return (
        f"Version {number} of DAG {dag_id!r} cannot be read ({error}): a newer aiosched wrote it, "
        "or it is broken. Run that aiosched, or change the DAG, so that a new version is stored."
    )


def read_document(document: str, dag_id: str, number: int) -> DagSpec:
    """The DAG of a stored version. Raises Refused for a document that this aiosched cannot read."""
    try:
        return decode_spec(document)
    except Exception as error:  # whatever the error is, the remedy is the same
        raise Refused(why_unreadable(dag_id, number, f"{type(error).__name__}: {error}")) from error
