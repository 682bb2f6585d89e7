"""Airflow 1.10, `contrib`: operators for Google, up to `gcp_sql`. Provider packages have them today."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.contrib.operators.adls_to_gcs": {
        "ADLSToGCSOperator": "airflow.providers.google.cloud.transfers.adls_to_gcs:",
        "AdlsToGoogleCloudStorageOperator": "airflow.providers.google.cloud.transfers.adls_to_gcs:ADLSToGCSOperator",
    },
    "airflow.contrib.operators.bigquery_check_operator": {
        "BigQueryCheckOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryIntervalCheckOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryValueCheckOperator": "airflow.providers.google.cloud.operators.bigquery:",
    },
    "airflow.contrib.operators.bigquery_get_data": {
        "BigQueryGetDataOperator": "airflow.providers.google.cloud.operators.bigquery:",
    },
    "airflow.contrib.operators.bigquery_operator": {
        "BigQueryCreateEmptyDatasetOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryCreateEmptyTableOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryCreateExternalTableOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryDeleteDatasetOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryExecuteQueryOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryGetDatasetOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryGetDatasetTablesOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryOperator": "airflow.providers.google.cloud.operators.bigquery:BigQueryExecuteQueryOperator",
        "BigQueryPatchDatasetOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryUpdateDatasetOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryUpsertTableOperator": "airflow.providers.google.cloud.operators.bigquery:",
    },
    "airflow.contrib.operators.bigquery_table_delete_operator": {
        "BigQueryDeleteTableOperator": "airflow.providers.google.cloud.operators.bigquery:",
        "BigQueryTableDeleteOperator": "airflow.providers.google.cloud.operators.bigquery:BigQueryDeleteTableOperator",
    },
    "airflow.contrib.operators.bigquery_to_bigquery": {
        "BigQueryToBigQueryOperator": "airflow.providers.google.cloud.transfers.bigquery_to_bigquery:",
    },
    "airflow.contrib.operators.bigquery_to_gcs": {
        "BigQueryToCloudStorageOperator": (
            "airflow.providers.google.cloud.transfers.bigquery_to_gcs:BigQueryToGCSOperator"
        ),
        "BigQueryToGCSOperator": "airflow.providers.google.cloud.transfers.bigquery_to_gcs:",
    },
    "airflow.contrib.operators.bigquery_to_mysql_operator": {
        "BigQueryToMySqlOperator": "airflow.providers.google.cloud.transfers.bigquery_to_mysql:",
    },
    "airflow.contrib.operators.cassandra_to_gcs": {
        "CassandraToGCSOperator": "airflow.providers.google.cloud.transfers.cassandra_to_gcs:",
        "CassandraToGoogleCloudStorageOperator": (
            "airflow.providers.google.cloud.transfers.cassandra_to_gcs:CassandraToGCSOperator"
        ),
    },
    "airflow.contrib.operators.dataflow_operator": {
        "DataFlowJavaOperator": "airflow.providers.google.cloud.operators.dataflow:DataflowCreateJavaJobOperator",
        "DataFlowPythonOperator": "airflow.providers.google.cloud.operators.dataflow:DataflowCreatePythonJobOperator",
        "DataflowCreateJavaJobOperator": "airflow.providers.google.cloud.operators.dataflow:",
        "DataflowCreatePythonJobOperator": "airflow.providers.google.cloud.operators.dataflow:",
        "DataflowTemplateOperator": (
            "airflow.providers.google.cloud.operators.dataflow:DataflowTemplatedJobStartOperator"
        ),
        "DataflowTemplatedJobStartOperator": "airflow.providers.google.cloud.operators.dataflow:",
    },
    "airflow.contrib.operators.datapipeline_operator": {
        "CreateDataPipelineOperator": "airflow.providers.google.cloud.operators.datapipeline:",
        "RunDataPipelineOperator": "airflow.providers.google.cloud.operators.datapipeline:",
    },
    "airflow.contrib.operators.dataproc_operator": {
        "DataProcHadoopOperator": "airflow.providers.google.cloud.operators.dataproc:DataprocSubmitHadoopJobOperator",
        "DataProcHiveOperator": "airflow.providers.google.cloud.operators.dataproc:DataprocSubmitHiveJobOperator",
        "DataProcJobBaseOperator": "airflow.providers.google.cloud.operators.dataproc:DataprocJobBaseOperator",
        "DataProcPigOperator": "airflow.providers.google.cloud.operators.dataproc:DataprocSubmitPigJobOperator",
        "DataProcPySparkOperator": "airflow.providers.google.cloud.operators.dataproc:DataprocSubmitPySparkJobOperator",
        "DataProcSparkOperator": "airflow.providers.google.cloud.operators.dataproc:DataprocSubmitSparkJobOperator",
        "DataProcSparkSqlOperator": (
            "airflow.providers.google.cloud.operators.dataproc:DataprocSubmitSparkSqlJobOperator"
        ),
        "DataprocClusterCreateOperator": (
            "airflow.providers.google.cloud.operators.dataproc:DataprocCreateClusterOperator"
        ),
        "DataprocClusterDeleteOperator": (
            "airflow.providers.google.cloud.operators.dataproc:DataprocDeleteClusterOperator"
        ),
        "DataprocClusterScaleOperator": (
            "airflow.providers.google.cloud.operators.dataproc:DataprocScaleClusterOperator"
        ),
        "DataprocCreateClusterOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocDeleteClusterOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocInstantiateInlineWorkflowTemplateOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocInstantiateWorkflowTemplateOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocJobBaseOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocScaleClusterOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocSubmitHadoopJobOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocSubmitHiveJobOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocSubmitPigJobOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocSubmitPySparkJobOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocSubmitSparkJobOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocSubmitSparkSqlJobOperator": "airflow.providers.google.cloud.operators.dataproc:",
        "DataprocWorkflowTemplateInstantiateInlineOperator": (
            "airflow.providers.google.cloud.operators.dataproc:DataprocInstantiateInlineWorkflowTemplateOperator"
        ),
        "DataprocWorkflowTemplateInstantiateOperator": (
            "airflow.providers.google.cloud.operators.dataproc:DataprocInstantiateWorkflowTemplateOperator"
        ),
    },
    "airflow.contrib.operators.datastore_export_operator": {
        "CloudDatastoreExportEntitiesOperator": "airflow.providers.google.cloud.operators.datastore:",
        "DatastoreExportOperator": (
            "airflow.providers.google.cloud.operators.datastore:CloudDatastoreExportEntitiesOperator"
        ),
    },
    "airflow.contrib.operators.datastore_import_operator": {
        "CloudDatastoreImportEntitiesOperator": "airflow.providers.google.cloud.operators.datastore:",
        "DatastoreImportOperator": (
            "airflow.providers.google.cloud.operators.datastore:CloudDatastoreImportEntitiesOperator"
        ),
    },
    "airflow.contrib.operators.file_to_gcs": {
        "FileToGoogleCloudStorageOperator": (
            "airflow.providers.google.cloud.transfers.local_to_gcs:LocalFilesystemToGCSOperator"
        ),
        "LocalFilesystemToGCSOperator": "airflow.providers.google.cloud.transfers.local_to_gcs:",
    },
    "airflow.contrib.operators.gcp_bigtable_operator": {
        "BigtableClusterUpdateOperator": (
            "airflow.providers.google.cloud.operators.bigtable:BigtableUpdateClusterOperator"
        ),
        "BigtableCreateInstanceOperator": "airflow.providers.google.cloud.operators.bigtable:",
        "BigtableCreateTableOperator": "airflow.providers.google.cloud.operators.bigtable:",
        "BigtableDeleteInstanceOperator": "airflow.providers.google.cloud.operators.bigtable:",
        "BigtableDeleteTableOperator": "airflow.providers.google.cloud.operators.bigtable:",
        "BigtableInstanceCreateOperator": (
            "airflow.providers.google.cloud.operators.bigtable:BigtableCreateInstanceOperator"
        ),
        "BigtableInstanceDeleteOperator": (
            "airflow.providers.google.cloud.operators.bigtable:BigtableDeleteInstanceOperator"
        ),
        "BigtableTableCreateOperator": "airflow.providers.google.cloud.operators.bigtable:BigtableCreateTableOperator",
        "BigtableTableDeleteOperator": "airflow.providers.google.cloud.operators.bigtable:BigtableDeleteTableOperator",
        "BigtableTableReplicationCompletedSensor": "airflow.providers.google.cloud.sensors.bigtable:",
        "BigtableTableWaitForReplicationSensor": (
            "airflow.providers.google.cloud.sensors.bigtable:BigtableTableReplicationCompletedSensor"
        ),
        "BigtableUpdateClusterOperator": "airflow.providers.google.cloud.operators.bigtable:",
    },
    "airflow.contrib.operators.gcp_cloud_build_operator": {
        "CloudBuildCreateBuildOperator": "airflow.providers.google.cloud.operators.cloud_build:",
    },
    "airflow.contrib.operators.gcp_compute_operator": {
        "ComputeEngineBaseOperator": "airflow.providers.google.cloud.operators.compute:",
        "ComputeEngineCopyInstanceTemplateOperator": "airflow.providers.google.cloud.operators.compute:",
        "ComputeEngineInstanceGroupUpdateManagerTemplateOperator": "airflow.providers.google.cloud.operators.compute:",
        "ComputeEngineSetMachineTypeOperator": "airflow.providers.google.cloud.operators.compute:",
        "ComputeEngineStartInstanceOperator": "airflow.providers.google.cloud.operators.compute:",
        "ComputeEngineStopInstanceOperator": "airflow.providers.google.cloud.operators.compute:",
        "GceBaseOperator": "airflow.providers.google.cloud.operators.compute:ComputeEngineBaseOperator",
        "GceInstanceGroupManagerUpdateTemplateOperator": (
            "airflow.providers.google.cloud.operators.compute:ComputeEngineInstanceGroupUpdateManagerTemplateOperator"
        ),
        "GceInstanceStartOperator": (
            "airflow.providers.google.cloud.operators.compute:ComputeEngineStartInstanceOperator"
        ),
        "GceInstanceStopOperator": "airflow.providers.google.cloud.operators.compute:ComputeEngineStopInstanceOperator",
        "GceInstanceTemplateCopyOperator": (
            "airflow.providers.google.cloud.operators.compute:ComputeEngineCopyInstanceTemplateOperator"
        ),
        "GceSetMachineTypeOperator": (
            "airflow.providers.google.cloud.operators.compute:ComputeEngineSetMachineTypeOperator"
        ),
    },
    "airflow.contrib.operators.gcp_container_operator": {
        "GKEClusterCreateOperator": (
            "airflow.providers.google.cloud.operators.kubernetes_engine:GKECreateClusterOperator"
        ),
        "GKEClusterDeleteOperator": (
            "airflow.providers.google.cloud.operators.kubernetes_engine:GKEDeleteClusterOperator"
        ),
        "GKECreateClusterOperator": "airflow.providers.google.cloud.operators.kubernetes_engine:",
        "GKEDeleteClusterOperator": "airflow.providers.google.cloud.operators.kubernetes_engine:",
        "GKEPodOperator": "airflow.providers.google.cloud.operators.kubernetes_engine:GKEStartPodOperator",
        "GKEStartPodOperator": "airflow.providers.google.cloud.operators.kubernetes_engine:",
    },
    "airflow.contrib.operators.gcp_dlp_operator": {
        "CloudDLPCancelDLPJobOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPCreateDLPJobOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPCreateDeidentifyTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPCreateInspectTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPCreateJobTriggerOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPCreateStoredInfoTypeOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPDeidentifyContentOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPDeleteDLPJobOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPDeleteDeidentifyTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPDeleteDlpJobOperator": "airflow.providers.google.cloud.operators.dlp:CloudDLPDeleteDLPJobOperator",
        "CloudDLPDeleteInspectTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPDeleteJobTriggerOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPDeleteStoredInfoTypeOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPGetDLPJobOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPGetDLPJobTriggerOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPGetDeidentifyTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPGetDlpJobOperator": "airflow.providers.google.cloud.operators.dlp:CloudDLPGetDLPJobOperator",
        "CloudDLPGetInspectTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPGetJobTripperOperator": (
            "airflow.providers.google.cloud.operators.dlp:CloudDLPGetDLPJobTriggerOperator"
        ),
        "CloudDLPGetStoredInfoTypeOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPInspectContentOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPListDLPJobsOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPListDeidentifyTemplatesOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPListDlpJobsOperator": "airflow.providers.google.cloud.operators.dlp:CloudDLPListDLPJobsOperator",
        "CloudDLPListInfoTypesOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPListInspectTemplatesOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPListJobTriggersOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPListStoredInfoTypesOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPRedactImageOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPReidentifyContentOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPUpdateDeidentifyTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPUpdateInspectTemplateOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPUpdateJobTriggerOperator": "airflow.providers.google.cloud.operators.dlp:",
        "CloudDLPUpdateStoredInfoTypeOperator": "airflow.providers.google.cloud.operators.dlp:",
    },
    "airflow.contrib.operators.gcp_function_operator": {
        "CloudFunctionDeleteFunctionOperator": "airflow.providers.google.cloud.operators.functions:",
        "CloudFunctionDeployFunctionOperator": "airflow.providers.google.cloud.operators.functions:",
        "GcfFunctionDeleteOperator": (
            "airflow.providers.google.cloud.operators.functions:CloudFunctionDeleteFunctionOperator"
        ),
        "GcfFunctionDeployOperator": (
            "airflow.providers.google.cloud.operators.functions:CloudFunctionDeployFunctionOperator"
        ),
    },
    "airflow.contrib.operators.gcp_natural_language_operator": {
        "CloudLanguageAnalyzeEntitiesOperator": (
            "airflow.providers.google.cloud.operators.natural_language:CloudNaturalLanguageAnalyzeEntitiesOperator"
        ),
        "CloudLanguageAnalyzeEntitySentimentOperator": (
            "airflow.providers.google.cloud.operators.natural_language:"
            "CloudNaturalLanguageAnalyzeEntitySentimentOperator"
        ),
        "CloudLanguageAnalyzeSentimentOperator": (
            "airflow.providers.google.cloud.operators.natural_language:CloudNaturalLanguageAnalyzeSentimentOperator"
        ),
        "CloudLanguageClassifyTextOperator": (
            "airflow.providers.google.cloud.operators.natural_language:CloudNaturalLanguageClassifyTextOperator"
        ),
        "CloudNaturalLanguageAnalyzeEntitiesOperator": "airflow.providers.google.cloud.operators.natural_language:",
        "CloudNaturalLanguageAnalyzeEntitySentimentOperator": (
            "airflow.providers.google.cloud.operators.natural_language:"
        ),
        "CloudNaturalLanguageAnalyzeSentimentOperator": "airflow.providers.google.cloud.operators.natural_language:",
        "CloudNaturalLanguageClassifyTextOperator": "airflow.providers.google.cloud.operators.natural_language:",
    },
    "airflow.contrib.operators.gcp_spanner_operator": {
        "CloudSpannerInstanceDatabaseDeleteOperator": (
            "airflow.providers.google.cloud.operators.spanner:SpannerDeleteDatabaseInstanceOperator"
        ),
        "CloudSpannerInstanceDatabaseDeployOperator": (
            "airflow.providers.google.cloud.operators.spanner:SpannerDeployDatabaseInstanceOperator"
        ),
        "CloudSpannerInstanceDatabaseQueryOperator": (
            "airflow.providers.google.cloud.operators.spanner:SpannerQueryDatabaseInstanceOperator"
        ),
        "CloudSpannerInstanceDatabaseUpdateOperator": (
            "airflow.providers.google.cloud.operators.spanner:SpannerUpdateDatabaseInstanceOperator"
        ),
        "CloudSpannerInstanceDeleteOperator": (
            "airflow.providers.google.cloud.operators.spanner:SpannerDeleteInstanceOperator"
        ),
        "CloudSpannerInstanceDeployOperator": (
            "airflow.providers.google.cloud.operators.spanner:SpannerDeployInstanceOperator"
        ),
        "SpannerDeleteDatabaseInstanceOperator": "airflow.providers.google.cloud.operators.spanner:",
        "SpannerDeleteInstanceOperator": "airflow.providers.google.cloud.operators.spanner:",
        "SpannerDeployDatabaseInstanceOperator": "airflow.providers.google.cloud.operators.spanner:",
        "SpannerDeployInstanceOperator": "airflow.providers.google.cloud.operators.spanner:",
        "SpannerQueryDatabaseInstanceOperator": "airflow.providers.google.cloud.operators.spanner:",
        "SpannerUpdateDatabaseInstanceOperator": "airflow.providers.google.cloud.operators.spanner:",
    },
    "airflow.contrib.operators.gcp_speech_to_text_operator": {
        "CloudSpeechToTextRecognizeSpeechOperator": "airflow.providers.google.cloud.operators.speech_to_text:",
        "GcpSpeechToTextRecognizeSpeechOperator": (
            "airflow.providers.google.cloud.operators.speech_to_text:CloudSpeechToTextRecognizeSpeechOperator"
        ),
    },
    "airflow.contrib.operators.gcp_sql_operator": {
        "CloudSQLBaseOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLCreateInstanceDatabaseOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLCreateInstanceOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLDeleteInstanceDatabaseOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLDeleteInstanceOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLExecuteQueryOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLExportInstanceOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLImportInstanceOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLInstancePatchOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSQLPatchInstanceDatabaseOperator": "airflow.providers.google.cloud.operators.cloud_sql:",
        "CloudSqlBaseOperator": "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLBaseOperator",
        "CloudSqlInstanceCreateOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLCreateInstanceOperator"
        ),
        "CloudSqlInstanceDatabaseCreateOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLCreateInstanceDatabaseOperator"
        ),
        "CloudSqlInstanceDatabaseDeleteOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLDeleteInstanceDatabaseOperator"
        ),
        "CloudSqlInstanceDatabasePatchOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLPatchInstanceDatabaseOperator"
        ),
        "CloudSqlInstanceDeleteOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLDeleteInstanceOperator"
        ),
        "CloudSqlInstanceExportOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLExportInstanceOperator"
        ),
        "CloudSqlInstanceImportOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLImportInstanceOperator"
        ),
        "CloudSqlInstancePatchOperator": (
            "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLInstancePatchOperator"
        ),
        "CloudSqlQueryOperator": "airflow.providers.google.cloud.operators.cloud_sql:CloudSQLExecuteQueryOperator",
    },
}
