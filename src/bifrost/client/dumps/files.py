"""Which kind of file a name means, and how a file comes to be: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from bifrost.client.dumps import jsonl, parquet
from bifrost.client.dumps.rows import DumpFileError, Row
from bifrost.client.errors import BifrostError

_KINDS = "Use .jsonl (or .ndjson) or .parquet."
_JSON = {".jsonl", ".ndjson"}
_PARQUET = {".parquet"}


class Writer(Protocol):
    """Takes rows in the order in which they shall stand in the file."""

    def write(self, rows: list[Row]) -> None: ...

    def close(self) -> None: ...


def check_name(path: Path) -> None:
    """Raises unless the name says of which kind the file is, and what that needs is there."""
    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        parquet.arrow()
    elif suffix not in _JSON:
        raise DumpFileError(f"{path}: what kind of file is that?", _KINDS)


@contextmanager
def written(path: Path, topic: str, *, overwrite: bool) -> Iterator[Writer]:
    """A writer whose file gets its name at the end of the block, and is gone if the block fails or is interrupted."""
    check_name(path)
    if path.exists() and not overwrite:
        raise DumpFileError(f"{path} exists already", "Take another name, or overwrite it (--force).")
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise DumpFileError(f"{path} cannot be written: {error.strerror}") from error
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writer = _writer(path, file, topic)
            yield writer
            writer.close()
        _publish(part, path)
    except BifrostError:
        raise  # a broker that is silent or gone is an OSError, too, but not one of this file
    except OSError as error:
        raise DumpFileError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _publish(part: Path, path: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    part.chmod(0o666 & ~mask)  # a temporary file is its owner's alone; this one is like any other
    part.replace(path)


def _writer(path: Path, file: BinaryIO, topic: str) -> Writer:
    kind = parquet.ParquetWriter if path.suffix.lower() in _PARQUET else jsonl.JsonLinesWriter
    return kind(file, topic)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, a few at a time."""
    check_name(path)
    try:
        yield from parquet.read_parquet(path) if path.suffix.lower() in _PARQUET else jsonl.read_json_lines(path)
    except OSError as error:
        raise DumpFileError(f"{path} cannot be read: {error.strerror or error}") from error
