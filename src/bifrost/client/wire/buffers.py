"""Receive buffers that are used again once nobody looks at them any more.

Making eight megabytes of zeroed memory for every answer costs as much as receiving it. Whoever holds a view of a
buffer, or an array or column made from one, keeps it: Python refuses to resize what is exported, and that is the test.
"""

from __future__ import annotations

from typing import Final

KEPT_MAX: Final = 4
_ROUND_TO: Final = 1 << 16


class BufferPool:
    """For one thread."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes that nobody else sees."""
        for index, buffer in enumerate(self._kept):
            if len(buffer) >= size and not _is_seen(buffer):
                # The one that was used last is looked at last: it is the likeliest to be seen.
                self._kept.append(self._kept.pop(index))
                return buffer
        made = bytearray(-(-size // _ROUND_TO) * _ROUND_TO)
        if len(self._kept) >= KEPT_MAX:
            del self._kept[0]
        self._kept.append(made)
        return made


def _is_seen(buffer: bytearray) -> bool:
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False
