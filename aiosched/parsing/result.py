"""The outcome of parsing a file: messages between child, supervisor and scheduler.

The child sends its supervisor a `ChildAnswer` as JSON; user code ran in that process, so the answer is neither trusted
nor unpickled. The supervisor, which never runs user code, validates the answer and converts it to a `ParsedFile`.

Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 30.4.
"""

from __future__ import annotations

from typing import Final

import msgspec

from aiosched.authoring.dag.sources import source_hash
from aiosched.core.assets.conditions import AssetReference
from aiosched.core.graph.dependencies import DagDependency, dag_dependencies
from aiosched.core.graph.spec import DagSpec, asset_references, content_hash, decode_spec
from aiosched.core.timetables.upcoming import clock_zone
from aiosched.core.values.texts import storable

MAX_MESSAGE: Final = 4_000  # characters
MAX_TRACEBACK: Final = 40_000
MAX_OUTPUT_SHOWN: Final = 8_000
MAX_WARNINGS: Final = 100


class FileError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason why a file yielded no DAGs. `message` is one line; `line` is in the DAG file itself, from 1."""

    type: str  # the exception's class name; "Timeout", "Killed", "Exited" … if there was no exception
    message: str
    line: int | None = None
    traceback: str | None = None  # user frames only, then what the file printed
    code_frame: str | None = None


class ChildAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The child's answer: the canonical documents of `encode_spec`, or an error. At most one of the two."""

    dags: tuple[msgspec.Raw, ...] = ()
    error: FileError | None = None
    warnings: tuple[str, ...] = ()
    sources: dict[str, str] = {}  # see ParsedFile
    data: dict[str, str] = {}  # see ParsedFile
    reads_values: bool = False  # see ParsedFile
    unanswered: bool = False


class ParsedDag(msgspec.Struct, frozen=True, kw_only=True):
    """One DAG of a file: its document, and the facts that the scheduler needs without decoding it."""

    dag_id: str
    document: bytes
    content_hash: str
    max_active_runs: int
    max_active_tasks: int
    schedule: str | None
    schedule_timezone: str | None = None
    description: str | None
    owner: str | None
    tags: tuple[str, ...]
    is_paused_upon_creation: bool | None
    pools: tuple[str, ...]  # sorted
    references: tuple[AssetReference, ...] = ()  # its asset references
    executors: tuple[str, ...] = ()  # named by its tasks, sorted
    dependencies: tuple[DagDependency, ...] = ()  # on other DAGs
    catchup_is_guess: bool = False  # see DagSpec

    @property
    def spec(self) -> DagSpec:
        return decode_spec(self.document)


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one parse. `digest` and `source` refer to the imported content.

    `sources` are the content hashes of that file (of a member: its archive) and of all files below the DAGs folder that
    it imported, by relative path. None: unknown, the import never completed. `data` are those of other files there
    that it has read, and of the names in folders that it has listed: they are no part of its source.
    """

    name: str
    digest: str
    seconds: float
    source: str | None = None
    dags: tuple[ParsedDag, ...] = ()
    error: FileError | None = None
    warnings: tuple[str, ...] = ()
    sources: dict[str, str] | None = None
    data: dict[str, str] = {}
    bundle: str | None = None  # None: the DAGs folder
    bundle_version: str | None = None
    reads_values: bool = False  # the import looked up variables or connections that are not in the environment
    unanswered: bool = False  # and the database did not answer: the outcome says nothing about the file
    root: str = ""  # the folder below which `sources` are, but for the prefix of the bundle

    @property
    def source_hash(self) -> str | None:
        """The hash of the file's source and its imports."""
        return source_hash(self.sources) if self.sources else None

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal for outcomes that need not be stored twice."""
        meanings = tuple((d.dag_id, d.content_hash) for d in self.dags)
        return self.digest, meanings, self.error, self.warnings, self.sources, self.bundle_version

    def without_documents(self) -> ParsedFile:
        """The same outcome for comparison only: small, with an equal fingerprint."""
        dags = tuple(msgspec.structs.replace(d, document=b"") for d in self.dags)
        return msgspec.structs.replace(self, dags=dags, source=None)


def parsed_dag(document: bytes, spec: DagSpec) -> ParsedDag:
    """The stored form of `spec`, whose canonical JSON is `document`."""
    return ParsedDag(
        dag_id=spec.dag_id,
        document=document,
        content_hash=content_hash(document),
        max_active_runs=spec.max_active_runs,
        max_active_tasks=spec.max_active_tasks,
        schedule=spec.timetable.summary or None,
        schedule_timezone=clock_zone(spec.timetable),
        description=spec.description,
        owner=spec.owner or None,
        tags=spec.tags,
        is_paused_upon_creation=spec.is_paused_upon_creation,
        pools=tuple(sorted({task.pool for task in spec.tasks})),
        references=asset_references(spec),
        executors=tuple(sorted({task.executor for task in spec.tasks if task.executor is not None})),
        dependencies=dag_dependencies(spec),
        catchup_is_guess=spec.catchup_is_guess,
    )


def shortened(text: str, limit: int) -> str:
    """`text` in storable form, with its middle cut out beyond `limit` characters."""
    text = storable(text)
    if len(text) <= limit:
        return text
    keep = limit // 2
    return f"{text[:keep]}\n… {len(text) - 2 * keep} characters left out …\n{text[-keep:]}"


def one_line(text: str, limit: int = MAX_MESSAGE) -> str:
    """`text` on one line, storable, at most `limit` characters plus a truncation mark."""
    joined = shortened(" ".join(text.split()), 10 * limit)
    return joined if len(joined) <= limit else joined[:limit] + "…"
