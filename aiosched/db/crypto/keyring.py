"""The keys that encrypt variables, connections and the arguments of triggers.

They come from the setting `secrets.fernet_keys`; without it the embedded database has a key file next to it
(`fernet.key` in `core.home`, one key per line, readable only by its owner). The first key encrypts, every key decrypts,
so all values stay readable during a key rotation. An external database without keys stores no secrets.

Elsewhere: the encrypted values (secrets.py).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiosched.config import Settings
from aiosched.config.secrecy import split_keys
from aiosched.errors import ConfigError, Refused

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

KEY_FILE: Final = "fernet.key"
SETTING: Final = "secrets.fernet_keys"
_VARIABLE: Final = "AIOSCHED__SECRETS__FERNET_KEYS"


class Keyring:
    """Encrypts and decrypts texts. A key file is read again for every use, since its keys may have been rotated.

    Give it `keys` (comma separated), or the `file` of an embedded database, or neither.
    """

    def __init__(self, keys: str | None = None, *, file: Path | None = None) -> None:
        self._configured = split_keys(keys or "")
        self.file: Path | None = None if self._configured else file
        self._made: tuple[tuple[str, ...], MultiFernet] | None = None

    @classmethod
    def of(cls, settings: Settings) -> Keyring:
        """The keyring for the database of `settings`."""
        embedded = settings.database.dsn is None
        return cls(settings.secrets.fernet_keys, file=settings.core.home / KEY_FILE if embedded else None)

    @property
    def exists(self) -> bool:
        """Whether there is a key now; a key file may still have to be created."""
        return bool(self._configured) or (self.file is not None and self.file.exists())

    def encrypt(self, text: str) -> str:
        """The token of `text`. Creates a missing key file; raises Refused if there is no key."""
        if self.file is not None and not self.file.exists():
            make_key_file(self.file)
        return self._cipher().encrypt(text.encode("utf-8", "surrogatepass")).decode("ascii")

    def encrypt_all(self, texts: Iterable[str]) -> list[str]:
        """The tokens of `texts`, in the same order; raises Refused if there is no key."""
        cipher = self._cipher()
        return [cipher.encrypt(text.encode("utf-8", "surrogatepass")).decode("ascii") for text in texts]

    def decrypt(self, token: str, *, what: str) -> str:
        """The text of `token`; raises Refused naming `what` if no key fits."""
        cipher = self._cipher()
        from cryptography.fernet import InvalidToken

        try:
            return cipher.decrypt(token).decode("utf-8", "surrogatepass")
        except InvalidToken:
            raise Refused(
                f"No key that this process has can decrypt {what}. Put the key that encrypted it back "
                f"({self._place()}), or set or delete it."
            ) from None

    def renew(self, token: str, *, what: str) -> str:
        """`token` re-encrypted with the first key; raises Refused as `decrypt` does."""
        return self.encrypt(self.decrypt(token, what=what))

    def add_key(self) -> bool:
        """Prepend a new key to the key file; False without a file: the user changes keys in the settings."""
        if self.file is None:
            return False
        if self.file.exists():
            _write(self.file, "\n".join([new_key(), *_read(self.file)]) + "\n", replace=True)
        else:
            make_key_file(self.file)
        return True

    def _cipher(self) -> MultiFernet:
        keys = tuple(self._configured or (_read(self.file) if self.file is not None and self.file.exists() else ()))
        if not keys:
            raise Refused(self._missing())
        if self._made is None or self._made[0] != keys:
            self._made = keys, _fernet(keys, self._place())
        return self._made[1]

    def _missing(self) -> str:
        if self.file is not None:
            return (
                f"The key of variables and connections is gone: {self.file} does not exist. Restore it from a backup."
            )
        return (
            f"There is no key to encrypt secrets with: {SETTING} is not set. Make one with `aiosched db make-key` and "
            f"give it to every scheduler and command line of this database, as {_VARIABLE} or in a file named by "
            f"{_VARIABLE}__FILE."
        )

    def _place(self) -> str:
        return SETTING if self.file is None else str(self.file)


def new_key() -> str:
    """A new random key."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode("ascii")


def make_key_file(path: Path) -> None:
    """Write a new key to `path`, mode 0600, unless another process has already done so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, new_key() + "\n", replace=False)


def _write(path: Path, text: str, *, replace: bool) -> None:
    """All or nothing; mkstemp gives mode 0600."""
    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)  # noqa: PTH105  the counterpart of os.link
        else:
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108


def _read(path: Path) -> list[str]:
    try:
        return split_keys(path.read_text(encoding="utf-8").replace("\n", ","))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise ConfigError(f"The key file {path} cannot be read: {reason}.") from None


def _fernet(keys: tuple[str, ...], place: str) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet

    ciphers = []
    for number, key in enumerate(keys, 1):
        try:
            ciphers.append(Fernet(key))
        except ValueError:
            raise ConfigError(
                f"Key {number} of {place} is not a Fernet key (32 bytes in URL-safe base64, 44 characters). "
                "Make one with `aiosched db make-key`."
            ) from None
    return MultiFernet(ciphers)
