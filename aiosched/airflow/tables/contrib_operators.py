"""Airflow 1.10, `contrib`: operators of other systems than Google. Provider packages have them today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.contrib.operators.adls_list_operator": {
        "ADLSListOperator": "airflow.providers.microsoft.azure.operators.adls:",
        "AzureDataLakeStorageListOperator": "airflow.providers.microsoft.azure.operators.adls:ADLSListOperator",
    },
    "airflow.contrib.operators.aws_athena_operator": {
        "AWSAthenaOperator": "airflow.providers.amazon.aws.operators.athena:AthenaOperator",
    },
    "airflow.contrib.operators.aws_sqs_publish_operator": {
        "SQSPublishOperator": "airflow.providers.amazon.aws.operators.sqs:SqsPublishOperator",
        "SqsPublishOperator": "airflow.providers.amazon.aws.operators.sqs:",
    },
    "airflow.contrib.operators.awsbatch_operator": {
        "AWSBatchOperator": "airflow.providers.amazon.aws.operators.batch:BatchOperator",
        "BatchOperator": "airflow.providers.amazon.aws.operators.batch:",
        "BatchProtocol": "airflow.providers.amazon.aws.hooks.batch_client:",
    },
    "airflow.contrib.operators.azure_container_instances_operator": {
        "AzureContainerInstancesOperator": "airflow.providers.microsoft.azure.operators.container_instances:",
    },
    "airflow.contrib.operators.azure_cosmos_operator": {
        "AzureCosmosInsertDocumentOperator": "airflow.providers.microsoft.azure.operators.cosmos:",
    },
    "airflow.contrib.operators.databricks_operator": {
        "DatabricksRunNowOperator": "airflow.providers.databricks.operators.databricks:",
        "DatabricksSubmitRunOperator": "airflow.providers.databricks.operators.databricks:",
    },
    "airflow.contrib.operators.dingding_operator": {
        "DingdingOperator": "airflow.providers.dingding.operators.dingding:",
    },
    "airflow.contrib.operators.discord_webhook_operator": {
        "DiscordWebhookOperator": "airflow.providers.discord.operators.discord_webhook:",
    },
    "airflow.contrib.operators.docker_swarm_operator": {
        "DockerSwarmOperator": "airflow.providers.docker.operators.docker_swarm:",
    },
    "airflow.contrib.operators.druid_operator": {
        "DruidOperator": "airflow.providers.apache.druid.operators.druid:",
    },
    "airflow.contrib.operators.dynamodb_to_s3": {
        "DynamoDBToS3Operator": "airflow.providers.amazon.aws.transfers.dynamodb_to_s3:",
    },
    "airflow.contrib.operators.ecs_operator": {
        "EcsOperator": "airflow.providers.amazon.aws.operators.ecs:EcsRunTaskOperator",
        "EcsProtocol": "airflow.providers.amazon.aws.hooks.ecs:",
        "EcsRunTaskOperator": "airflow.providers.amazon.aws.operators.ecs:",
    },
    "airflow.contrib.operators.file_to_wasb": {
        "FileToWasbOperator": "airflow.providers.microsoft.azure.transfers.local_to_wasb:LocalFilesystemToWasbOperator",
        "LocalFilesystemToWasbOperator": "airflow.providers.microsoft.azure.transfers.local_to_wasb:",
    },
    "airflow.contrib.operators.gcs_to_s3": {
        "GCSToS3Operator": "airflow.providers.amazon.aws.transfers.gcs_to_s3:",
        "GoogleCloudStorageToS3Operator": "airflow.providers.amazon.aws.transfers.gcs_to_s3:GCSToS3Operator",
    },
    "airflow.contrib.operators.grpc_operator": {
        "GrpcOperator": "airflow.providers.grpc.operators.grpc:",
    },
    "airflow.contrib.operators.hive_to_dynamodb": {
        "HiveToDynamoDBOperator": "airflow.providers.amazon.aws.transfers.hive_to_dynamodb:",
    },
    "airflow.contrib.operators.imap_attachment_to_s3_operator": {
        "ImapAttachmentToS3Operator": "airflow.providers.amazon.aws.transfers.imap_attachment_to_s3:",
    },
    "airflow.contrib.operators.jenkins_job_trigger_operator": {
        "JenkinsJobTriggerOperator": "airflow.providers.jenkins.operators.jenkins_job_trigger:",
    },
    "airflow.contrib.operators.jira_operator": {
        "JiraOperator": "airflow.providers.atlassian.jira.operators.jira:",
    },
    "airflow.contrib.operators.kubernetes_pod_operator": {
        "KubernetesPodOperator": "airflow.providers.cncf.kubernetes.operators.pod:",
    },
    "airflow.contrib.operators.mongo_to_s3": {
        "MongoToS3Operator": "airflow.providers.amazon.aws.transfers.mongo_to_s3:",
    },
    "airflow.contrib.operators.opsgenie_alert_operator": {
        "OpsgenieAlertOperator": "airflow.providers.opsgenie.operators.opsgenie:OpsgenieCreateAlertOperator",
        "OpsgenieCreateAlertOperator": "airflow.providers.opsgenie.operators.opsgenie:",
    },
    "airflow.contrib.operators.oracle_to_azure_data_lake_transfer": {
        "OracleToAzureDataLakeOperator": "airflow.providers.microsoft.azure.transfers.oracle_to_azure_data_lake:",
    },
    "airflow.contrib.operators.oracle_to_oracle_transfer": {
        "OracleToOracleOperator": "airflow.providers.oracle.transfers.oracle_to_oracle:",
        "OracleToOracleTransfer": "airflow.providers.oracle.transfers.oracle_to_oracle:OracleToOracleOperator",
    },
    "airflow.contrib.operators.redis_publish_operator": {
        "RedisPublishOperator": "airflow.providers.redis.operators.redis_publish:",
    },
    "airflow.contrib.operators.s3_to_sftp_operator": {
        "S3ToSFTPOperator": "airflow.providers.amazon.aws.transfers.s3_to_sftp:",
    },
    "airflow.contrib.operators.segment_track_event_operator": {
        "SegmentTrackEventOperator": "airflow.providers.segment.operators.segment_track_event:",
    },
    "airflow.contrib.operators.sftp_operator": {
        "SFTPOperator": "airflow.providers.sftp.operators.sftp:",
    },
    "airflow.contrib.operators.sftp_to_s3_operator": {
        "SFTPToS3Operator": "airflow.providers.amazon.aws.transfers.sftp_to_s3:",
    },
    "airflow.contrib.operators.slack_webhook_operator": {
        "SlackWebhookOperator": "airflow.providers.slack.operators.slack_webhook:",
    },
    "airflow.contrib.operators.snowflake_operator": {
        "SnowflakeOperator": "airflow.providers.snowflake.operators.snowflake:",
    },
    "airflow.contrib.operators.sns_publish_operator": {
        "SnsPublishOperator": "airflow.providers.amazon.aws.operators.sns:",
    },
    "airflow.contrib.operators.spark_jdbc_operator": {
        "SparkJDBCOperator": "airflow.providers.apache.spark.operators.spark_jdbc:",
        "SparkSubmitOperator": "airflow.providers.apache.spark.operators.spark_jdbc:",
    },
    "airflow.contrib.operators.spark_sql_operator": {
        "SparkSqlOperator": "airflow.providers.apache.spark.operators.spark_sql:",
    },
    "airflow.contrib.operators.spark_submit_operator": {
        "SparkSubmitOperator": "airflow.providers.apache.spark.operators.spark_submit:",
    },
    "airflow.contrib.operators.ssh_operator": {
        "SSHOperator": "airflow.providers.ssh.operators.ssh:",
    },
    "airflow.contrib.operators.vertica_operator": {
        "VerticaOperator": "airflow.providers.vertica.operators.vertica:",
    },
    "airflow.contrib.operators.vertica_to_hive": {
        "VerticaToHiveOperator": "airflow.providers.apache.hive.transfers.vertica_to_hive:",
        "VerticaToHiveTransfer": "airflow.providers.apache.hive.transfers.vertica_to_hive:VerticaToHiveOperator",
    },
    "airflow.contrib.operators.vertica_to_mysql": {
        "VerticaToMySqlOperator": "airflow.providers.mysql.transfers.vertica_to_mysql:",
        "VerticaToMySqlTransfer": "airflow.providers.mysql.transfers.vertica_to_mysql:VerticaToMySqlOperator",
    },
    "airflow.contrib.operators.wasb_delete_blob_operator": {
        "WasbDeleteBlobOperator": "airflow.providers.microsoft.azure.operators.wasb_delete_blob:",
    },
    "airflow.contrib.operators.winrm_operator": {
        "WinRMOperator": "airflow.providers.microsoft.winrm.operators.winrm:",
    },
}
