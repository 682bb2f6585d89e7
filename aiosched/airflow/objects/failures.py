"""Errors and warnings that Airflow's DAG files and providers import by name, and that aiosched never raises itself."""

from __future__ import annotations

from aiosched.airflow.objects.named_classes import define
from aiosched.errors import AioschedError, ConfigError, NotFound, SkippedByPolicy, TaskSignal


class RemovedInAirflow3Warning(DeprecationWarning):
    """Something that Airflow 3 does not have any more."""

    deprecated_since: str | None = None


class RemovedInAirflow4Warning(DeprecationWarning):
    """Something that Airflow 4 will not have any more."""

    deprecated_since: str | None = None


class AirflowProviderDeprecationWarning(DeprecationWarning):
    """Something that a provider package will remove."""

    deprecated_provider_since: str | None = None


class AirflowConfigException(ConfigError):
    """A setting is wrong."""


class DagNotFound(NotFound):
    """There is no such DAG."""


class UnmappableXComTypePushed(AioschedError):
    """Tasks cannot be mapped over a value of that type."""


class AirflowContextDeprecationWarning(DeprecationWarning):
    """An old name in the context."""


class AirflowInternalRuntimeError(BaseException):
    """An error of Airflow itself."""


class AirflowTaskTerminated(BaseException):
    """A task was ended from outside."""


class AirflowClusterPolicySkipDag(SkippedByPolicy):
    """A policy of the installation leaves a DAG out."""


class DeserializationError(Exception):
    """Something cannot be read from its serialized form."""


class DagRunTriggerException(TaskSignal):
    """Airflow's signal that a task triggers a run; `TriggerDagRunOperator` does it without one here."""


class DownstreamTasksSkipped(TaskSignal):
    """Airflow's signal that a task skips others; set `can_skip_downstream` and use `SkipMixin` here."""


class SerializedDagNotFound(DagNotFound):
    """A DAG is not stored."""


class UnmappableXComLengthPushed(UnmappableXComTypePushed):
    """Tasks cannot be mapped over so many values."""


define(
    globals(),
    AioschedError,
    AirflowOptionalProviderFeatureException="A feature of a provider needs a package that is not installed.",
    AirflowBadRequest="A service refused a request.",
    AirflowInactiveAssetInInletOrOutletException="A task has an asset that is not active.",
    DagRunAlreadyExists="A DAG has a run with that id already.",
    DuplicateStateError="A sensor has the same state among those that it waits for and those that make it fail.",
    NotMapped="A task is not mapped.",
    SerializationError="Something cannot be serialized.",
    PodMutationHookException="A pod mutation hook failed.",
    PodReconciliationError="Two descriptions of a pod do not fit together.",
    TaskAlreadyInTaskGroup="A task is in another group already.",
    AirflowClusterPolicyViolation="A DAG or task breaks a policy of the installation.",
    AirflowClusterPolicyError="A policy of the installation failed.",
    AirflowDagInconsistent="A DAG and its tasks do not fit together.",
    AirflowDagDuplicatedIdException="Two files define a DAG with one id.",
    AirflowFileParseException="A file with connections or variables cannot be read.",
    AirflowUnsupportedFileTypeException="A file is of a kind that is not read.",
    ConnectionNotUnique="A file has a connection twice.",
    FileSyntaxError="A line of a file is wrong.",
    AirflowClearRunningTaskException="A task that is running was to be cleared.",
    AirflowRuntimeError="Airflow 3's service for tasks answered with an error.",
    BackfillUnfinished="Some tasks of a backfill have not succeeded.",
    NoAvailablePoolSlot="A pool has too few slots.",
    InvalidStatsNameException="The name of a metric is wrong.",
    TaskInKubernetesExecutorError="A task cannot be run in a pod.",
    AirflowSmartSensorException="A smart sensor of Airflow 2 failed.",
    AirflowWebServerTimeout="The web server did not start in time.",
    AirflowSecretsBackendAccessDenied="A backend of secrets refused to answer.",
    DagConcurrencyLimitReached="A DAG runs as many tasks as it may.",
    DagFileExists="There is a file of that name already.",
    DagRunTypeNotAllowed="A DAG does not allow runs of that type.",
    FailFastDagInvalidTriggerRule="A DAG that fails fast has a task with another trigger rule.",
    NodeNotFound="A DAG has no such task or group.",
    TaskAlreadyRunningError="A task instance runs already.",
    TaskConcurrencyLimitReached="A task has as many instances as it may.",
    UnmappableOperator="An operator cannot be mapped.",
    VariableNotUnique="A file has a variable twice.",
    XComForMappingNotPushed="A task did not push what others are mapped over.",
)
define(
    globals(),
    NotFound,
    DagRunNotFound="There is no such run.",
    TaskInstanceNotFound="There is no such task instance.",
    PoolNotFound="There is no such pool.",
    XComNotFound="A task did not push that value.",
    DagCodeNotFound="The source of a DAG is not stored.",
)
define(
    globals(),
    ValueError,
    DeserializingResultError="What a function returned in its own environment cannot be read here.",
    DagNotPartitionedError="A DAG has no partitions.",
    InvalidPartitionKeyError="A key names no partition.",
    UnknownExecutorException="There is no such executor.",
)
