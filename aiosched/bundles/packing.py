"""A version of a bundle as a zip archive, for machines that have only a way to a web server."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Final

_IN_MEMORY: Final = 16 * 2**20  # bytes


def pack_folder(folder: Path) -> bytes:
    """All files below a folder; byte code and what is no plain file are left out. Blocking; raises OSError."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as packed:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
            for place, folders, names in os.walk(folder):
                folders[:] = sorted(name for name in folders if name != "__pycache__")
                for name in sorted(names):
                    path = Path(place, name)
                    if path.is_file():
                        archive.write(path, path.relative_to(folder))
        packed.seek(0)
        return packed.read()
