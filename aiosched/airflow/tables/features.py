"""Markers, branches of other interpreters, retry policies, weight strategies, plugins, stores and paths of objects."""

from __future__ import annotations

from typing import Final

_PYTHON: Final = {
    "BranchExternalPythonOperator": "aiosched:BranchExternalPythonOperator",
    "BranchPythonVirtualenvOperator": "aiosched:BranchPythonVirtualenvOperator",
}
_EXTERNAL: Final = {
    "ExternalTaskMarker": "aiosched:ExternalTaskMarker",
    "ExternalTaskFailedError": "aiosched.authoring.sensors:ExternalTaskFailed",
}
_SENSOR_FAILURES: Final = {
    "DuplicateStateError": "aiosched.airflow.objects.failures:DuplicateStateError",
    **dict.fromkeys(
        ("ExternalDagFailedError", "ExternalTaskFailedError", "ExternalTaskGroupFailedError"),
        "aiosched.authoring.sensors:ExternalTaskFailed",
    ),
    **dict.fromkeys(
        (
            "ExternalDagDeletedError",
            "ExternalDagNotFoundError",
            "ExternalTaskGroupNotFoundError",
            "ExternalTaskNotFoundError",
        ),
        "aiosched.errors:NotFound",
    ),
}
_FILE_TRIGGERS: Final = {
    "DirectoryFileDeleteTrigger": "aiosched:DirectoryFileDeleteTrigger",
    "FileDeleteTrigger": "aiosched:FileDeleteTrigger",
}
_RETRIES: Final = {
    name: f"aiosched:{name}"
    for name in ("ExceptionRetryPolicy", "RetryAction", "RetryDecision", "RetryPolicy", "RetryRule")
}
_PLUGINS: Final = {
    "AirflowPlugin": "aiosched:Plugin",
    "AirflowPluginException": "aiosched.authoring.plugins.base:PluginError",
}
_PATHS: Final = {"ObjectStoragePath": "aiosched:ObjectStoragePath"}
_HOOKIMPL: Final = {"hookimpl": "aiosched:hookimpl"}
_STRATEGIES: Final = {"PriorityWeightStrategy": "aiosched:PriorityWeightStrategy"}
_ACCESS: Final = {"AssetAccessControl": "aiosched:AssetAccessControl"}
_STORES: Final = {
    "NEVER_EXPIRE": "aiosched:NEVER_EXPIRE",
    "AssetStateStoreAccessor": "aiosched.authoring.assets.state_stores:StateStore",
    "AssetStateStoreAccessors": "aiosched.authoring.assets.state_stores:AssetStateStores",
    "TaskStateStoreAccessor": "aiosched.authoring.assets.state_stores:TaskStateStore",
}

NAMES: Final[dict[str, dict[str, str]]] = {
    # Airflow 3
    "airflow.providers.standard.exceptions": _SENSOR_FAILURES,
    "airflow.providers.standard.operators.python": _PYTHON,
    "airflow.providers.standard.sensors.external_task": _EXTERNAL,
    "airflow.providers.standard.triggers.file": _FILE_TRIGGERS,
    "airflow.sdk": {**_ACCESS, **_PATHS, **_RETRIES, "NEVER_EXPIRE": "aiosched:NEVER_EXPIRE"},
    "airflow.sdk.definitions.asset": _ACCESS,
    "airflow.sdk.definitions.asset.access_control": _ACCESS,
    "airflow.sdk.definitions.decorators.condition": {
        "run_if": "aiosched.authoring.decorators.conditions:run_if",
        "skip_if": "aiosched.authoring.decorators.conditions:skip_if",
    },
    "airflow.sdk.definitions.retry_policy": _RETRIES,
    "airflow.sdk.execution_time.context": _STORES,
    "airflow.sdk.io": _PATHS,
    "airflow.sdk.io.path": _PATHS,
    "airflow.sdk.listener": _HOOKIMPL,
    "airflow.sdk.plugins_manager": _PLUGINS,
    # Airflow 2 and 3
    "airflow.io.path": _PATHS,
    "airflow.listeners": _HOOKIMPL,
    "airflow.plugins_manager": _PLUGINS,
    "airflow.task.priority_strategy": _STRATEGIES,
    # Airflow 2
    "airflow.operators.python": _PYTHON,
    "airflow.sensors.external_task": _EXTERNAL,
    "airflow.triggers.file": _FILE_TRIGGERS,
    # Airflow 1.10
    "airflow.operators.python_operator": _PYTHON,
    "airflow.sensors.external_task_sensor": _EXTERNAL,
}
