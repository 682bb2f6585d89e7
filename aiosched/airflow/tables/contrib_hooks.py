"""Airflow 1.10, `contrib`: hooks, secrets and utilities. Provider packages have them today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.contrib.hooks.aws_athena_hook": {
        "AWSAthenaHook": "airflow.providers.amazon.aws.hooks.athena:AthenaHook",
    },
    "airflow.contrib.hooks.aws_datasync_hook": {
        "AWSDataSyncHook": "airflow.providers.amazon.aws.hooks.datasync:DataSyncHook",
    },
    "airflow.contrib.hooks.aws_dynamodb_hook": {
        "AwsDynamoDBHook": "airflow.providers.amazon.aws.hooks.dynamodb:DynamoDBHook",
    },
    "airflow.contrib.hooks.aws_firehose_hook": {
        "FirehoseHook": "airflow.providers.amazon.aws.hooks.kinesis:",
    },
    "airflow.contrib.hooks.aws_glue_catalog_hook": {
        "AwsGlueCatalogHook": "airflow.providers.amazon.aws.hooks.glue_catalog:GlueCatalogHook",
    },
    "airflow.contrib.hooks.aws_hook": {
        "AwsBaseHook": "airflow.providers.amazon.aws.hooks.base_aws:",
        "AwsHook": "airflow.providers.amazon.aws.hooks.base_aws:AwsBaseHook",
        "_parse_s3_config": "airflow.providers.amazon.aws.hooks.base_aws:",
        "boto3": "airflow.providers.amazon.aws.hooks.base_aws:",
    },
    "airflow.contrib.hooks.aws_lambda_hook": {
        "AwsLambdaHook": "airflow.providers.amazon.aws.hooks.lambda_function:LambdaHook",
    },
    "airflow.contrib.hooks.aws_logs_hook": {
        "AwsLogsHook": "airflow.providers.amazon.aws.hooks.logs:",
    },
    "airflow.contrib.hooks.aws_sns_hook": {
        "AwsSnsHook": "airflow.providers.amazon.aws.hooks.sns:SnsHook",
    },
    "airflow.contrib.hooks.aws_sqs_hook": {
        "SQSHook": "airflow.providers.amazon.aws.hooks.sqs:SqsHook",
        "SqsHook": "airflow.providers.amazon.aws.hooks.sqs:",
    },
    "airflow.contrib.hooks.azure_container_instance_hook": {
        "AzureContainerInstanceHook": "airflow.providers.microsoft.azure.hooks.container_instance:",
    },
    "airflow.contrib.hooks.azure_container_registry_hook": {
        "AzureContainerRegistryHook": "airflow.providers.microsoft.azure.hooks.container_registry:",
    },
    "airflow.contrib.hooks.azure_container_volume_hook": {
        "AzureContainerVolumeHook": "airflow.providers.microsoft.azure.hooks.container_volume:",
    },
    "airflow.contrib.hooks.azure_cosmos_hook": {
        "AzureCosmosDBHook": "airflow.providers.microsoft.azure.hooks.cosmos:",
    },
    "airflow.contrib.hooks.azure_data_lake_hook": {
        "AzureDataLakeHook": "airflow.providers.microsoft.azure.hooks.data_lake:",
    },
    "airflow.contrib.hooks.azure_fileshare_hook": {
        "AzureFileShareHook": "airflow.providers.microsoft.azure.hooks.fileshare:",
    },
    "airflow.contrib.hooks.bigquery_hook": {
        "BigQueryBaseCursor": "airflow.providers.google.cloud.hooks.bigquery:",
        "BigQueryConnection": "airflow.providers.google.cloud.hooks.bigquery:",
        "BigQueryCursor": "airflow.providers.google.cloud.hooks.bigquery:",
        "BigQueryHook": "airflow.providers.google.cloud.hooks.bigquery:",
        "GbqConnector": "airflow.providers.google.cloud.hooks.bigquery:",
    },
    "airflow.contrib.hooks.cassandra_hook": {
        "CassandraHook": "airflow.providers.apache.cassandra.hooks.cassandra:",
    },
    "airflow.contrib.hooks.cloudant_hook": {
        "CloudantHook": "airflow.providers.cloudant.hooks.cloudant:",
    },
    "airflow.contrib.hooks.databricks_hook": {
        "CANCEL_RUN_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
        "DatabricksHook": "airflow.providers.databricks.hooks.databricks:",
        "GET_RUN_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
        "RESTART_CLUSTER_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
        "RUN_LIFE_CYCLE_STATES": "airflow.providers.databricks.hooks.databricks:",
        "RUN_NOW_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
        "RunState": "airflow.providers.databricks.hooks.databricks:",
        "START_CLUSTER_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
        "SUBMIT_RUN_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
        "TERMINATE_CLUSTER_ENDPOINT": "airflow.providers.databricks.hooks.databricks:",
    },
    "airflow.contrib.hooks.datadog_hook": {
        "DatadogHook": "airflow.providers.datadog.hooks.datadog:",
    },
    "airflow.contrib.hooks.datastore_hook": {
        "DatastoreHook": "airflow.providers.google.cloud.hooks.datastore:",
    },
    "airflow.contrib.hooks.dingding_hook": {
        "DingdingHook": "airflow.providers.dingding.hooks.dingding:",
        "requests": "airflow.providers.dingding.hooks.dingding:",
    },
    "airflow.contrib.hooks.discord_webhook_hook": {
        "DiscordWebhookHook": "airflow.providers.discord.hooks.discord_webhook:",
    },
    "airflow.contrib.hooks.emr_hook": {
        "EmrHook": "airflow.providers.amazon.aws.hooks.emr:",
    },
    "airflow.contrib.hooks.ftp_hook": {
        "FTPHook": "airflow.providers.ftp.hooks.ftp:",
        "FTPSHook": "airflow.providers.ftp.hooks.ftp:",
    },
    "airflow.contrib.hooks.gcp_api_base_hook": {
        "GoogleBaseHook": "airflow.providers.google.common.hooks.base_google:",
        "GoogleCloudBaseHook": "airflow.providers.google.common.hooks.base_google:GoogleBaseHook",
    },
    "airflow.contrib.hooks.gcp_bigtable_hook": {
        "BigtableHook": "airflow.providers.google.cloud.hooks.bigtable:",
    },
    "airflow.contrib.hooks.gcp_cloud_build_hook": {
        "CloudBuildHook": "airflow.providers.google.cloud.hooks.cloud_build:",
    },
    "airflow.contrib.hooks.gcp_compute_hook": {
        "ComputeEngineHook": "airflow.providers.google.cloud.hooks.compute:",
        "GceHook": "airflow.providers.google.cloud.hooks.compute:ComputeEngineHook",
    },
    "airflow.contrib.hooks.gcp_container_hook": {
        "GKEClusterHook": "airflow.providers.google.cloud.hooks.kubernetes_engine:GKEHook",
        "GKEHook": "airflow.providers.google.cloud.hooks.kubernetes_engine:",
    },
    "airflow.contrib.hooks.gcp_dataflow_hook": {
        "DataFlowHook": "airflow.providers.google.cloud.hooks.dataflow:DataflowHook",
        "DataflowHook": "airflow.providers.google.cloud.hooks.dataflow:",
    },
    "airflow.contrib.hooks.gcp_dataproc_hook": {
        "DataProcHook": "airflow.providers.google.cloud.hooks.dataproc:DataprocHook",
        "DataprocHook": "airflow.providers.google.cloud.hooks.dataproc:",
    },
    "airflow.contrib.hooks.gcp_dlp_hook": {
        "CloudDLPHook": "airflow.providers.google.cloud.hooks.dlp:",
        "DlpJob": "airflow.providers.google.cloud.hooks.dlp:",
    },
    "airflow.contrib.hooks.gcp_function_hook": {
        "CloudFunctionsHook": "airflow.providers.google.cloud.hooks.functions:",
        "GcfHook": "airflow.providers.google.cloud.hooks.functions:CloudFunctionsHook",
    },
    "airflow.contrib.hooks.gcp_kms_hook": {
        "CloudKMSHook": "airflow.providers.google.cloud.hooks.kms:",
        "GoogleCloudKMSHook": "airflow.providers.google.cloud.hooks.kms:CloudKMSHook",
    },
    "airflow.contrib.hooks.gcp_mlengine_hook": {
        "MLEngineHook": "airflow.providers.google.cloud.hooks.mlengine:",
    },
    "airflow.contrib.hooks.gcp_natural_language_hook": {
        "CloudNaturalLanguageHook": "airflow.providers.google.cloud.hooks.natural_language:",
    },
    "airflow.contrib.hooks.gcp_pubsub_hook": {
        "PubSubException": "airflow.providers.google.cloud.hooks.pubsub:",
        "PubSubHook": "airflow.providers.google.cloud.hooks.pubsub:",
    },
    "airflow.contrib.hooks.gcp_spanner_hook": {
        "CloudSpannerHook": "airflow.providers.google.cloud.hooks.spanner:SpannerHook",
        "SpannerHook": "airflow.providers.google.cloud.hooks.spanner:",
    },
    "airflow.contrib.hooks.gcp_speech_to_text_hook": {
        "CloudSpeechToTextHook": "airflow.providers.google.cloud.hooks.speech_to_text:",
        "GCPSpeechToTextHook": "airflow.providers.google.cloud.hooks.speech_to_text:CloudSpeechToTextHook",
    },
    "airflow.contrib.hooks.gcp_sql_hook": {
        "CloudSQLDatabaseHook": "airflow.providers.google.cloud.hooks.cloud_sql:",
        "CloudSQLHook": "airflow.providers.google.cloud.hooks.cloud_sql:",
        "CloudSqlDatabaseHook": "airflow.providers.google.cloud.hooks.cloud_sql:CloudSQLDatabaseHook",
        "CloudSqlHook": "airflow.providers.google.cloud.hooks.cloud_sql:CloudSQLHook",
    },
    "airflow.contrib.hooks.gcp_tasks_hook": {
        "CloudTasksHook": "airflow.providers.google.cloud.hooks.tasks:",
    },
    "airflow.contrib.hooks.gcp_text_to_speech_hook": {
        "CloudTextToSpeechHook": "airflow.providers.google.cloud.hooks.text_to_speech:",
        "GCPTextToSpeechHook": "airflow.providers.google.cloud.hooks.text_to_speech:CloudTextToSpeechHook",
    },
    "airflow.contrib.hooks.gcp_transfer_hook": {
        "CloudDataTransferServiceHook": "airflow.providers.google.cloud.hooks.cloud_storage_transfer_service:",
        "GCPTransferServiceHook": (
            "airflow.providers.google.cloud.hooks.cloud_storage_transfer_service:CloudDataTransferServiceHook"
        ),
    },
    "airflow.contrib.hooks.gcp_translate_hook": {
        "CloudTranslateHook": "airflow.providers.google.cloud.hooks.translate:",
    },
    "airflow.contrib.hooks.gcp_video_intelligence_hook": {
        "CloudVideoIntelligenceHook": "airflow.providers.google.cloud.hooks.video_intelligence:",
    },
    "airflow.contrib.hooks.gcp_vision_hook": {
        "CloudVisionHook": "airflow.providers.google.cloud.hooks.vision:",
    },
    "airflow.contrib.hooks.gcs_hook": {
        "GCSHook": "airflow.providers.google.cloud.hooks.gcs:",
        "GoogleCloudStorageHook": "airflow.providers.google.cloud.hooks.gcs:GCSHook",
    },
    "airflow.contrib.hooks.gdrive_hook": {
        "GoogleDriveHook": "airflow.providers.google.suite.hooks.drive:",
    },
    "airflow.contrib.hooks.grpc_hook": {
        "GrpcHook": "airflow.providers.grpc.hooks.grpc:",
    },
    "airflow.contrib.hooks.imap_hook": {
        "ImapHook": "airflow.providers.imap.hooks.imap:",
        "Mail": "airflow.providers.imap.hooks.imap:",
        "MailPart": "airflow.providers.imap.hooks.imap:",
    },
    "airflow.contrib.hooks.jenkins_hook": {
        "JenkinsHook": "airflow.providers.jenkins.hooks.jenkins:",
    },
    "airflow.contrib.hooks.jira_hook": {
        "JiraHook": "airflow.providers.atlassian.jira.hooks.jira:",
    },
    "airflow.contrib.hooks.mongo_hook": {
        "MongoHook": "airflow.providers.mongo.hooks.mongo:",
    },
    "airflow.contrib.hooks.openfaas_hook": {
        "OK_STATUS_CODE": "airflow.providers.openfaas.hooks.openfaas:",
        "OpenFaasHook": "airflow.providers.openfaas.hooks.openfaas:",
        "requests": "airflow.providers.openfaas.hooks.openfaas:",
    },
    "airflow.contrib.hooks.opsgenie_alert_hook": {
        "OpsgenieAlertHook": "airflow.providers.opsgenie.hooks.opsgenie:",
    },
    "airflow.contrib.hooks.pagerduty_hook": {
        "PagerdutyHook": "airflow.providers.pagerduty.hooks.pagerduty:",
    },
    "airflow.contrib.hooks.pinot_hook": {
        "PinotAdminHook": "airflow.providers.apache.pinot.hooks.pinot:",
        "PinotDbApiHook": "airflow.providers.apache.pinot.hooks.pinot:",
    },
    "airflow.contrib.hooks.redis_hook": {
        "RedisHook": "airflow.providers.redis.hooks.redis:",
    },
    "airflow.contrib.hooks.redshift_hook": {
        "RedshiftHook": "airflow.providers.amazon.aws.hooks.redshift_cluster:",
    },
    "airflow.contrib.hooks.sagemaker_hook": {
        "LogState": "airflow.providers.amazon.aws.hooks.sagemaker:",
        "Position": "airflow.providers.amazon.aws.hooks.sagemaker:",
        "SageMakerHook": "airflow.providers.amazon.aws.hooks.sagemaker:",
        "argmin": "airflow.providers.amazon.aws.hooks.sagemaker:",
        "secondary_training_status_changed": "airflow.providers.amazon.aws.hooks.sagemaker:",
        "secondary_training_status_message": "airflow.providers.amazon.aws.hooks.sagemaker:",
    },
    "airflow.contrib.hooks.salesforce_hook": {
        "SalesforceHook": "airflow.providers.salesforce.hooks.salesforce:",
        "pd": "airflow.providers.salesforce.hooks.salesforce:",
    },
    "airflow.contrib.hooks.segment_hook": {
        "SegmentHook": "airflow.providers.segment.hooks.segment:",
        "analytics": "airflow.providers.segment.hooks.segment:",
    },
    "airflow.contrib.hooks.sftp_hook": {
        "SFTPHook": "airflow.providers.sftp.hooks.sftp:",
    },
    "airflow.contrib.hooks.slack_webhook_hook": {
        "SlackWebhookHook": "airflow.providers.slack.hooks.slack_webhook:",
    },
    "airflow.contrib.hooks.snowflake_hook": {
        "SnowflakeHook": "airflow.providers.snowflake.hooks.snowflake:",
    },
    "airflow.contrib.hooks.spark_jdbc_hook": {
        "SparkJDBCHook": "airflow.providers.apache.spark.hooks.spark_jdbc:",
    },
    "airflow.contrib.hooks.spark_sql_hook": {
        "SparkSqlHook": "airflow.providers.apache.spark.hooks.spark_sql:",
    },
    "airflow.contrib.hooks.spark_submit_hook": {
        "SparkSubmitHook": "airflow.providers.apache.spark.hooks.spark_submit:",
    },
    "airflow.contrib.hooks.ssh_hook": {
        "SSHHook": "airflow.providers.ssh.hooks.ssh:",
    },
    "airflow.contrib.hooks.vertica_hook": {
        "VerticaHook": "airflow.providers.vertica.hooks.vertica:",
    },
    "airflow.contrib.hooks.wasb_hook": {
        "WasbHook": "airflow.providers.microsoft.azure.hooks.wasb:",
    },
    "airflow.contrib.hooks.winrm_hook": {
        "WinRMHook": "airflow.providers.microsoft.winrm.hooks.winrm:",
    },
    "airflow.contrib.secrets.aws_secrets_manager": {
        "SecretsManagerBackend": "airflow.providers.amazon.aws.secrets.secrets_manager:",
    },
    "airflow.contrib.secrets.aws_systems_manager": {
        "SystemsManagerParameterStoreBackend": "airflow.providers.amazon.aws.secrets.systems_manager:",
    },
    "airflow.contrib.secrets.azure_key_vault": {
        "AzureKeyVaultBackend": "airflow.providers.microsoft.azure.secrets.key_vault:",
    },
    "airflow.contrib.secrets.gcp_secrets_manager": {
        "CloudSecretManagerBackend": "airflow.providers.google.cloud.secrets.secret_manager:",
        "CloudSecretsManagerBackend": "airflow.providers.google.cloud.secrets.secret_manager:CloudSecretManagerBackend",
    },
    "airflow.contrib.secrets.hashicorp_vault": {
        "VaultBackend": "airflow.providers.hashicorp.secrets.vault:",
    },
    "airflow.contrib.utils.gcp_field_sanitizer": {
        "GcpBodyFieldSanitizer": "airflow.providers.google.cloud.utils.field_sanitizer:",
        "GcpFieldSanitizerException": "airflow.providers.google.cloud.utils.field_sanitizer:",
    },
    "airflow.contrib.utils.gcp_field_validator": {
        "GcpBodyFieldValidator": "airflow.providers.google.cloud.utils.field_validator:",
        "GcpFieldValidationException": "airflow.providers.google.cloud.utils.field_validator:",
        "GcpValidationSpecificationException": "airflow.providers.google.cloud.utils.field_validator:",
    },
    "airflow.contrib.utils.mlengine_operator_utils": {
        "create_evaluate_ops": "airflow.providers.google.cloud.utils.mlengine_operator_utils:",
    },
    "airflow.contrib.utils.mlengine_prediction_summary": {
        "JsonCoder": "airflow.providers.google.cloud.utils.mlengine_prediction_summary:",
        "MakeSummary": "airflow.providers.google.cloud.utils.mlengine_prediction_summary:",
    },
}
