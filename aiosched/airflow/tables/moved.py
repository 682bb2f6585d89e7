"""Operators, sensors and hooks that were in Airflow 1.10 and 2, and are in provider packages today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.hooks.S3_hook": {
        "S3Hook": "airflow.providers.amazon.aws.hooks.s3:",
        "provide_bucket_name": "airflow.providers.amazon.aws.hooks.s3:",
    },
    "airflow.hooks.dbapi_hook": {
        "DbApiHook": "airflow.providers.common.sql.hooks.sql:",
    },
    "airflow.hooks.docker_hook": {
        "DockerHook": "airflow.providers.docker.hooks.docker:",
    },
    "airflow.hooks.druid_hook": {
        "DruidDbApiHook": "airflow.providers.apache.druid.hooks.druid:",
        "DruidHook": "airflow.providers.apache.druid.hooks.druid:",
    },
    "airflow.hooks.hive_hooks": {
        "HIVE_QUEUE_PRIORITIES": "airflow.providers.apache.hive.hooks.hive:",
        "HiveCliHook": "airflow.providers.apache.hive.hooks.hive:",
        "HiveMetastoreHook": "airflow.providers.apache.hive.hooks.hive:",
        "HiveServer2Hook": "airflow.providers.apache.hive.hooks.hive:",
    },
    "airflow.hooks.http_hook": {
        "HttpHook": "airflow.providers.http.hooks.http:",
    },
    "airflow.hooks.jdbc_hook": {
        "JdbcHook": "airflow.providers.jdbc.hooks.jdbc:",
        "jaydebeapi": "airflow.providers.jdbc.hooks.jdbc:",
    },
    "airflow.hooks.mssql_hook": {
        "MsSqlHook": "airflow.providers.microsoft.mssql.hooks.mssql:",
    },
    "airflow.hooks.mysql_hook": {
        "MySqlHook": "airflow.providers.mysql.hooks.mysql:",
    },
    "airflow.hooks.oracle_hook": {
        "OracleHook": "airflow.providers.oracle.hooks.oracle:",
    },
    "airflow.hooks.pig_hook": {
        "PigCliHook": "airflow.providers.apache.pig.hooks.pig:",
    },
    "airflow.hooks.postgres_hook": {
        "PostgresHook": "airflow.providers.postgres.hooks.postgres:",
    },
    "airflow.hooks.presto_hook": {
        "PrestoHook": "airflow.providers.presto.hooks.presto:",
    },
    "airflow.hooks.samba_hook": {
        "SambaHook": "airflow.providers.samba.hooks.samba:",
    },
    "airflow.hooks.slack_hook": {
        "SlackHook": "airflow.providers.slack.hooks.slack:",
    },
    "airflow.hooks.sqlite_hook": {
        "SqliteHook": "airflow.providers.sqlite.hooks.sqlite:",
    },
    "airflow.hooks.webhdfs_hook": {
        "WebHDFSHook": "airflow.providers.apache.hdfs.hooks.webhdfs:",
    },
    "airflow.hooks.zendesk_hook": {
        "ZendeskHook": "airflow.providers.zendesk.hooks.zendesk:",
    },
    "airflow.kubernetes.k8s_model": {
        "K8SModel": "airflow.providers.cncf.kubernetes.k8s_model:",
        "append_to_pod": "airflow.providers.cncf.kubernetes.k8s_model:",
    },
    "airflow.kubernetes.kube_client": {
        "get_kube_client": "airflow.providers.cncf.kubernetes.kube_client:",
    },
    "airflow.kubernetes.kubernetes_helper_functions": {
        "add_pod_suffix": "airflow.providers.cncf.kubernetes.kubernetes_helper_functions:",
        "annotations_for_logging_task_metadata": "airflow.providers.cncf.kubernetes.kubernetes_helper_functions:",
        "annotations_to_key": "airflow.providers.cncf.kubernetes.kubernetes_helper_functions:",
        "create_pod_id": "airflow.providers.cncf.kubernetes.kubernetes_helper_functions:",
        "get_logs_task_metadata": "airflow.providers.cncf.kubernetes.kubernetes_helper_functions:",
        "rand_str": "airflow.providers.cncf.kubernetes.kubernetes_helper_functions:",
    },
    "airflow.kubernetes.pod": {
        "Port": "airflow.providers.cncf.kubernetes.backcompat.pod:",
        "Resources": "airflow.providers.cncf.kubernetes.backcompat.pod:",
    },
    "airflow.kubernetes.pod_generator": {
        "PodDefaults": "airflow.providers.cncf.kubernetes.pod_generator:",
        "PodGenerator": "airflow.providers.cncf.kubernetes.pod_generator:",
        "PodGeneratorDeprecated": "airflow.providers.cncf.kubernetes.pod_generator:",
        "add_pod_suffix": "airflow.providers.cncf.kubernetes.pod_generator:",
        "datetime_to_label_safe_datestring": "airflow.providers.cncf.kubernetes.pod_generator:",
        "extend_object_field": "airflow.providers.cncf.kubernetes.pod_generator:",
        "label_safe_datestring_to_datetime": "airflow.providers.cncf.kubernetes.pod_generator:",
        "make_safe_label_value": "airflow.providers.cncf.kubernetes.pod_generator:",
        "merge_objects": "airflow.providers.cncf.kubernetes.pod_generator:",
        "rand_str": "airflow.providers.cncf.kubernetes.pod_generator:",
    },
    "airflow.kubernetes.pod_generator_deprecated": {
        "PodDefaults": "airflow.providers.cncf.kubernetes.pod_generator:",
        "PodGenerator": "airflow.providers.cncf.kubernetes.pod_generator:",
        "make_safe_label_value": "airflow.providers.cncf.kubernetes.pod_generator:",
    },
    "airflow.kubernetes.pod_launcher": {
        "PodLauncher": "airflow.providers.cncf.kubernetes.pod_launcher:",
        "PodStatus": "airflow.providers.cncf.kubernetes.pod_launcher:",
    },
    "airflow.kubernetes.pod_launcher_deprecated": {
        "PodDefaults": "airflow.providers.cncf.kubernetes.pod_generator_deprecated:",
        "PodLauncher": "airflow.providers.cncf.kubernetes.pod_launcher_deprecated:",
        "PodStatus": "airflow.providers.cncf.kubernetes.pod_launcher_deprecated:",
        "get_kube_client": "airflow.providers.cncf.kubernetes.kube_client:",
    },
    "airflow.kubernetes.pod_runtime_info_env": {
        "PodRuntimeInfoEnv": "airflow.providers.cncf.kubernetes.backcompat.pod_runtime_info_env:",
    },
    "airflow.kubernetes.secret": {
        "K8SModel": "airflow.providers.cncf.kubernetes.k8s_model:",
        "Secret": "airflow.providers.cncf.kubernetes.secret:",
    },
    "airflow.kubernetes.volume": {
        "Volume": "airflow.providers.cncf.kubernetes.backcompat.volume:",
    },
    "airflow.kubernetes.volume_mount": {
        "VolumeMount": "airflow.providers.cncf.kubernetes.backcompat.volume_mount:",
    },
    "airflow.macros.hive": {
        "closest_ds_partition": "airflow.providers.apache.hive.macros.hive:",
        "max_partition": "airflow.providers.apache.hive.macros.hive:",
    },
    "airflow.operators.check_operator": {
        "CheckOperator": "airflow.providers.common.sql.operators.sql:SQLCheckOperator",
        "IntervalCheckOperator": "airflow.providers.common.sql.operators.sql:SQLIntervalCheckOperator",
        "SQLCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLIntervalCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLThresholdCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLValueCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "ThresholdCheckOperator": "airflow.providers.common.sql.operators.sql:SQLThresholdCheckOperator",
        "ValueCheckOperator": "airflow.providers.common.sql.operators.sql:SQLValueCheckOperator",
    },
    "airflow.operators.docker_operator": {
        "DockerOperator": "airflow.providers.docker.operators.docker:",
    },
    "airflow.operators.druid_check_operator": {
        "DruidCheckOperator": "airflow.providers.apache.druid.operators.druid_check:",
    },
    "airflow.operators.gcs_to_s3": {
        "GCSToS3Operator": "airflow.providers.amazon.aws.transfers.gcs_to_s3:",
    },
    "airflow.operators.google_api_to_s3_transfer": {
        "GoogleApiToS3Operator": "airflow.providers.amazon.aws.transfers.google_api_to_s3:",
        "GoogleApiToS3Transfer": "airflow.providers.amazon.aws.transfers.google_api_to_s3:GoogleApiToS3Operator",
    },
    "airflow.operators.hive_operator": {
        "HiveOperator": "airflow.providers.apache.hive.operators.hive:",
    },
    "airflow.operators.hive_stats_operator": {
        "HiveStatsCollectionOperator": "airflow.providers.apache.hive.operators.hive_stats:",
    },
    "airflow.operators.hive_to_druid": {
        "HiveToDruidOperator": "airflow.providers.apache.druid.transfers.hive_to_druid:",
        "HiveToDruidTransfer": "airflow.providers.apache.druid.transfers.hive_to_druid:HiveToDruidOperator",
    },
    "airflow.operators.hive_to_mysql": {
        "HiveToMySqlOperator": "airflow.providers.apache.hive.transfers.hive_to_mysql:",
        "HiveToMySqlTransfer": "airflow.providers.apache.hive.transfers.hive_to_mysql:HiveToMySqlOperator",
    },
    "airflow.operators.hive_to_samba_operator": {
        "HiveToSambaOperator": "airflow.providers.apache.hive.transfers.hive_to_samba:",
    },
    "airflow.operators.jdbc_operator": {
        "JdbcOperator": "airflow.providers.jdbc.operators.jdbc:",
    },
    "airflow.operators.mssql_operator": {
        "MsSqlOperator": "airflow.providers.microsoft.mssql.operators.mssql:",
    },
    "airflow.operators.mssql_to_hive": {
        "MsSqlToHiveOperator": "airflow.providers.apache.hive.transfers.mssql_to_hive:",
        "MsSqlToHiveTransfer": "airflow.providers.apache.hive.transfers.mssql_to_hive:MsSqlToHiveOperator",
    },
    "airflow.operators.mysql_operator": {
        "MySqlOperator": "airflow.providers.mysql.operators.mysql:",
    },
    "airflow.operators.mysql_to_hive": {
        "MySqlToHiveOperator": "airflow.providers.apache.hive.transfers.mysql_to_hive:",
        "MySqlToHiveTransfer": "airflow.providers.apache.hive.transfers.mysql_to_hive:MySqlToHiveOperator",
    },
    "airflow.operators.oracle_operator": {
        "OracleOperator": "airflow.providers.oracle.operators.oracle:",
    },
    "airflow.operators.papermill_operator": {
        "PapermillOperator": "airflow.providers.papermill.operators.papermill:",
    },
    "airflow.operators.pig_operator": {
        "PigOperator": "airflow.providers.apache.pig.operators.pig:",
    },
    "airflow.operators.postgres_operator": {
        "Mapping": "airflow.providers.postgres.operators.postgres:",
        "PostgresOperator": "airflow.providers.postgres.operators.postgres:",
    },
    "airflow.operators.presto_check_operator": {
        "PrestoCheckOperator": "airflow.providers.common.sql.operators.sql:SQLCheckOperator",
        "PrestoIntervalCheckOperator": "airflow.providers.common.sql.operators.sql:SQLIntervalCheckOperator",
        "PrestoValueCheckOperator": "airflow.providers.common.sql.operators.sql:SQLValueCheckOperator",
        "SQLCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLIntervalCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLValueCheckOperator": "airflow.providers.common.sql.operators.sql:",
    },
    "airflow.operators.presto_to_mysql": {
        "PrestoToMySqlOperator": "airflow.providers.mysql.transfers.presto_to_mysql:",
        "PrestoToMySqlTransfer": "airflow.providers.mysql.transfers.presto_to_mysql:PrestoToMySqlOperator",
    },
    "airflow.operators.redshift_to_s3_operator": {
        "RedshiftToS3Operator": "airflow.providers.amazon.aws.transfers.redshift_to_s3:",
        "RedshiftToS3Transfer": "airflow.providers.amazon.aws.transfers.redshift_to_s3:RedshiftToS3Operator",
    },
    "airflow.operators.s3_file_transform_operator": {
        "S3FileTransformOperator": "airflow.providers.amazon.aws.operators.s3_file_transform:",
    },
    "airflow.operators.s3_to_hive_operator": {
        "S3ToHiveOperator": "airflow.providers.apache.hive.transfers.s3_to_hive:",
        "S3ToHiveTransfer": "airflow.providers.apache.hive.transfers.s3_to_hive:S3ToHiveOperator",
    },
    "airflow.operators.s3_to_redshift_operator": {
        "S3ToRedshiftOperator": "airflow.providers.amazon.aws.transfers.s3_to_redshift:",
        "S3ToRedshiftTransfer": "airflow.providers.amazon.aws.transfers.s3_to_redshift:S3ToRedshiftOperator",
    },
    "airflow.operators.slack_operator": {
        "SlackAPIOperator": "airflow.providers.slack.operators.slack:",
        "SlackAPIPostOperator": "airflow.providers.slack.operators.slack:",
    },
    "airflow.operators.sql": {
        "BaseSQLOperator": "airflow.providers.common.sql.operators.sql:",
        "BranchSQLOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLColumnCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLIntervalCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLTableCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLThresholdCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "SQLValueCheckOperator": "airflow.providers.common.sql.operators.sql:",
        "parse_boolean": "airflow.providers.common.sql.operators.sql:",
    },
    "airflow.operators.sql_branch_operator": {
        "BranchSQLOperator": "airflow.providers.common.sql.operators.sql:",
        "BranchSqlOperator": "airflow.providers.common.sql.operators.sql:BranchSQLOperator",
    },
    "airflow.operators.sqlite_operator": {
        "SqliteOperator": "airflow.providers.sqlite.operators.sqlite:",
    },
    "airflow.sensors.hive_partition_sensor": {
        "HivePartitionSensor": "airflow.providers.apache.hive.sensors.hive_partition:",
    },
    "airflow.sensors.http_sensor": {
        "HttpSensor": "airflow.providers.http.sensors.http:",
    },
    "airflow.sensors.metastore_partition_sensor": {
        "MetastorePartitionSensor": "airflow.providers.apache.hive.sensors.metastore_partition:",
    },
    "airflow.sensors.named_hive_partition_sensor": {
        "NamedHivePartitionSensor": "airflow.providers.apache.hive.sensors.named_hive_partition:",
    },
    "airflow.sensors.s3_key_sensor": {
        "S3KeySensor": "airflow.providers.amazon.aws.sensors.s3:",
    },
    "airflow.sensors.sql": {
        "SqlSensor": "airflow.providers.common.sql.sensors.sql:",
    },
    "airflow.sensors.sql_sensor": {
        "SqlSensor": "airflow.providers.common.sql.sensors.sql:",
    },
    "airflow.sensors.web_hdfs_sensor": {
        "WebHdfsSensor": "airflow.providers.apache.hdfs.sensors.web_hdfs:",
    },
}
