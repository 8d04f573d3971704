"""Record batches to Arrow. Once per batch in `batches`, once per record in `kernels`, and here the columns of it.

A column that is not asked for is not copied, and its bytes are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from bifrost.columnar import schema
from bifrost.columnar.batches import BatchScanner, Chunk
from bifrost.columnar.errors import CorruptBatch, arrow
from bifrost.columnar.kernels import kernels
from bifrost.columnar.kernels.interface import Index, Ints, Kernels, MalformedError, Section, Wanted
from bifrost.protocol.records import DECOMPRESSED_BYTES_MAX
from bifrost.protocol.wire import Buffer

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS: Final = 65_536
_END: Final = 2**63 - 1
_WANTED: Final = {"key": Wanted.KEY, "value": Wanted.VALUE, schema.HEADERS: Wanted.HEADERS}


def decode(
    data: Buffer,
    *,
    topic: str,
    partition: int,
    start: int = 0,
    end: int | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    columns: Iterable[str] | None = None,
) -> pyarrow.RecordBatch:
    """All rows of what was fetched, as one record batch. `Decoder` does the same in pieces of bounded size."""
    decoder = Decoder(topic, partition, columns)
    found = list(decoder.decode(data, start, end, aborted))
    if len(found) == 1:
        return found[0]
    pa = arrow()
    return pa.concat_batches(found) if found else pa.RecordBatch.from_pylist([], decoder.schema)


class Decoder:
    """Decodes what is fetched of one partition. Not for use by several threads at a time."""

    def __init__(
        self,
        topic: str,
        partition: int,
        columns: Iterable[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
        using: Kernels | None = None,
    ) -> None:
        self.schema = schema.schema(columns)
        self._topic = topic
        self._partition = partition
        self._batch_rows = batch_rows
        self._scanner = BatchScanner(topic, partition, decompressed_bytes_max)
        self._kernels = using or kernels()
        self._pa = arrow()
        self._wanted = Wanted.NOTHING
        for name in self.schema.names:
            self._wanted |= _WANTED.get(name, Wanted.NOTHING)
        self._constants = _Constants(topic, partition)

    def decode(
        self, data: Buffer, start: int = 0, end: int | None = None, aborted: Iterable[tuple[int, int]] = ()
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows with start <= offset < end, at most `batch_rows` at a time; `CorruptBatch` where bytes are damaged.

        `aborted` names the aborted transactions, as the answer to the fetch does under read_committed: producer id and
        first offset of each. Their records are left out.
        """
        for chunk in self._scanner.chunks(data, start, end, aborted):
            found = self._decode_chunk(chunk, start, _END if end is None else end)
            for first in range(0, found.num_rows, self._batch_rows):
                yield found.slice(first, self._batch_rows)

    def _decode_chunk(self, chunk: Chunk, start: int, end: int) -> pyarrow.RecordBatch:
        try:
            index = self._kernels.index(chunk.data, chunk.sections, self._wanted, start, end)
        except MalformedError as error:
            raise self._corrupt(chunk, error.section, error.fault.reason) from error
        arrays = [self._column(name, chunk, index) for name in self.schema.names]
        return self._pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, chunk: Chunk, index: Index) -> pyarrow.Array:
        match name:
            case "key" if index.keys is not None:
                return self._kernels.gather(chunk.data, index.keys)
            case "value" if index.values is not None:
                return self._kernels.gather(chunk.data, index.values)
            case "topic":
                return self._constants.topics(index.rows)
            case "partition":
                return self._constants.partitions(index.rows)
            case "offset":
                return self._numbers(name, index.offsets)
            case "timestamp":
                return self._numbers(name, index.timestamps_us)
            case "timestampType":
                kinds = chunk.sections[:, Section.APPEND_TIME].astype(np.int32)
                return self._pa.array(np.repeat(kinds, chunk.sections[:, Section.ROWS]))
            case _:
                return self._headers(chunk, index)

    def _numbers(self, name: str, numbers: Ints) -> pyarrow.Array:
        buffers = [None, self._pa.py_buffer(numbers)]
        return self._pa.Array.from_buffers(self.schema.field(name).type, len(numbers), buffers, 0)

    def _headers(self, chunk: Chunk, index: Index) -> pyarrow.Array:
        pa = self._pa
        assert index.headers is not None
        try:
            found = self._kernels.index_headers(chunk.data, index.headers)
        except MalformedError as error:
            raise self._corrupt(chunk, self._section_of(chunk, error.section), error.fault.reason) from error
        names = self._text(self._kernels.gather(chunk.data, found.names))
        values = self._kernels.gather(chunk.data, found.values)
        kind = self.schema.field(schema.HEADERS).type
        pairs = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
        return pa.ListArray.from_arrays(pa.array(found.offsets), pairs, type=kind)

    def _text(self, names: pyarrow.Array) -> pyarrow.Array:
        """As Java's client reads them: bytes that are not UTF-8 become U+FFFD, for a broker takes any."""
        try:
            return names.cast(self._pa.string())
        except self._pa.ArrowInvalid:
            return self._pa.array([name.decode(errors="replace") for name in names.to_pylist()], self._pa.string())

    def _section_of(self, chunk: Chunk, row: int) -> int:
        return int(np.searchsorted(np.cumsum(chunk.sections[:, Section.ROWS]), row, side="right"))

    def _corrupt(self, chunk: Chunk, section: int, reason: str) -> CorruptBatch:
        header = chunk.headers[section]
        return CorruptBatch(self._topic, self._partition, header.base_offset, reason, next_offset=header.next_offset)


class _Constants:
    """The columns that say the same in every row, made once and sliced."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._topics: pyarrow.Array = None
        self._partitions: pyarrow.Array = None

    def topics(self, rows: int) -> pyarrow.Array:
        if self._topics is None or len(self._topics) < rows:
            pa = arrow()
            self._topics = pa.repeat(pa.scalar(self._topic, pa.string()), rows)
        return self._topics.slice(0, rows)

    def partitions(self, rows: int) -> pyarrow.Array:
        if self._partitions is None or len(self._partitions) < rows:
            pa = arrow()
            self._partitions = pa.repeat(pa.scalar(self._partition, pa.int32()), rows)
        return self._partitions.slice(0, rows)
