"""Airflow 1.10, `contrib`: the other operators for Google. Provider packages have them today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.contrib.operators.gcp_tasks_operator": {
        "CloudTasksQueueCreateOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueueDeleteOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueueGetOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueuePauseOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueuePurgeOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueueResumeOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueueUpdateOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksQueuesListOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksTaskCreateOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksTaskDeleteOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksTaskGetOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksTaskRunOperator": "airflow.providers.google.cloud.operators.tasks:",
        "CloudTasksTasksListOperator": "airflow.providers.google.cloud.operators.tasks:",
    },
    "airflow.contrib.operators.gcp_text_to_speech_operator": {
        "CloudTextToSpeechSynthesizeOperator": "airflow.providers.google.cloud.operators.text_to_speech:",
        "GcpTextToSpeechSynthesizeOperator": (
            "airflow.providers.google.cloud.operators.text_to_speech:CloudTextToSpeechSynthesizeOperator"
        ),
    },
    "airflow.contrib.operators.gcp_transfer_operator": {
        "CloudDataTransferServiceCancelOperationOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceCreateJobOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceDeleteJobOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceGCSToGCSOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceGetOperationOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceListOperationsOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServicePauseOperationOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceResumeOperationOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceS3ToGCSOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "CloudDataTransferServiceUpdateJobOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
        "GcpTransferServiceJobCreateOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceCreateJobOperator"
        ),
        "GcpTransferServiceJobDeleteOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceDeleteJobOperator"
        ),
        "GcpTransferServiceJobUpdateOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceUpdateJobOperator"
        ),
        "GcpTransferServiceOperationCancelOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceCancelOperationOperator"
        ),
        "GcpTransferServiceOperationGetOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceGetOperationOperator"
        ),
        "GcpTransferServiceOperationPauseOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServicePauseOperationOperator"
        ),
        "GcpTransferServiceOperationResumeOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceResumeOperationOperator"
        ),
        "GcpTransferServiceOperationsListOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceListOperationsOperator"
        ),
        "GoogleCloudStorageToGoogleCloudStorageTransferOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceGCSToGCSOperator"
        ),
        "S3ToGoogleCloudStorageTransferOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceS3ToGCSOperator"
        ),
    },
    "airflow.contrib.operators.gcp_translate_operator": {
        "CloudTranslateTextOperator": "airflow.providers.google.cloud.operators.translate:",
    },
    "airflow.contrib.operators.gcp_translate_speech_operator": {
        "CloudTranslateSpeechOperator": "airflow.providers.google.cloud.operators.translate_speech:",
        "GcpTranslateSpeechOperator": (
            "airflow.providers.google.cloud.operators.translate_speech:CloudTranslateSpeechOperator"
        ),
    },
    "airflow.contrib.operators.gcp_video_intelligence_operator": {
        "CloudVideoIntelligenceDetectVideoExplicitContentOperator": (
            "airflow.providers.google.cloud.operators.video_intelligence:"
        ),
        "CloudVideoIntelligenceDetectVideoLabelsOperator": (
            "airflow.providers.google.cloud.operators.video_intelligence:"
        ),
        "CloudVideoIntelligenceDetectVideoShotsOperator": (
            "airflow.providers.google.cloud.operators.video_intelligence:"
        ),
    },
    "airflow.contrib.operators.gcp_vision_operator": {
        "CloudVisionAddProductToProductSetOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionAnnotateImageOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionImageAnnotateOperator"
        ),
        "CloudVisionCreateProductOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionCreateProductSetOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionCreateReferenceImageOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionDeleteProductOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionDeleteProductSetOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionDetectDocumentTextOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionTextDetectOperator"
        ),
        "CloudVisionDetectImageLabelsOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionDetectImageSafeSearchOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionDetectTextOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionGetProductOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionGetProductSetOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionImageAnnotateOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionProductCreateOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionCreateProductOperator"
        ),
        "CloudVisionProductDeleteOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionDeleteProductOperator"
        ),
        "CloudVisionProductGetOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionGetProductOperator"
        ),
        "CloudVisionProductSetCreateOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionCreateProductSetOperator"
        ),
        "CloudVisionProductSetDeleteOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionDeleteProductSetOperator"
        ),
        "CloudVisionProductSetGetOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionGetProductSetOperator"
        ),
        "CloudVisionProductSetUpdateOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionUpdateProductSetOperator"
        ),
        "CloudVisionProductUpdateOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionUpdateProductOperator"
        ),
        "CloudVisionReferenceImageCreateOperator": (
            "airflow.providers.google.cloud.operators.vision:CloudVisionCreateReferenceImageOperator"
        ),
        "CloudVisionRemoveProductFromProductSetOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionTextDetectOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionUpdateProductOperator": "airflow.providers.google.cloud.operators.vision:",
        "CloudVisionUpdateProductSetOperator": "airflow.providers.google.cloud.operators.vision:",
    },
    "airflow.contrib.operators.gcs_acl_operator": {
        "GCSBucketCreateAclEntryOperator": "airflow.providers.google.cloud.operators.gcs:",
        "GCSObjectCreateAclEntryOperator": "airflow.providers.google.cloud.operators.gcs:",
        "GoogleCloudStorageBucketCreateAclEntryOperator": (
            "airflow.providers.google.cloud.operators.gcs:GCSBucketCreateAclEntryOperator"
        ),
        "GoogleCloudStorageObjectCreateAclEntryOperator": (
            "airflow.providers.google.cloud.operators.gcs:GCSObjectCreateAclEntryOperator"
        ),
    },
    "airflow.contrib.operators.gcs_delete_operator": {
        "GCSDeleteObjectsOperator": "airflow.providers.google.cloud.operators.gcs:",
        "GoogleCloudStorageDeleteOperator": "airflow.providers.google.cloud.operators.gcs:GCSDeleteObjectsOperator",
    },
    "airflow.contrib.operators.gcs_download_operator": {
        "GCSToLocalFilesystemOperator": "airflow.providers.google.cloud.transfers.gcs_to_local:",
        "GoogleCloudStorageDownloadOperator": (
            "airflow.providers.google.cloud.transfers.gcs_to_local:GCSToLocalFilesystemOperator"
        ),
    },
    "airflow.contrib.operators.gcs_list_operator": {
        "GCSListObjectsOperator": "airflow.providers.google.cloud.operators.gcs:",
        "GoogleCloudStorageListOperator": "airflow.providers.google.cloud.operators.gcs:GCSListObjectsOperator",
    },
    "airflow.contrib.operators.gcs_operator": {
        "GCSCreateBucketOperator": "airflow.providers.google.cloud.operators.gcs:",
        "GoogleCloudStorageCreateBucketOperator": (
            "airflow.providers.google.cloud.operators.gcs:GCSCreateBucketOperator"
        ),
    },
    "airflow.contrib.operators.gcs_to_bq": {
        "GCSToBigQueryOperator": "airflow.providers.google.cloud.transfers.gcs_to_bigquery:",
        "GoogleCloudStorageToBigQueryOperator": (
            "airflow.providers.google.cloud.transfers.gcs_to_bigquery:GCSToBigQueryOperator"
        ),
    },
    "airflow.contrib.operators.gcs_to_gcs": {
        "GCSToGCSOperator": "airflow.providers.google.cloud.transfers.gcs_to_gcs:",
        "GoogleCloudStorageToGoogleCloudStorageOperator": (
            "airflow.providers.google.cloud.transfers.gcs_to_gcs:GCSToGCSOperator"
        ),
    },
    "airflow.contrib.operators.gcs_to_gdrive_operator": {
        "GCSToGoogleDriveOperator": "airflow.providers.google.suite.transfers.gcs_to_gdrive:",
    },
    "airflow.contrib.operators.mlengine_operator": {
        "MLEngineBatchPredictionOperator": (
            "airflow.providers.google.cloud.operators.mlengine:MLEngineStartBatchPredictionJobOperator"
        ),
        "MLEngineManageModelOperator": "airflow.providers.google.cloud.operators.mlengine:",
        "MLEngineManageVersionOperator": "airflow.providers.google.cloud.operators.mlengine:",
        "MLEngineModelOperator": "airflow.providers.google.cloud.operators.mlengine:MLEngineManageModelOperator",
        "MLEngineStartBatchPredictionJobOperator": "airflow.providers.google.cloud.operators.mlengine:",
        "MLEngineStartTrainingJobOperator": "airflow.providers.google.cloud.operators.mlengine:",
        "MLEngineTrainingOperator": (
            "airflow.providers.google.cloud.operators.mlengine:MLEngineStartTrainingJobOperator"
        ),
        "MLEngineVersionOperator": "airflow.providers.google.cloud.operators.mlengine:MLEngineManageVersionOperator",
    },
    "airflow.contrib.operators.mssql_to_gcs": {
        "MSSQLToGCSOperator": "airflow.providers.google.cloud.transfers.mssql_to_gcs:",
        "MsSqlToGoogleCloudStorageOperator": "airflow.providers.google.cloud.transfers.mssql_to_gcs:MSSQLToGCSOperator",
    },
    "airflow.contrib.operators.mysql_to_gcs": {
        "MySQLToGCSOperator": "airflow.providers.google.cloud.transfers.mysql_to_gcs:",
        "MySqlToGoogleCloudStorageOperator": "airflow.providers.google.cloud.transfers.mysql_to_gcs:MySQLToGCSOperator",
    },
    "airflow.contrib.operators.postgres_to_gcs_operator": {
        "PostgresToGCSOperator": "airflow.providers.google.cloud.transfers.postgres_to_gcs:",
        "PostgresToGoogleCloudStorageOperator": (
            "airflow.providers.google.cloud.transfers.postgres_to_gcs:PostgresToGCSOperator"
        ),
    },
    "airflow.contrib.operators.pubsub_operator": {
        "PubSubCreateSubscriptionOperator": "airflow.providers.google.cloud.operators.pubsub:",
        "PubSubCreateTopicOperator": "airflow.providers.google.cloud.operators.pubsub:",
        "PubSubDeleteSubscriptionOperator": "airflow.providers.google.cloud.operators.pubsub:",
        "PubSubDeleteTopicOperator": "airflow.providers.google.cloud.operators.pubsub:",
        "PubSubPublishMessageOperator": "airflow.providers.google.cloud.operators.pubsub:",
        "PubSubPublishOperator": "airflow.providers.google.cloud.operators.pubsub:PubSubPublishMessageOperator",
        "PubSubSubscriptionCreateOperator": (
            "airflow.providers.google.cloud.operators.pubsub:PubSubCreateSubscriptionOperator"
        ),
        "PubSubSubscriptionDeleteOperator": (
            "airflow.providers.google.cloud.operators.pubsub:PubSubDeleteSubscriptionOperator"
        ),
        "PubSubTopicCreateOperator": "airflow.providers.google.cloud.operators.pubsub:PubSubCreateTopicOperator",
        "PubSubTopicDeleteOperator": "airflow.providers.google.cloud.operators.pubsub:PubSubDeleteTopicOperator",
    },
    "airflow.contrib.operators.s3_to_gcs_operator": {
        "S3ToGCSOperator": "airflow.providers.google.cloud.transfers.s3_to_gcs:",
    },
    "airflow.contrib.operators.s3_to_gcs_transfer_operator": {
        "CloudDataTransferServiceS3ToGCSOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
        ),
    },
    "airflow.contrib.operators.sql_to_gcs": {
        "BaseSQLToGCSOperator": "airflow.providers.google.cloud.transfers.sql_to_gcs:",
        "BaseSQLToGoogleCloudStorageOperator": (
            "airflow.providers.google.cloud.transfers.sql_to_gcs:BaseSQLToGCSOperator"
        ),
    },
}
