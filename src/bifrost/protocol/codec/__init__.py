"""Turns a declaration and a version into a reader and a writer, by writing the Python that one would write by hand.

The source is generated and compiled at first use, then kept. A reader trusts nothing: whatever the bytes say, it
returns a message or raises `ProtocolError`, and it never makes room for more elements than the remaining bytes could
hold. A writer trusts its caller: a value that does not fit its field is our own bug and raises what Python raises.

Fields that a version lacks are not written. Null is written as empty by a version that cannot say null. Tagged fields
that nobody declared are skipped. Bytes after the end of a message are left alone, as Kafka leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bifrost.protocol.codec.reading import ReaderSource
from bifrost.protocol.codec.writing import WriterSource
from bifrost.protocol.schema import Message
from bifrost.protocol.wire import Buffer

M = TypeVar("M", bound=Message)


def reader(cls: type[M], version: int) -> Callable[[Buffer, int], tuple[M, int]]:
    """A function of a buffer and a position: it returns the message found there and the position after it.

    The buffer ends where the frame does. What is read from it is copied: the buffer may be used again.
    """
    found = _readers.get((cls, version))
    if found is None:
        found = _readers[cls, version] = ReaderSource(cls, version).compile()
    return found


def writer(cls: type[M], version: int) -> Callable[[M], bytes]:
    """A function that returns the bytes of a message."""
    found = _writers.get((cls, version))
    if found is None:
        found = _writers[cls, version] = WriterSource(cls, version).compile()
    return found


_readers: dict[tuple[type[Message], int], Callable[[Buffer, int], tuple[Any, int]]] = {}
_writers: dict[tuple[type[Message], int], Callable[[Any], bytes]] = {}
