"""Modules and names of Airflow 1.10 that Airflow 2.11 had no more; provider packages have them today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.contrib.hooks.aws_firehose_hook": {
        "AwsFirehoseHook": "airflow.providers.amazon.aws.hooks.kinesis:",
    },
    "airflow.contrib.hooks.bigquery_hook": {
        "BigQueryPandasConnector": "airflow.providers.google.cloud.hooks.bigquery:",
    },
    "airflow.contrib.hooks.databricks_hook": {
        "USER_AGENT_HEADER": "airflow.providers.databricks.hooks.databricks:",
    },
    "airflow.contrib.hooks.gcp_transfer_hook": {
        "*": "airflow.providers.google.cloud.hooks.cloud_storage_transfer_service",
        "GcpTransferJobsStatus": "airflow.providers.google.cloud.hooks.cloud_storage_transfer_service:",
        "GcpTransferOperationStatus": "airflow.providers.google.cloud.hooks.cloud_storage_transfer_service:",
    },
    "airflow.contrib.hooks.qubole_check_hook": {
        "QuboleCheckHook": "airflow.providers.qubole.hooks.qubole_check:",
    },
    "airflow.contrib.hooks.qubole_hook": {
        "QuboleHook": "airflow.providers.qubole.hooks.qubole:",
    },
    "airflow.contrib.hooks.sqoop_hook": {
        "SqoopHook": "airflow.providers.apache.sqoop.hooks.sqoop:",
    },
    "airflow.contrib.kubernetes.kube_client": {
        "get_kube_client": "airflow.providers.cncf.kubernetes.kube_client:",
    },
    "airflow.contrib.kubernetes.pod": {
        "Port": "airflow.providers.cncf.kubernetes.backcompat.pod:",
        "Resources": "airflow.providers.cncf.kubernetes.backcompat.pod:",
    },
    "airflow.contrib.kubernetes.pod_runtime_info_env": {
        "PodRuntimeInfoEnv": "airflow.providers.cncf.kubernetes.backcompat.pod_runtime_info_env:",
    },
    "airflow.contrib.kubernetes.secret": {
        "Secret": "airflow.providers.cncf.kubernetes.secret:",
    },
    "airflow.contrib.kubernetes.volume": {
        "Volume": "airflow.providers.cncf.kubernetes.backcompat.volume:",
    },
    "airflow.contrib.kubernetes.volume_mount": {
        "VolumeMount": "airflow.providers.cncf.kubernetes.backcompat.volume_mount:",
    },
    "airflow.contrib.operators.awsbatch_operator": {
        "AwsBatchOperator": "airflow.providers.amazon.aws.operators.batch:",
        "AwsBatchProtocol": "airflow.providers.amazon.aws.hooks.batch_client:",
    },
    "airflow.contrib.operators.ecs_operator": {
        "ECSOperator": "airflow.providers.amazon.aws.operators.ecs:",
        "ECSProtocol": "airflow.providers.amazon.aws.operators.ecs:",
        "NewECSProtocol": "airflow.providers.amazon.aws.operators.ecs:ECSProtocol",
    },
    "airflow.contrib.operators.emr_add_steps_operator": {
        "EmrAddStepsOperator": "airflow.providers.amazon.aws.operators.emr:",
    },
    "airflow.contrib.operators.emr_create_job_flow_operator": {
        "EmrCreateJobFlowOperator": "airflow.providers.amazon.aws.operators.emr:",
    },
    "airflow.contrib.operators.emr_terminate_job_flow_operator": {
        "EmrTerminateJobFlowOperator": "airflow.providers.amazon.aws.operators.emr:",
    },
    "airflow.contrib.operators.gcs_to_gcs_transfer_operator": {
        "GoogleCloudStorageToGoogleCloudStorageTransferOperator": (
            "airflow.providers.google.cloud.operators.cloud_storage_transfer_service:"
            "CloudDataTransferServiceGCSToGCSOperator"
        ),
    },
    "airflow.contrib.operators.gcs_to_gdrive_operator": {
        "GcsToGDriveOperator": "airflow.providers.google.suite.transfers.gcs_to_gdrive:GCSToGoogleDriveOperator",
    },
    "airflow.contrib.operators.qubole_check_operator": {
        "QuboleCheckOperator": "airflow.providers.qubole.operators.qubole_check:",
        "QuboleValueCheckOperator": "airflow.providers.qubole.operators.qubole_check:",
    },
    "airflow.contrib.operators.qubole_operator": {
        "QuboleOperator": "airflow.providers.qubole.operators.qubole:",
    },
    "airflow.contrib.operators.s3_copy_object_operator": {
        "S3CopyObjectOperator": "airflow.providers.amazon.aws.operators.s3:",
    },
    "airflow.contrib.operators.s3_delete_objects_operator": {
        "S3DeleteObjectsOperator": "airflow.providers.amazon.aws.operators.s3:",
    },
    "airflow.contrib.operators.s3_list_operator": {
        "S3ListOperator": "airflow.providers.amazon.aws.operators.s3:",
    },
    "airflow.contrib.operators.sagemaker_base_operator": {
        "SageMakerBaseOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sagemaker_endpoint_config_operator": {
        "SageMakerEndpointConfigOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sagemaker_endpoint_operator": {
        "SageMakerEndpointOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sagemaker_model_operator": {
        "SageMakerModelOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sagemaker_training_operator": {
        "SageMakerTrainingOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sagemaker_transform_operator": {
        "SageMakerTransformOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sagemaker_tuning_operator": {
        "SageMakerTuningOperator": "airflow.providers.amazon.aws.operators.sagemaker:",
    },
    "airflow.contrib.operators.sqoop_operator": {
        "SqoopOperator": "airflow.providers.apache.sqoop.operators.sqoop:",
    },
    "airflow.contrib.sensors.emr_base_sensor": {
        "EmrBaseSensor": "airflow.providers.amazon.aws.sensors.emr:",
    },
    "airflow.contrib.sensors.emr_job_flow_sensor": {
        "EmrJobFlowSensor": "airflow.providers.amazon.aws.sensors.emr:",
    },
    "airflow.contrib.sensors.emr_step_sensor": {
        "EmrStepSensor": "airflow.providers.amazon.aws.sensors.emr:",
    },
    "airflow.contrib.sensors.gcs_sensor": {
        "GCSObjectsWtihPrefixExistenceSensor": "airflow.providers.google.cloud.sensors.gcs:",
    },
    "airflow.contrib.sensors.hdfs_sensor": {
        "HdfsFolderSensor": "airflow.providers.apache.hdfs.sensors.hdfs:",
        "HdfsRegexSensor": "airflow.providers.apache.hdfs.sensors.hdfs:",
        "HdfsSensorFolder": "airflow.providers.apache.hdfs.sensors.hdfs:HdfsFolderSensor",
        "HdfsSensorRegex": "airflow.providers.apache.hdfs.sensors.hdfs:HdfsRegexSensor",
    },
    "airflow.contrib.sensors.qubole_sensor": {
        "QuboleFileSensor": "airflow.providers.qubole.sensors.qubole:",
        "QubolePartitionSensor": "airflow.providers.qubole.sensors.qubole:",
        "QuboleSensor": "airflow.providers.qubole.sensors.qubole:",
    },
    "airflow.contrib.sensors.sagemaker_base_sensor": {
        "SageMakerBaseSensor": "airflow.providers.amazon.aws.sensors.sagemaker:",
    },
    "airflow.contrib.sensors.sagemaker_endpoint_sensor": {
        "SageMakerEndpointSensor": "airflow.providers.amazon.aws.sensors.sagemaker:",
    },
    "airflow.contrib.sensors.sagemaker_transform_sensor": {
        "SageMakerTransformSensor": "airflow.providers.amazon.aws.sensors.sagemaker:",
    },
    "airflow.contrib.sensors.sagemaker_tuning_sensor": {
        "SageMakerTuningSensor": "airflow.providers.amazon.aws.sensors.sagemaker:",
    },
    "airflow.hooks.hdfs_hook": {
        "HDFSHook": "airflow.providers.apache.hdfs.hooks.hdfs:",
        "HDFSHookException": "airflow.providers.apache.hdfs.hooks.hdfs:",
    },
    "airflow.hooks.zendesk_hook": {
        "Zendesk": "airflow.providers.zendesk.hooks.zendesk:",
        "ZendeskError": "airflow.providers.zendesk.hooks.zendesk:",
    },
    "airflow.operators.generic_transfer": {
        "GenericTransfer": "airflow.providers.common.sql.operators.generic_transfer:",
    },
    "airflow.sensors.hdfs_sensor": {
        "HdfsSensor": "airflow.providers.apache.hdfs.sensors.hdfs:",
    },
    "airflow.sensors.s3_prefix_sensor": {
        "S3PrefixSensor": "airflow.providers.amazon.aws.sensors.s3:",
    },
}
