"""Airflow 1.10, `contrib`: sensors. Provider packages have them today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.contrib.sensors.aws_athena_sensor": {
        "AthenaSensor": "airflow.providers.amazon.aws.sensors.athena:",
    },
    "airflow.contrib.sensors.aws_glue_catalog_partition_sensor": {
        "AwsGlueCatalogPartitionSensor": (
            "airflow.providers.amazon.aws.sensors.glue_catalog_partition:GlueCatalogPartitionSensor"
        ),
    },
    "airflow.contrib.sensors.aws_redshift_cluster_sensor": {
        "AwsRedshiftClusterSensor": "airflow.providers.amazon.aws.sensors.redshift_cluster:RedshiftClusterSensor",
    },
    "airflow.contrib.sensors.aws_sqs_sensor": {
        "SQSSensor": "airflow.providers.amazon.aws.sensors.sqs:SqsSensor",
        "SqsSensor": "airflow.providers.amazon.aws.sensors.sqs:",
    },
    "airflow.contrib.sensors.azure_cosmos_sensor": {
        "AzureCosmosDocumentSensor": "airflow.providers.microsoft.azure.sensors.cosmos:",
    },
    "airflow.contrib.sensors.bigquery_sensor": {
        "BigQueryTableExistenceSensor": "airflow.providers.google.cloud.sensors.bigquery:",
        "BigQueryTableSensor": "airflow.providers.google.cloud.sensors.bigquery:BigQueryTableExistenceSensor",
    },
    "airflow.contrib.sensors.cassandra_record_sensor": {
        "CassandraRecordSensor": "airflow.providers.apache.cassandra.sensors.record:",
    },
    "airflow.contrib.sensors.cassandra_table_sensor": {
        "CassandraTableSensor": "airflow.providers.apache.cassandra.sensors.table:",
    },
    "airflow.contrib.sensors.celery_queue_sensor": {
        "CeleryQueueSensor": "airflow.providers.celery.sensors.celery_queue:",
    },
    "airflow.contrib.sensors.datadog_sensor": {
        "DatadogSensor": "airflow.providers.datadog.sensors.datadog:",
    },
    "airflow.contrib.sensors.ftp_sensor": {
        "FTPSSensor": "airflow.providers.ftp.sensors.ftp:",
        "FTPSensor": "airflow.providers.ftp.sensors.ftp:",
    },
    "airflow.contrib.sensors.gcp_transfer_sensor": {
        "CloudDataTransferServiceJobStatusSensor": (
            "airflow.providers.google.cloud.sensors.cloud_storage_transfer_service:"
        ),
        "GCPTransferServiceWaitForJobStatusSensor": (
            "airflow.providers.google.cloud.sensors.cloud_storage_transfer_service:"
            "CloudDataTransferServiceJobStatusSensor"
        ),
    },
    "airflow.contrib.sensors.gcs_sensor": {
        "GCSObjectExistenceSensor": "airflow.providers.google.cloud.sensors.gcs:",
        "GCSObjectUpdateSensor": "airflow.providers.google.cloud.sensors.gcs:",
        "GCSObjectsWithPrefixExistenceSensor": "airflow.providers.google.cloud.sensors.gcs:",
        "GCSUploadSessionCompleteSensor": "airflow.providers.google.cloud.sensors.gcs:",
        "GoogleCloudStorageObjectSensor": "airflow.providers.google.cloud.sensors.gcs:GCSObjectExistenceSensor",
        "GoogleCloudStorageObjectUpdatedSensor": "airflow.providers.google.cloud.sensors.gcs:GCSObjectUpdateSensor",
        "GoogleCloudStoragePrefixSensor": (
            "airflow.providers.google.cloud.sensors.gcs:GCSObjectsWithPrefixExistenceSensor"
        ),
        "GoogleCloudStorageUploadSessionCompleteSensor": (
            "airflow.providers.google.cloud.sensors.gcs:GCSUploadSessionCompleteSensor"
        ),
    },
    "airflow.contrib.sensors.imap_attachment_sensor": {
        "ImapAttachmentSensor": "airflow.providers.imap.sensors.imap_attachment:",
    },
    "airflow.contrib.sensors.jira_sensor": {
        "JiraSensor": "airflow.providers.atlassian.jira.sensors.jira:",
        "JiraTicketSensor": "airflow.providers.atlassian.jira.sensors.jira:",
    },
    "airflow.contrib.sensors.mongo_sensor": {
        "MongoSensor": "airflow.providers.mongo.sensors.mongo:",
    },
    "airflow.contrib.sensors.pubsub_sensor": {
        "PubSubPullSensor": "airflow.providers.google.cloud.sensors.pubsub:",
    },
    "airflow.contrib.sensors.redis_key_sensor": {
        "RedisKeySensor": "airflow.providers.redis.sensors.redis_key:",
    },
    "airflow.contrib.sensors.redis_pub_sub_sensor": {
        "RedisPubSubSensor": "airflow.providers.redis.sensors.redis_pub_sub:",
    },
    "airflow.contrib.sensors.sagemaker_training_sensor": {
        "SageMakerHook": "airflow.providers.amazon.aws.sensors.sagemaker:",
        "SageMakerTrainingSensor": "airflow.providers.amazon.aws.sensors.sagemaker:",
    },
    "airflow.contrib.sensors.sftp_sensor": {
        "SFTPSensor": "airflow.providers.sftp.sensors.sftp:",
    },
    "airflow.contrib.sensors.wasb_sensor": {
        "WasbBlobSensor": "airflow.providers.microsoft.azure.sensors.wasb:",
        "WasbPrefixSensor": "airflow.providers.microsoft.azure.sensors.wasb:",
    },
}
