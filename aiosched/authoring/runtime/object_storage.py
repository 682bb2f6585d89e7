"""`ObjectStoragePath`: files in object stores as paths, with the login of a connection.

    data = ObjectStoragePath("s3://aws_default@bucket/data")      or ObjectStoragePath("s3://bucket/data", conn_id="…")
    with (data / "today.csv").open() as file: ...

It is a path of universal_pathlib above fsspec, so everything that those do works here, for each store whose package is
installed (s3fs, gcsfs, adlfs, …): `pip install 'aiosched[object-storage]'`. A connection is read when a file is first
touched, so paths can be built at the top level of a DAG file. All methods that touch files block.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiosched.authoring.runtime.connections import Connection

try:
    import fsspec
    from upath import UPath
    from upath.extensions import ProxyUPath
except ImportError as missing:
    raise ImportError(
        "ObjectStoragePath needs universal_pathlib: `pip install 'aiosched[object-storage]'`."
    ) from missing

if TYPE_CHECKING:
    from typing import Self

_LOGIN: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(  # of a protocol: the options for login and password
    {
        "s3": ("key", "secret"),
        "s3a": ("key", "secret"),
        "abfs": ("account_name", "account_key"),
        "abfss": ("account_name", "account_key"),
        "adl": ("account_name", "account_key"),
        "az": ("account_name", "account_key"),
        "oss": ("key", "secret"),
    }
)
_WITH_SERVER: Final = frozenset(
    {"ftp", "sftp", "ssh", "smb", "hdfs", "webhdfs"}
)  # whose host is that of the connection


class ObjectStoragePath(ProxyUPath):
    """A path in an object store, or in any file system that fsspec knows.

    The connection is named in the URL (`s3://conn_id@bucket/key`) or by `conn_id`. Its login, password and extras
    become the options of the file system; `storage_options` take precedence over them.
    """

    def __init__(
        self, *args: Any, protocol: str | None = None, conn_id: str | None = None, **storage_options: Any
    ) -> None:
        if args and isinstance(args[0], ObjectStoragePath):
            conn_id = conn_id or args[0].conn_id
            args = (args[0].__wrapped__, *args[1:])
        elif args and isinstance(args[0], str):
            url = urlsplit(args[0])
            user, has_user, host = url.netloc.rpartition("@")
            if has_user:
                conn_id = conn_id or user or None
                args = (url._replace(netloc=host).geturl(), *args[1:])
            protocol = protocol or url.scheme or None
        super().__init__(*args, protocol=protocol, **storage_options)
        self._conn_id = conn_id
        self._log_in(self.__wrapped__)

    @classmethod
    def _made(cls, path: UPath, conn_id: str | None) -> Self:
        made = object.__new__(cls)
        made.__wrapped__ = path
        made._conn_id = conn_id
        made._log_in(path)
        return made

    def _from_upath(self, upath: UPath) -> Self:  # type: ignore[override] # called on paths, never on the class
        """A path that was derived from this one."""
        return upath if isinstance(upath, ObjectStoragePath) else self._made(upath, self._conn_id)

    def _log_in(self, path: UPath) -> None:
        if self._conn_id is not None and not isinstance(getattr(path, "_fs_cached", None), _FileSystemOfConnection):
            path._fs_cached = _FileSystemOfConnection(path.protocol or "file", self._conn_id, path.storage_options)

    @property
    def conn_id(self) -> str | None:
        """The id of its connection."""
        return self._conn_id

    @property
    def bucket(self) -> str:
        """The bucket or container; empty for local files."""
        return urlsplit(str(self)).netloc

    container = bucket

    @property
    def key(self) -> str:
        """The path inside the bucket, without a slash at the beginning."""
        return urlsplit(str(self)).path.lstrip("/")

    @property
    def namespace(self) -> str:
        """The protocol and the bucket: `s3://bucket`."""
        return f"{self.protocol}://{self.bucket}" if self.bucket else str(self.protocol)

    def samestore(self, other: object) -> bool:
        """Whether both paths are in one store and use one login."""
        return isinstance(other, ObjectStoragePath) and (self.protocol, self.conn_id) == (other.protocol, other.conn_id)

    def __eq__(self, other: object) -> bool:
        return self.samestore(other) and str(self) == str(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.conn_id, str(self)))

    def size(self) -> int:
        """The number of bytes of the file."""
        return int(self.fs.size(self.path))

    def checksum(self) -> int:
        """A number that changes with the content of the file."""
        return int(self.fs.checksum(self.path))

    def ukey(self) -> str:
        """A text that changes with the file."""
        return str(self.fs.ukey(self.path))

    def read_block(self, offset: int, length: int | None, delimiter: bytes | None = None) -> bytes:
        """`length` bytes from `offset` on; with a `delimiter` from one to another, see `fsspec.utils.read_block`."""
        return bytes(self.fs.read_block(self.path, offset=offset, length=length, delimiter=delimiter))

    def sign(self, expiration: int = 100, **options: Any) -> str:
        """A URL that gives access for `expiration` seconds. Raises NotImplementedError if the store has none."""
        return str(self.fs.sign(self.path, expiration=expiration, **options))

    def copy(  # type: ignore[override] # as in Airflow: folders only when asked
        self, dst: str | ObjectStoragePath, recursive: bool = False, **options: Any
    ) -> None:
        """Copy the file, or with `recursive` the folder, to `dst`, also into another store.

        A file that is copied to an existing folder, or to a path that ends with a slash, keeps its name.
        """
        target = ObjectStoragePath(dst) if isinstance(dst, str) else dst
        if recursive and self.is_dir():
            for found in self.fs.find(self.path):
                below = found[len(self.path.rstrip("/")) + 1 :]
                self._made(self.__wrapped__ / below, self._conn_id)._copy_file(target / below, **options)
            return
        if str(dst).endswith("/") or target.is_dir():
            target = target / self.name
        self._copy_file(target, **options)

    def copy_into(  # type: ignore[override] # as `copy`
        self, target_dir: str | ObjectStoragePath, recursive: bool = False, **options: Any
    ) -> None:
        """Copy the file or folder into a folder, under its own name."""
        folder = ObjectStoragePath(target_dir) if isinstance(target_dir, str) else target_dir
        self.copy(folder / self.name, recursive=recursive, **options)

    def move(  # type: ignore[override] # as `copy`
        self, path: str | ObjectStoragePath, recursive: bool = False, **options: Any
    ) -> None:
        """Copy to `path`, then remove the file or folder here."""
        self.copy(path, recursive=recursive, **options)
        self.fs.rm(self.path, recursive=recursive)

    def _copy_file(self, target: ObjectStoragePath, **options: Any) -> None:
        if self.samestore(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self.fs.copy(self.path, target.path, **options)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with self.open("rb") as source, target.open("wb") as file:
            while piece := source.read(2**20):
                file.write(piece)

    def serialize(self) -> dict[str, Any]:
        """What `deserialize` needs."""
        return {"path": str(self), "conn_id": self.conn_id, "kwargs": dict(self.storage_options)}

    @classmethod
    def deserialize(cls, data: Mapping[str, Any], version: int = 1) -> Self:
        """The path of such data."""
        return cls(data["path"], conn_id=data["conn_id"], **data.get("kwargs", {}))


def path_of_data(data: Mapping[str, Any]) -> ObjectStoragePath:
    """The path in a value of a task, for those that read values."""
    return ObjectStoragePath.deserialize(data)


class _FileSystemOfConnection:
    """A file system that is opened with the login of a connection when it is first used."""

    def __init__(self, protocol: str, conn_id: str, options: Mapping[str, Any]) -> None:
        self._protocol, self._conn_id, self._options = protocol, conn_id, dict(options)
        self._opened: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._opened is None:
            options = {**options_of(Connection.get(self._conn_id), self._protocol), **self._options}
            self._opened = fsspec.filesystem(self._protocol, **options)
        return getattr(self._opened, name)


def options_of(connection: Connection, protocol: str) -> dict[str, Any]:
    """The options of fsspec's file system for a connection: its extras, and its login under the names of the store.

    For S3 the extras `endpoint_url` and `region_name` go to its client.
    """
    options = dict(connection.extra_dejson)
    if protocol in ("s3", "s3a"):
        client = {name: options.pop(name) for name in ("endpoint_url", "region_name") if name in options}
        if client:
            options["client_kwargs"] = {**client, **options.get("client_kwargs", {})}
    login, password = _LOGIN.get(protocol, ("username", "password"))
    if connection.login:
        options[login] = connection.login
    if connection.password:
        options[password] = connection.password
    if protocol in _WITH_SERVER:
        options |= {name: value for name in ("host", "port") if (value := getattr(connection, name))}
    return options
