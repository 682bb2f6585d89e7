"""`ObjectStoragePath` for files that import it at their top: the library that it needs is missed only by its use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from aiosched.authoring.runtime.object_storage import ObjectStoragePath
else:
    try:
        from aiosched.authoring.runtime.object_storage import ObjectStoragePath
    except ImportError as missing:
        _why = str(missing)

        class ObjectStoragePath:
            """Raises ImportError when it is called."""

            def __new__(cls, *_: Any, **__: Any) -> NoReturn:
                raise ImportError(_why)


__all__ = ["ObjectStoragePath"]
