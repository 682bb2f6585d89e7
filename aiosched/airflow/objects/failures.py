"""Errors and warnings that Airflow's DAG files and providers import by name, and that aiosched never raises itself."""

from __future__ import annotations

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


class AirflowContextDeprecationWarning(DeprecationWarning):
    """An old name in the context."""


class AirflowOptionalProviderFeatureException(AioschedError):
    """A feature of a provider needs another package, which is not installed."""


class AirflowBadRequest(AioschedError):
    """A service refused a request."""


class AirflowConfigException(ConfigError):
    """A setting is wrong."""


class AirflowInternalRuntimeError(BaseException):
    """An error of Airflow itself."""


class AirflowInactiveAssetInInletOrOutletException(AioschedError):
    """A task has an asset that is not active."""


class DagNotFound(NotFound):
    """There is no such DAG."""


class DagRunNotFound(NotFound):
    """There is no such run."""


class DeserializingResultError(ValueError):
    """What a function returned in its own environment cannot be read here."""


class DagRunAlreadyExists(AioschedError):
    """A DAG has a run with that id already."""


class TaskInstanceNotFound(NotFound):
    """There is no such task instance."""


class DuplicateStateError(AioschedError):
    """A sensor has the same state among those that it waits for and those that make it fail."""


class PoolNotFound(NotFound):
    """There is no such pool."""


class XComNotFound(NotFound):
    """A task did not push that value."""


class NotMapped(AioschedError):
    """A task is not mapped."""


class UnmappableXComTypePushed(AioschedError):
    """Tasks cannot be mapped over a value of that type."""


class SerializationError(AioschedError):
    """Something cannot be serialized."""


class PodMutationHookException(AioschedError):
    """A pod mutation hook failed."""


class PodReconciliationError(AioschedError):
    """Two descriptions of a pod do not fit together."""


class TaskAlreadyInTaskGroup(AioschedError):
    """A task is in another group already."""


class AirflowClusterPolicyViolation(AioschedError):
    """A DAG or task breaks a policy of the installation."""


class AirflowClusterPolicySkipDag(SkippedByPolicy):
    """A policy of the installation leaves a DAG out."""


class AirflowClusterPolicyError(AioschedError):
    """A policy of the installation failed."""


class AirflowDagInconsistent(AioschedError):
    """A DAG and its tasks do not fit together."""


class AirflowDagDuplicatedIdException(AioschedError):
    """Two files define a DAG with one id."""


class AirflowFileParseException(AioschedError):
    """A file with connections or variables cannot be read."""


class AirflowUnsupportedFileTypeException(AioschedError):
    """A file is of a kind that is not read."""


class ConnectionNotUnique(AioschedError):
    """A file has a connection twice."""


class FileSyntaxError(AioschedError):
    """A line of a file is wrong."""


class AirflowClearRunningTaskException(AioschedError):
    """A task that is running was to be cleared."""


class AirflowTaskTerminated(BaseException):
    """A task was ended from outside."""


class AirflowRuntimeError(AioschedError):
    """Airflow 3's service for tasks answered with an error."""


class BackfillUnfinished(AioschedError):
    """Some tasks of a backfill have not succeeded."""


class NoAvailablePoolSlot(AioschedError):
    """A pool has too few slots."""


class InvalidStatsNameException(AioschedError):
    """The name of a metric is wrong."""


class TaskInKubernetesExecutorError(AioschedError):
    """A task cannot be run in a pod."""


class AirflowSmartSensorException(AioschedError):
    """A smart sensor of Airflow 2 failed."""


class AirflowWebServerTimeout(AioschedError):
    """The web server did not start in time."""


class AirflowSecretsBackendAccessDenied(AioschedError):
    """A backend of secrets refused to answer."""


class DagCodeNotFound(NotFound):
    """The source of a DAG is not stored."""


class DagConcurrencyLimitReached(AioschedError):
    """A DAG runs as many tasks as it may."""


class DagFileExists(AioschedError):
    """There is a file of that name already."""


class DagNotPartitionedError(ValueError):
    """A DAG has no partitions."""


class DagRunTypeNotAllowed(AioschedError):
    """A DAG does not allow runs of that type."""


class DeserializationError(Exception):
    """Something cannot be read from its serialized form."""


class FailFastDagInvalidTriggerRule(AioschedError):
    """A DAG that fails fast has a task with another trigger rule."""


class InvalidPartitionKeyError(ValueError):
    """A key names no partition."""


class NodeNotFound(AioschedError):
    """A DAG has no such task or group."""


class SerializedDagNotFound(DagNotFound):
    """A DAG is not stored."""


class TaskAlreadyRunningError(AioschedError):
    """A task instance runs already."""


class TaskConcurrencyLimitReached(AioschedError):
    """A task has as many instances as it may."""


class UnknownExecutorException(ValueError):
    """There is no such executor."""


class UnmappableOperator(AioschedError):
    """An operator cannot be mapped."""


class UnmappableXComLengthPushed(UnmappableXComTypePushed):
    """Tasks cannot be mapped over so many values."""


class VariableNotUnique(AioschedError):
    """A file has a variable twice."""


class XComForMappingNotPushed(AioschedError):
    """A task did not push what others are mapped over."""


class DagRunTriggerException(TaskSignal):
    """Airflow's signal that a task triggers a run; `TriggerDagRunOperator` does it without one here."""


class DownstreamTasksSkipped(TaskSignal):
    """Airflow's signal that a task skips others; set `can_skip_downstream` and use `SkipMixin` here."""
