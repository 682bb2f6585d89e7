"""Database addresses: normalized for connecting, without passwords for display. Opens no connections."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit

from aiosched.errors import ConfigError

_SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg", "postgres+asyncpg")


@dataclass(frozen=True, slots=True)
class Address:
    """The address in a DSN, without the password.

    `host` is a host name, an IP address or a socket folder; for a DSN with several hosts, the list of hosts with ports.
    """

    host: str
    port: int
    user: str | None
    database: str | None

    @property
    def is_embedded(self) -> bool:
        """Whether it is the address of the embedded server, which aiosched generates: there is no DSN to correct."""
        folder = self.host.rpartition("/")[2]
        return (
            self.host.startswith("/") and self.user == "postgres" and (folder == "pg" or folder.startswith("aiosched-"))
        )

    def __str__(self) -> str:
        return self.host if "," in self.host else f"{self.host}:{self.port}"


def normalize(dsn: str, settings: str = "AIOSCHED_DSN, --dsn or [database] dsn") -> str:
    """`dsn` with the plain scheme `postgresql://`; raises ConfigError for anything that is not a PostgreSQL address.

    `settings` may have given it.
    """
    scheme, separator, rest = dsn.strip().partition("://")
    if not separator or scheme not in _SCHEMES:
        shown = scheme if separator else "no scheme"
        raise ConfigError(
            f"The database address must look like postgresql://user:password@host:5432/name ({shown!r} was given). "
            f"Correct {settings}."
        )
    try:
        parts = urlsplit(f"postgresql://{rest}")
        _ = None if "," in parts.netloc else parts.port
    except ValueError as error:
        raise ConfigError(f"The database address cannot be read: {error}. Correct its host and port.") from None
    return f"postgresql://{rest}"


def address_of(dsn: str) -> Address:
    """Host, port, user and database of `dsn`, for messages."""
    parts = urlsplit(normalize(dsn))
    query = parse_qs(parts.query)

    def parameter(name: str) -> str | None:
        return query[name][-1] if name in query else None

    several = "," in parts.netloc
    host = parts.netloc.rpartition("@")[2] if several else parts.hostname
    port = "" if several else str(parts.port or parameter("port") or "")
    return Address(
        host=unquote(host) if host else parameter("host") or "localhost",
        port=int(port) if port.isdigit() else 5432,
        user=unquote(parts.username) if parts.username else parameter("user"),
        database=unquote(parts.path.lstrip("/")) or parameter("dbname") or parameter("database"),
    )


def password_of(dsn: str) -> str | None:
    """The password that `dsn` carries, if any."""
    parts = urlsplit(normalize(dsn))
    if parts.password is not None:
        return unquote(parts.password)
    given = parse_qs(parts.query).get("password")
    return given[-1] if given else None


def without_password(dsn: str) -> str:
    """`dsn` without its password, safe to show, log and pass on a command line."""
    parts = urlsplit(normalize(dsn))
    credentials, at, host = parts.netloc.rpartition("@")
    query = {name: values for name, values in parse_qs(parts.query).items() if name != "password"}
    netloc = f"{credentials.partition(':')[0]}{at}{host}"
    return _join(netloc, parts.path, urlencode(query, doseq=True, safe="/"))


def with_password(dsn: str, password: str) -> str:
    """`dsn` with this password instead of its own."""
    parts = urlsplit(without_password(dsn))
    query = parse_qs(parts.query) | {"password": [password]}
    return _join(parts.netloc, parts.path, urlencode(query, doseq=True, safe="/"))


def with_database(dsn: str, database: str) -> str:
    """`dsn` with another database's name."""
    parts = urlsplit(normalize(dsn))
    query = {name: v for name, v in parse_qs(parts.query).items() if name not in ("dbname", "database")}
    return _join(parts.netloc, f"/{quote(database, safe='')}", urlencode(query, doseq=True, safe="/"))


def _join(netloc: str, path: str, query: str) -> str:
    dsn = urlunsplit(("postgresql", netloc, path, query, ""))
    return dsn if dsn.startswith("postgresql://") else dsn.replace("postgresql:", "postgresql://", 1)
