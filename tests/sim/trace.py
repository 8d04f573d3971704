"""Everything that happens in a run, as lines and as one hash: two runs of a seed must not differ in either."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from zlib import crc32

from bifrost.protocol.wire import Buffer


class Trace:
    """A running hash over timed lines, which are also kept or printed if somebody wants them."""

    def __init__(self, now: Callable[[], float], tell: Callable[[str], object] | None = None) -> None:
        self._now = now
        self._tell = tell
        self._hash = hashlib.sha256()
        self.lines = 0

    def note(self, kind: str, *facts: object) -> None:
        line = f"{self._now():.6f} {kind} {' '.join(map(str, facts))}\n"
        self.lines += 1
        self._hash.update(line.encode())
        if self._tell is not None:
            self._tell(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]


def brief(data: Buffer) -> str:
    """Bytes in a trace: how many, and which."""
    return f"{len(data)}:{crc32(data):08x}"
