"""The basics of the provider packages `http`, `common.sql` and `smtp`, for where these are not installed."""

from __future__ import annotations

from typing import Final

_HTTP: Final = {"HttpOperator": "aiosched:HttpOperator", "SimpleHttpOperator": "aiosched:HttpOperator"}

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.operators.http_operator": {
        "HttpOperator": "airflow.providers.http.operators.http:HttpOperator",
        "SimpleHttpOperator": "airflow.providers.http.operators.http:HttpOperator",
    },
    "airflow.providers.common.sql.operators.sql": {"SQLExecuteQueryOperator": "aiosched:SQLExecuteQueryOperator"},
    "airflow.providers.http.operators.http": _HTTP,
    "airflow.providers.http.sensors.http": {"HttpSensor": "aiosched:HttpSensor"},
    "airflow.providers.http.triggers.http": {"HttpTrigger": "aiosched:HttpTrigger"},
    "airflow.providers.smtp.notifications.smtp": {
        "SmtpNotifier": "aiosched:SmtpNotifier",
        "send_smtp_notification": "aiosched:SmtpNotifier",
    },
    "airflow.providers.smtp.operators.smtp": {"EmailOperator": "aiosched:EmailOperator"},
}
