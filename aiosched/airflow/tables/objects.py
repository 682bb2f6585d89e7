"""Base classes, helpers and services that operators, hooks and triggers of provider packages import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_OBJECTS: Final = "aiosched.airflow.objects"
_SCRIPTS: Final = "aiosched.airflow.utils.scripts"


def _from(home: str, names: Iterable[str]) -> dict[str, str]:
    return {name: f"{home}:{name}" for name in names}


_FAILURES: Final = _from(
    f"{_OBJECTS}.failures",
    (
        "AirflowBadRequest", "AirflowClusterPolicyViolation", "AirflowConfigException",
        "AirflowInactiveAssetInInletOrOutletException", "AirflowInternalRuntimeError",
        "AirflowOptionalProviderFeatureException", "AirflowProviderDeprecationWarning", "DagNotFound",
        "DagRunAlreadyExists", "DagRunNotFound", "DagRunTriggerException", "DownstreamTasksSkipped", "NotMapped",
        "PodMutationHookException", "PodReconciliationError", "PoolNotFound", "RemovedInAirflow3Warning",
        "RemovedInAirflow4Warning", "SerializationError", "TaskAlreadyInTaskGroup", "TaskInstanceNotFound",
        "UnmappableXComTypePushed", "XComNotFound",
    ),
)  # fmt: skip
_LINK: Final = {"BaseOperatorLink": "aiosched.authoring.tasks.links:BaseOperatorLink"}
_BRANCH: Final = _from("aiosched.authoring.operators.skipping", ("BranchMixIn", "SkipMixin"))
_SKIP: Final = {
    "SkipMixin": "aiosched.authoring.operators.skipping:SkipMixin",
    "XCOM_SKIPMIXIN_FOLLOWED": "aiosched.authoring.operators.skipping:XCOM_SKIPMIXIN_FOLLOWED",
    "XCOM_SKIPMIXIN_KEY": "aiosched.authoring.operators.skipping:XCOM_SKIPMIXIN_KEY",
    "XCOM_SKIPMIXIN_SKIPPED": "aiosched.authoring.operators.skipping:XCOM_SKIPMIXIN_SKIPPED",
}
_POKE: Final = {"poke_mode_only": "aiosched.authoring.operators.sensor:poke_mode_only"}
_DECORATED: Final = {
    "DecoratedMappedOperator": "aiosched.authoring.mapping.mapped:MappedOperator",
    "DecoratedOperator": "aiosched.authoring.decorators.custom:FunctionOperator",
    "KeywordParameters": f"{_OBJECTS}.contexts:KeywordParameters",
    "TaskDecorator": "aiosched.authoring.decorators.taskflow:TaskDecorator",
    "determine_kwargs": f"{_OBJECTS}.contexts:determine_kwargs",
    "get_unique_task_id": "aiosched.authoring.decorators.taskflow:get_unique_task_id",
    "is_async_callable": f"{_OBJECTS}.contexts:is_async_callable",
    "task_decorator_factory": "aiosched.authoring.decorators.taskflow:task_decorator_factory",
}
_XCOM: Final = {
    "BaseXCom": "aiosched.authoring.runtime.xcoms:TaskXCom",
    "XCOM_RETURN_KEY": "aiosched.core.graph.mapping:RETURN_VALUE",
    "XCom": "aiosched.authoring.runtime.xcoms:TaskXCom",
}
_SERIALIZERS: Final = {"_SERIALIZERS": f"{_SCRIPTS}:SERIALIZERS"}
_KEY: Final = {"TaskInstanceKey": "aiosched.authoring.runtime.instance_keys:TaskInstanceKey"}
_MASK: Final = _from(f"{_OBJECTS}.masking", ("mask_secret", "redact"))
_STATS: Final = {"Stats": f"{_OBJECTS}.stats:Stats"}
_TYPES: Final = _from(f"{_OBJECTS}.base_types", ("NOTSET", "SET_DURING_EXECUTION", "ArgNotSet", "is_arg_set"))
_LOADING: Final = _from(f"{_OBJECTS}.loading", ("import_string", "is_valid_dotpath", "iter_namespace", "qualname"))
_LINEAGE: Final = {
    **_from(
        f"{_OBJECTS}.lineage",
        ("AssetLineageInfo", "HookLineage", "HookLineageCollector", "HookLineageReader", "get_hook_lineage_collector"),
    ),
    "DatasetLineageInfo": f"{_OBJECTS}.lineage:AssetLineageInfo",
    "NoOpCollector": f"{_OBJECTS}.lineage:HookLineageCollector",
}
_LISTENERS: Final = {**_from(f"{_OBJECTS}.listeners", ("get_listener_manager",)), "hookimpl": "aiosched:hookimpl"}
_VARS: Final = _from(f"{_OBJECTS}.contexts", ("AIRFLOW_VAR_NAME_FORMAT_MAPPING", "context_to_airflow_vars"))
_OPERATORS: Final = {"BaseAsyncOperator": "aiosched.authoring.operators.coroutines:BaseAsyncOperator"}
_MAPPED: Final = {"MappedOperator": "aiosched.authoring.mapping.mapped:MappedOperator"}
_TIMEOUT: Final = {"timeout": f"{_OBJECTS}.timeouts:timeout"}
_PROVIDERS: Final = {"ProvidersManager": f"{_OBJECTS}.providers_manager:ProvidersManager"}
_HELPERS: Final = _from(
    f"{_OBJECTS}.helpers",
    (
        "as_flattened_list", "at_most_one", "chunks", "convert_camel_to_snake", "exactly_one", "is_container",
        "merge_dicts", "partition", "prune_dict", "validate_key",
    ),
)  # fmt: skip
_SESSION: Final = _from(f"{_OBJECTS}.sessions", ("NEW_SESSION", "create_session", "provide_session"))

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.decorators.base": _DECORATED,
    "airflow.exceptions": _FAILURES,
    "airflow.hooks.base": {"DiscoverableHook": "aiosched.authoring.runtime.hooks:DiscoverableHook"},
    "airflow.lineage.hook": _LINEAGE,
    "airflow.listeners": _LISTENERS,
    "airflow.listeners.listener": _LISTENERS,
    "airflow.models": {
        **_LINK, **_SKIP, **_XCOM, **_MAPPED,
        **_from(f"{_OBJECTS}.models", ("DagModel", "TaskReschedule")),
        "DagRun": "aiosched.authoring.runtime.context:DagRun",
    },
    "airflow.models.baseoperator": _LINK,
    "airflow.models.baseoperatorlink": _LINK,
    "airflow.models.dag": {"DagModel": f"{_OBJECTS}.models:DagModel"},
    "airflow.models.mappedoperator": _MAPPED,
    "airflow.models.skipmixin": _SKIP,
    "airflow.models.taskinstance": _KEY,
    "airflow.models.taskinstancekey": _KEY,
    "airflow.models.taskmixin": {"DAGNode": "aiosched.authoring.base.dependencies:Dependable"},
    "airflow.models.taskreschedule": _from(f"{_OBJECTS}.models", ("TaskReschedule",)),
    "airflow.models.xcom": _XCOM,
    "airflow.observability.stats": _STATS,
    "airflow.operators.branch": _BRANCH,
    "airflow.operators.python": _SERIALIZERS,
    "airflow.providers.common.sql.hooks.sql": {"DbApiHook": f"{_OBJECTS}.basic_hooks:DbApiHook"},
    "airflow.providers.http.hooks.http": {"HttpHook": f"{_OBJECTS}.basic_hooks:HttpHook"},
    "airflow.providers.smtp.hooks.smtp": {"SmtpHook": f"{_OBJECTS}.basic_hooks:SmtpHook"},
    "airflow.providers.sqlite.hooks.sqlite": {"SqliteHook": f"{_OBJECTS}.basic_hooks:SqliteHook"},
    "airflow.providers.standard.operators.python": _SERIALIZERS,
    "airflow.providers.standard.utils.python_virtualenv": {
        "write_python_script": f"{_SCRIPTS}:write_python_script",
    },
    "airflow.providers.standard.utils.skipmixin": _SKIP,
    "airflow.providers_manager": _PROVIDERS,
    "airflow.sdk": {
        **_LINK, **_BRANCH, **_MAPPED, **_OPERATORS, **_XCOM,
        "DagRunState": "aiosched.airflow.utils.state:DagRunState",
        "ResumableJobMixin": f"{_OBJECTS}.resumable:ResumableJobMixin",
        "lineage": f"{_OBJECTS}.lineage",
    },
    "airflow.sdk._shared.listeners": _LISTENERS,
    "airflow.sdk._shared.module_loading": _LOADING,
    "airflow.sdk._shared.observability.metrics.stats": _STATS,
    "airflow.sdk._shared.secrets_masker": _MASK,
    "airflow.sdk.bases.branch": _BRANCH,
    "airflow.sdk.bases.decorator": _DECORATED,
    "airflow.sdk.bases.operator": _OPERATORS,
    "airflow.sdk.bases.operatorlink": _LINK,
    "airflow.sdk.bases.resumablejobmixin": {"ResumableJobMixin": f"{_OBJECTS}.resumable:ResumableJobMixin"},
    "airflow.sdk.bases.sensor": _POKE,
    "airflow.sdk.bases.skipmixin": _SKIP,
    "airflow.sdk.bases.xcom": _XCOM,
    "airflow.sdk.definitions._internal.types": _TYPES,
    "airflow.sdk.definitions.context": {"context_merge": f"{_OBJECTS}.contexts:context_merge"},
    "airflow.sdk.definitions.mappedoperator": _MAPPED,
    "airflow.sdk.exceptions": _FAILURES,
    "airflow.sdk.execution_time.context": _VARS,
    "airflow.sdk.execution_time.secrets_masker": _MASK,
    "airflow.sdk.execution_time.timeout": _TIMEOUT,
    "airflow.sdk.execution_time.xcom": _XCOM,
    "airflow.sdk.lineage": _LINEAGE,
    "airflow.sdk.listener": _LISTENERS,
    "airflow.sdk.log": _MASK,
    "airflow.sdk.module_loading": _LOADING,
    "airflow.sdk.observability.stats": _STATS,
    "airflow.sdk.providers_manager_runtime": {
        "ProvidersManagerTaskRuntime": f"{_OBJECTS}.providers_manager:ProvidersManager",
    },
    "airflow.sdk.types": _KEY,
    "airflow.secrets": {"BaseSecretsBackend": f"{_OBJECTS}.masking:BaseSecretsBackend"},
    "airflow.secrets.base_secrets": {"BaseSecretsBackend": f"{_OBJECTS}.masking:BaseSecretsBackend"},
    "airflow.sensors.base": _POKE,
    "airflow.settings": {
        "NEW_SESSION": f"{_OBJECTS}.sessions:NEW_SESSION",
        "Session": f"{_OBJECTS}.sessions:NoSession",
        "pod_mutation_hook": f"{_OBJECTS}.policies:pod_mutation_hook",
    },
    "airflow.stats": _STATS,
    "airflow.triggers.base": {"BaseEventTrigger": "aiosched.authoring.triggers.base:BaseEventTrigger"},
    "airflow.utils": {"yaml": "yaml"},
    "airflow.utils.context": {
        "AirflowContextDeprecationWarning": f"{_OBJECTS}.failures:AirflowContextDeprecationWarning",
        "context_merge": f"{_OBJECTS}.contexts:context_merge",
    },
    "airflow.utils.db": _SESSION,
    "airflow.utils.deprecation_tools": {
        "add_deprecated_classes": f"{_OBJECTS}.deprecation:add_deprecated_classes",
    },
    "airflow.utils.email": {"build_mime_message": "aiosched.airflow.utils.email:build_mime_message"},
    "airflow.utils.hashlib_wrapper": {"md5": f"{_OBJECTS}.helpers:md5"},
    "airflow.utils.helpers": _HELPERS,
    "airflow.utils.log.logging_mixin": _from(f"{_OBJECTS}.logging_mixin", ("ExternalLoggingMixin", "LoggingMixin")),
    "airflow.utils.log.secrets_masker": _MASK,
    "airflow.utils.module_loading": _LOADING,
    "airflow.utils.operator_helpers": {
        **_VARS,
        **_from(f"{_OBJECTS}.contexts", ("KeywordParameters", "determine_kwargs", "make_kwargs_callable")),
    },
    "airflow.utils.platform": {"getuser": f"{_OBJECTS}.helpers:getuser"},
    "airflow.utils.process_utils": _from(f"{_OBJECTS}.processes", ("execute_in_subprocess", "patch_environ")),
    "airflow.utils.python_virtualenv": {"write_python_script": f"{_SCRIPTS}:write_python_script"},
    "airflow.utils.session": _SESSION,
    "airflow.utils.timeout": _TIMEOUT,
    "airflow.utils.types": _TYPES,
    "airflow.utils.yaml": {"*": "yaml"},
}  # fmt: skip
