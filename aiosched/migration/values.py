"""Variables and connections of Airflow, decrypted with its Fernet keys, as they are stored here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from aiosched.core.values.connections import ConnectionValue
from aiosched.errors import ConfigError, Refused
from aiosched.migration.rows import AirflowConnection, AirflowVariable


class AirflowKeys:
    """The Fernet keys of an Airflow: any of them decrypts. Raises ConfigError for one that is none.

    Each of `keys` may be several, separated by commas, as in `[core] fernet_key`.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        split = [key.strip() for text in keys for key in text.split(",") if key.strip()]
        try:
            self._cipher = MultiFernet([Fernet(key) for key in split]) if split else None
        except ValueError:
            raise ConfigError(
                "A Fernet key of Airflow is not one (32 bytes in URL-safe base64, 44 characters). "
                "Give the value of [core] fernet_key, or of AIRFLOW__CORE__FERNET_KEY."
            ) from None

    def text(self, value: str | None, *, is_encrypted: bool) -> str:
        """The clear text of a column. Raises Refused if no key decrypts it."""
        if not value or not is_encrypted:
            return value or ""
        if self._cipher is None:
            raise Refused("it is encrypted, and no Fernet key of Airflow was given (--fernet-key)")
        try:
            return self._cipher.decrypt(value).decode()
        except (InvalidToken, UnicodeDecodeError):
            raise Refused("no Fernet key that was given decrypts it (--fernet-key)") from None


def variable_text(row: AirflowVariable, keys: AirflowKeys) -> str:
    """The value of a variable. Raises Refused."""
    return keys.text(row.value, is_encrypted=row.is_encrypted)


def connection_value(row: AirflowConnection, keys: AirflowKeys) -> ConnectionValue:
    """A connection. Raises Refused, which says what is wrong and never quotes a value."""
    extra = keys.text(row.extra, is_encrypted=row.is_extra_encrypted)
    if extra and not _is_object(extra):
        raise Refused("its extra is not a JSON object: correct it in Airflow, or add the connection here by hand")
    try:
        return ConnectionValue(
            conn_id=row.conn_id,
            conn_type=row.conn_type or "",
            host=row.host,
            login=row.login,
            password=keys.text(row.password, is_encrypted=row.is_encrypted),
            port=row.port or None,
            schema=row.schema,
            extra=extra or None,
            description=row.description,
        )
    except ConfigError as error:
        raise Refused(str(error)) from None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
