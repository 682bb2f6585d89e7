"""`airflow.security.kerberos`: takes a Kerberos ticket by `kinit`, with Airflow's settings of the section `kerberos`.

They are read from the environment, such as `AIRFLOW__KERBEROS__CCACHE`. No service renews tickets: tasks take them.
"""

from __future__ import annotations

import logging
import socket
import subprocess
from typing import Final

from aiosched.airflow.configuration import conf
from aiosched.errors import AioschedError

_SECTION: Final = "kerberos"
_log = logging.getLogger("aiosched.task.kerberos")


def get_kerberos_principal(principal: str | None) -> str:
    """`principal`, or the one of the settings; `_HOST` in it stands for the name of this machine."""
    configured: str = conf.get(_SECTION, "principal", fallback="airflow")
    return principal or configured.replace("_HOST", socket.getfqdn())


def renew_from_kt(principal: str | None, keytab: str, exit_on_fail: bool = True) -> int:
    """Take a ticket with a keytab; the status of `kinit`. With `exit_on_fail` a failure raises AioschedError."""
    seconds = conf.getint(_SECTION, "reinit_frequency", fallback=3600)
    command = [
        conf.get(_SECTION, "kinit_path", fallback="kinit"),
        "-f" if conf.getboolean(_SECTION, "forwardable", fallback=True) else "-F",
        "-a" if conf.getboolean(_SECTION, "include_ip", fallback=True) else "-A",
        *("-r", f"{seconds // 60}m", "-k", "-t", keytab),
        *("-c", conf.get(_SECTION, "ccache", fallback="/tmp/airflow_krb5_ccache")),  # noqa: S108 Airflow's
        get_kerberos_principal(principal),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        status, said = done.returncode, (done.stderr or done.stdout).strip()
    except OSError as error:
        status, said = 127, str(error)
    if status and exit_on_fail:
        raise AioschedError(
            f"There is no Kerberos ticket for {command[-1]}: kinit ended with {status}: {said}. "
            "Check the keytab and the settings AIRFLOW__KERBEROS__… of the workers."
        )
    if status:
        _log.error("kinit ended with %d: %s", status, said)
    return status
