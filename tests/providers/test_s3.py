"""The provider package for Amazon against a server of moto, in the real service. For the night."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.cli.operation.provider_tools import Installer
from tests.providers.conftest import NIGHT, installed
from tests.providers.processes import started
from tests.providers.service import Service, check_states

pytestmark = NIGHT

SOURCE = """
from airflow import DAG
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.amazon.aws.operators.s3 import (
    S3CopyObjectOperator, S3CreateBucketOperator, S3CreateObjectOperator, S3DeleteBucketOperator,
    S3DeleteObjectsOperator, S3FileTransformOperator, S3ListOperator,
)
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
from airflow.providers.amazon.aws.transfers.local_to_s3 import LocalFilesystemToS3Operator
from airflow.sdk import task

with DAG("store", schedule="@once", default_args={{"aws_conn_id": "cloud", "bucket_name": "sales"}}):
    make = S3CreateBucketOperator(task_id="make")
    put = S3CreateObjectOperator(
        task_id="put", s3_bucket="sales", s3_key="{{{{ dag.dag_id }}}}/a.csv", data="id,day", replace=True,
    )
    upload = LocalFilesystemToS3Operator(
        task_id="upload", filename="{folder}/here.csv", dest_bucket="sales", dest_key="store/b.csv",
    )
    seen = S3KeySensor(task_id="seen", bucket_key="s3://sales/store/a.csv", bucket_name=None, poke_interval=0.1)
    deferred = S3KeySensor(
        task_id="deferred", bucket_key="store/*.csv", wildcard_match=True, deferrable=True, poke_interval=1,
    )
    copy = S3CopyObjectOperator(
        task_id="copy", source_bucket_name="sales", source_bucket_key="store/a.csv", dest_bucket_name="sales",
        dest_bucket_key="copies/a.csv",
    )
    transform = S3FileTransformOperator(
        task_id="transform", source_aws_conn_id="cloud", dest_aws_conn_id="cloud", source_s3_key="s3://sales/store/b.csv",
        dest_s3_key="s3://sales/copies/upper.csv", transform_script="{folder}/upper.sh",
    )
    listed = S3ListOperator(task_id="listed", bucket="sales", prefix="")

    @task
    def read():
        return S3Hook("cloud").read_key("copies/upper.csv", "sales")

    @task
    def tested():
        return S3Hook("cloud").test_connection()[0]

    delete = S3DeleteObjectsOperator(task_id="delete", bucket="sales", keys=["store/a.csv", "copies/a.csv"])
    remove = S3DeleteBucketOperator(task_id="remove", force_delete=True)
    make >> [put, upload] >> seen >> deferred >> [copy, transform] >> listed >> read() >> delete >> remove
    S3CreateObjectOperator(task_id="no_bucket", s3_bucket="nothing", s3_key="a", data="x")
    S3ListOperator(task_id="no_server", bucket="sales", aws_conn_id="gone")
    tested()
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ["apache-airflow-providers-amazon[aiobotocore]"]
    return installed(tmp_path_factory.mktemp("amazon") / "site", names)


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of moto, which stands for all of Amazon's."""
    folder = tmp_path_factory.mktemp("moto")
    Installer.found(folder).install(["moto[s3,server,sts]"], alone=False)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with started(command, "Running on", {"PYTHONPATH": str(folder)}) as line:
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        yield found[0]


def test_objects_are_put_copied_found_and_deleted(site: Path, tmp_path: Path, dsn: str, cloud: str) -> None:
    (tmp_path / "here.csv").write_text("2,friday")
    script = tmp_path / "upper.sh"
    script.write_text('#!/bin/sh\ntr a-z A-Z < "$1" > "$2"\n')
    script.chmod(0o755)
    service = Service(site, tmp_path, dsn)
    test = {"sts": {"endpoint_url": cloud}}  # what a test of the connection asks
    extra = {"endpoint_url": cloud, "region_name": "eu-central-1", "service_config": test}
    service.connect("cloud", conn_type="aws", login="key", password="secret", extra=extra)
    gone = {**extra, "endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"total_max_attempts": 1}}}
    service.connect("gone", conn_type="aws", login="key", password="secret", extra=gone)

    assert service.test_connection("cloud").startswith("ok")
    ran = service.run(SOURCE.format(folder=tmp_path), dag_id="store")

    failed = {"no_bucket", "no_server"}
    check_states(ran, {name: "failed" if name in failed else "success" for name in ran})
    assert len(ran) == 14
    assert ran["listed"].result == ["copies/a.csv", "copies/upper.csv", "store/a.csv", "store/b.csv"]
    assert ran["read"].result == "2,FRIDAY"
    assert ran["tested"].result is True
    assert "NoSuchBucket" in ran["no_bucket"].reason
    assert "127.0.0.1:9" in ran["no_server"].reason
