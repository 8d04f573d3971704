"""What the two implementations of the kernels agree on: `compiled` by numba, `vectorised` with numpy and pyarrow.

Kernels do what would otherwise be done once per record. They get bytes that nobody has looked at except for their CRC,
so every length is compared with what is left before it is used; what does not fit is `MalformedError`, in either.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
ShortInts: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

RECORD_BYTES_MIN: Final = 7
"""Six varints and the attributes, a byte each: no batch has more records than its bytes allow."""

MILLIS_MAX: Final = (2**63 - 1) // 1000
"""The last millisecond that microseconds can tell. Times beyond it read as this one, on either side of 1970."""


class Section(IntEnum):
    """The columns of the table of sections: where the records of each batch lie, and what their deltas count from."""

    START = 0
    STOP = 1
    RECORDS = 2
    BASE_OFFSET = 3
    BASE_TIMESTAMP = 4
    APPEND_TIME = 5
    """1 if every record has the base timestamp, whatever its delta says."""
    ROWS = 6
    """Written by the kernel: how many records lie within the range."""


class Wanted(IntFlag):
    """Which columns the decoder has to find. A record's offset and timestamp come before all else and cost nothing."""

    NOTHING = 0
    KEY = 1
    VALUE = 2
    HEADERS = 4


class Fault(IntEnum):
    """Why records cannot be read."""

    NONE = 0
    RECORD_LENGTH = 1
    NUMBER = 2
    OFFSET_DELTA = 3
    FIELD_LENGTH = 4
    HEADERS = 5
    STRAY_BYTES = 6

    @property
    def reason(self) -> str:
        return _REASONS[self]


_REASONS: Final = {
    Fault.NONE: "",
    Fault.RECORD_LENGTH: "a record is longer than the batch",
    Fault.NUMBER: "a number in a record does not end where it should",
    Fault.OFFSET_DELTA: "the offset of a record is out of range",
    Fault.FIELD_LENGTH: "a key, a value or a header is longer than its record",
    Fault.HEADERS: "a record's headers are not what their count says",
    Fault.STRAY_BYTES: "bytes are left over behind the last record, or inside of one",
}


class MalformedError(ValueError):
    """The records of one section are not what a producer writes."""

    def __init__(self, section: int, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.section = section
        self.fault = fault


class Slices(NamedTuple):
    """Where the bytes of one column lie, a row each. A negative length is null; starts never go back."""

    starts: Ints
    lengths: Ints


@dataclass(slots=True)
class Index:
    """The records within the range: their numbers, and where their bytes lie."""

    rows: int
    offsets: Ints
    timestamps_us: Ints
    keys: Slices | None
    values: Slices | None
    headers: Slices | None
    """Each record's headers with the count before them, up to the end of the record."""


class HeaderIndex(NamedTuple):
    """All headers of all rows; those of row i are `offsets[i]` to `offsets[i + 1]`."""

    offsets: ShortInts
    names: Slices
    values: Slices


@dataclass(slots=True, frozen=True)
class BinaryColumn:
    """An Arrow array of bytes, and the three buffers that it is made of. No `valid` means that no row is null."""

    array: pyarrow.Array
    offsets: ShortInts
    data: Bytes
    valid: Flags


@dataclass(slots=True, frozen=True)
class HeaderColumn:
    """The headers of all rows; those of row i are `offsets[i]` to `offsets[i + 1]`."""

    offsets: ShortInts
    names: BinaryColumn
    values: BinaryColumn


@dataclass(slots=True, frozen=True)
class Rows:
    """What is to be encoded. No timestamps means that every row has the base timestamp."""

    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeaderColumn | None
    timestamps_ms: Ints | None


class Kernels(Protocol):
    """What is done once per record."""

    name: str

    def index(self, data: Bytes, sections: Ints, wanted: Wanted, start: int, end: int) -> Index:
        """Finds the records of all sections with start <= offset < end, and writes their number into the table."""

    def index_headers(self, data: Bytes, headers: Slices) -> HeaderIndex:
        """Finds every header. `MalformedError.section` is the row here."""

    def gather(self, data: Bytes, slices: Slices) -> pyarrow.Array:
        """The slices as one dense array of type binary."""

    def hash_keys(self, keys: BinaryColumn, partition_count: int, partitions: ShortInts) -> None:
        """Writes the partition of every row that has a key, as Kafka's Java client chooses it."""

    def encode(self, rows: Rows, order: Ints, base_timestamp_ms: int, target: Bytes) -> int:
        """Writes the rows that `order` names as records, the first with delta 0, and returns the bytes they took."""
