"""Reading a partition: slices of its log as they come, the next one always under way while the last is looked at.

A stream has a connection of its own, because an answer of eight megabytes would hold up everybody else's. It decides
where to read next from batch headers alone, and how much to ask for: as much as the range may still hold. Leaders that
move, connections that break and brokers that restart are its own business; it begins again where it was.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from bifrost.client.errors import BifrostError, CorruptDataError, OffsetOutOfRangeError
from bifrost.client.wire.batch_scan import Scan, scan_batches
from bifrost.client.wire.buffers import BufferPool
from bifrost.client.wire.cluster import Cluster, Leader
from bifrost.client.wire.connection import Connection
from bifrost.client.wire.failures import TRANSPORT_FAILURES, TryAgain, from_code, made_anew
from bifrost.client.wire.offsets import EARLIEST, LATEST, list_offsets
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol import fetch
from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionFetchResult
from bifrost.protocol.wire import ZERO_UUID

OFFSET_BYTES_GUESS: Final = 1 << 10
"""How large a record is thought to be before the first answer."""
REQUEST_BYTES_MIN: Final = 64 << 10
_MARGIN: Final = 1.1
_AHEAD_S: Final = 1.0
"""What was fetched does not wait longer than this for the next request to be sent."""


class Fetched(NamedTuple):
    """A slice of a log, and how far the log reached when it was read."""

    data: memoryview
    """Whole record batches. The first may begin below the offset that was asked for, the last may reach behind the end.
    Writable, and nobody else's for as long as it is held. Empty: nothing came in time."""
    next_offset: int
    """Where the next slice begins."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    """Producer id and first offset of aborted transactions in here; only under read_committed."""


class FetchStream:
    """The slices of one partition from `start` on, up to `end` if that is given, and for ever if not.

    For one thread. `close` it, or leave its `with` block, when it is not read to its end.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        start: int,
        end: int | None,
        *,
        isolation: int,
        max_bytes: int,
        max_wait_ms: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.position = start
        """The first offset that has not been yielded yet."""
        self._end = end
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._max_wait_ms = max_wait_ms
        self._cluster = cluster
        self._connection: Connection | None = None
        self._node_id = -1
        self._asked_id = ZERO_UUID
        self._topic_id: bytes | None = None
        """Of what was read so far. Not of what was only asked for: what is known of a topic may be older than it is."""
        self._buffers = BufferPool()
        self._bytes_per_offset: float | None = None
        self._bytes_min = 0

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> Fetched:
        if self._end is not None and self.position >= self._end:
            self.close()
            raise StopIteration
        deadline = self._cluster.call_deadline()
        try:
            fetched = self._cluster.persist(lambda: self._attempt(deadline), deadline)
        except BaseException:
            self.close()
            raise
        self._ask_ahead()
        return fetched

    def close(self) -> None:
        """Gives the connection back; a request that is still under way is given up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._cluster.give_back(connection)

    def _attempt(self, deadline: Deadline) -> Fetched:
        try:
            connection = self._connection
            if connection is None or not connection.unanswered:
                connection = self._ask(deadline)
            return self._receive(connection)
        except TRANSPORT_FAILURES:
            self._lose_connection()
            raise

    def _ask_ahead(self) -> None:
        """Sends the next request; if that fails, the next attempt will see to it."""
        if self._end is not None and self.position >= self._end:
            self.close()
            return
        connection = self._connection
        if connection is None:
            return
        try:
            self._send(connection, self._leader(Deadline(_AHEAD_S)))
        except BifrostError:
            self._lose_connection()

    def _ask(self, deadline: Deadline) -> Connection:
        leader = self._leader(deadline)
        if self._connection is None:
            self._connection = self._cluster.take(leader.node_id, deadline)
            self._node_id = leader.node_id
        self._send(self._connection, leader)
        return self._connection

    def _leader(self, deadline: Deadline) -> Leader:
        leader = self._cluster.leader(self.topic, self.partition, deadline)
        if self._topic_id not in (None, leader.topic_id):
            raise made_anew(self.topic, "read")
        if leader.node_id != self._node_id and self._connection is not None:
            self.close()
        return leader

    def _send(self, connection: Connection, leader: Leader) -> None:
        by_id = leader.topic_id != ZERO_UUID
        self._asked_id = leader.topic_id
        version = connection.version(fetch.API_KEY, fetch.VERSIONS, below=None if by_id else fetch.TOPIC_IDS_SINCE)
        size = self._request_bytes()
        partition = FetchPartition(self.partition, leader.epoch, self.position, -1, -1, size)
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=size,
            topics=[FetchTopic(self.topic, leader.topic_id, [partition])],
            isolation_level=self._isolation,
        )
        expected = connection.expect(fetch.API_KEY, version)
        frame = fetch.encode_request(version, expected.correlation_id, connection.client_id, request)
        connection.send([frame], expected, Deadline(self._cluster.settings.request_timeout_ms / 1000))

    def _request_bytes(self) -> int:
        """What is left of the range, as far as that can be guessed: bytes behind the end travel for nothing."""
        size = self._max_bytes
        if self._end is not None:
            each = self._bytes_per_offset or OFFSET_BYTES_GUESS
            left = int((self._end - self.position) * each * _MARGIN)
            size = min(size, max(left, REQUEST_BYTES_MIN))
        return max(size, self._bytes_min)

    def _receive(self, connection: Connection) -> Fetched:
        allowed_s = (self._max_wait_ms + self._cluster.settings.request_timeout_ms) / 1000
        frame = connection.receive(Deadline(allowed_s), self._buffers.take)
        try:
            response = fetch.decode_response(frame.data, frame.body, frame.version)
        except ProtocolError as error:
            raise CorruptDataError(self.topic, self.partition, self.position, str(error)) from error
        results = [result for topic in response.topics for result in topic.partitions if result.index == self.partition]
        if response.error_code or not results:
            code = response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
            raise TryAgain(from_code(code, topic=self.topic, partition=self.partition))
        result = results[0]
        if result.error_code:
            raise self._refused(result)
        return self._taken(result)

    def _refused(self, result: PartitionFetchResult) -> BifrostError | TryAgain:
        code = ErrorCode(result.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range()
        if code is ErrorCode.CORRUPT_MESSAGE:
            return CorruptDataError(self.topic, self.partition, self.position, "the broker finds it damaged")
        failure = from_code(result.error_code, topic=self.topic, partition=self.partition)
        if not code.retriable:
            return failure
        self._cluster.suspect(self.topic)
        return TryAgain(failure)

    def _out_of_range(self) -> BifrostError | TryAgain:
        place = (self.topic, self.partition)
        deadline = self._cluster.call_deadline()
        earliest, latest = (
            found.offset if (found := list_offsets(self._cluster, {place: which}, 0, deadline)[place]) else 0
            for which in (EARLIEST, LATEST)
        )
        error = OffsetOutOfRangeError(*place, self.position, earliest=earliest, latest=latest)
        # A leader that was elected a moment ago may not know yet how far the log is safe.
        return TryAgain(error) if earliest <= self.position <= latest else error

    def _taken(self, result: PartitionFetchResult) -> Fetched:
        self._topic_id = self._asked_id
        records = result.records
        assert records is None or isinstance(records, memoryview)
        data = memoryview(b"") if records is None else records
        try:
            scan = scan_batches(data, self._end)
            self._advance(scan)
        except CorruptBatchError as error:
            raise CorruptDataError(self.topic, self.partition, self.position, str(error)) from error
        return Fetched(
            data[: scan.size],
            self.position,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            list(result.aborted_transactions or ()),
        )

    def _advance(self, scan: Scan) -> None:
        self._bytes_min = scan.cut_batch_bytes
        if scan.size:
            if scan.next_offset <= self.position:
                raise CorruptBatchError(f"batches that end before it, at {scan.next_offset}")
            self._bytes_per_offset = scan.size / (scan.next_offset - self.position)
            self.position = scan.next_offset
        if scan.reached_end:
            assert self._end is not None
            self.position = max(self.position, self._end)

    def _lose_connection(self) -> None:
        connection, self._connection = self._connection, None
        self._cluster.suspect(self.topic)
        if connection is not None:
            self._cluster.lost(connection)
