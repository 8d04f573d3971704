"""Reads lines in batches: whole blocks from files, and from pipes and terminals whatever is there."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

_BLOCK_BYTES = 1 << 20
_IDLE_S = 0.1
LINE_BYTES_MAX = 64 << 20


class InputError(ValueError):
    """Input that cannot be read as lines."""


def batches(
    stream: BinaryIO, *, delimiter: bytes, limit: int, idle: Callable[[], bool], on_bytes: Callable[[int], None]
) -> Iterator[list[bytes]]:
    """Lists of up to `limit` lines without their delimiter. While nothing comes, `idle` is called; true ends it."""
    rest = b""
    for block in _blocks(stream, idle):
        on_bytes(len(block))
        *lines, rest = (rest + block).split(delimiter)
        for start in range(0, len(lines), limit):
            yield lines[start : start + limit]
        if len(rest) > LINE_BYTES_MAX:
            raise InputError(f"there is no end of line within {LINE_BYTES_MAX >> 20} MiB")
    if rest:
        yield [rest]


def _blocks(stream: BinaryIO, idle: Callable[[], bool]) -> Iterator[bytes]:
    number = _waiting_file(stream)
    if number is None:
        while block := stream.read(_BLOCK_BYTES):
            yield block
        return
    while True:
        ready, _, _ = select.select([number], [], [], _IDLE_S)
        if not ready:
            if idle():
                return
            continue
        block = os.read(number, _BLOCK_BYTES)
        if not block:
            return
        yield block


def _waiting_file(stream: BinaryIO) -> int | None:
    """The descriptor of a pipe, a socket or a terminal; None for what answers at once."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # no descriptor at all
        return None
    mode = os.fstat(number).st_mode
    return number if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) else None
