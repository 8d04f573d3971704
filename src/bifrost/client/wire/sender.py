"""The thread behind a producer: takes batches from lanes, sends them to leaders, settles them by the answers.

One thread serves all leaders. Everything that lanes hold is touched under the producer's lock, every system call is
made without it. A broker that cannot be reached pauses the lanes that it leads, and nothing else.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from bifrost.client.changes import Changes
from bifrost.client.errors import BifrostError
from bifrost.client.wire.cluster import Cluster, Leader
from bifrost.client.wire.connection import Connection, Frame
from bifrost.client.wire.failures import TRANSPORT_FAILURES, made_anew
from bifrost.client.wire.lanes import Batch, Lane
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol import produce
from bifrost.protocol.produce import PartitionProduceData, PartitionProduceResult, ProduceRequest, TopicProduceData
from bifrost.protocol.wire import ZERO_UUID

_LOOKUP_S: Final = 2.0
"""How long everybody waits while one leader is looked for or connected to."""
_TICK_S: Final = 1.0


class Sent(NamedTuple):
    """One request that is under way."""

    batches: list[tuple[Lane, Batch]]
    topic_ids: dict[str, bytes]
    deadline: Deadline


class Link:
    """A connection to one leader, and what is under way on it, in order."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sent: deque[Sent] = deque()


class Sender:
    """Started by the first batch, stopped by its producer."""

    def __init__(self, cluster: Cluster, changed: Changes, *, acks: int, max_in_flight: int) -> None:
        self.buffered_bytes = 0
        """Of batches that are not settled."""
        self.first_failure: BifrostError | None = None
        self.broken: BifrostError | None = None
        """Why nothing can be sent any more."""
        self._cluster = cluster
        self._changed = changed
        self._acks = acks
        self._max_in_flight = max_in_flight
        self._hungry: dict[tuple[str, int], Lane] = {}
        """Lanes in which something waits to be sent."""
        self._links: dict[int, Link] = {}
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._sleeping = False

    def queued(self, lane: Lane, size: int) -> None:
        """A batch was added; the caller holds the lock."""
        self.buffered_bytes += size
        self._hungry[lane.topic, lane.partition] = lane
        if self._thread is None:
            self._wake_reader, self._wake_writer = socket.socketpair()
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._wake_reader, selectors.EVENT_READ)
            self._thread = threading.Thread(target=self._run, name="bifrost-sender", daemon=True)
            self._thread.start()
        elif self._sleeping:
            self._wake()

    def stop(self, failure: BifrostError) -> None:
        """Ends the thread. What is not settled by then fails."""
        with self._changed.lock:
            thread, self._thread = self._thread, None
            self._stopping = True
            if thread is None:
                return
            self._wake()
        thread.join()
        self._fail(self._unsettled(), failure)
        for link in self._links.values():
            self._cluster.give_back(link.connection)
        self._links.clear()
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _wake(self) -> None:
        self._sleeping = False
        self._wake_writer.send(b"\0")

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._dispatch(self._ready_lanes())
                self._hear(self._pause_s())
        except BaseException as error:
            self.broken = BifrostError(
                f"the sender of this producer has failed: {error!r}", "This is a bug; report it."
            )
            self._fail(self._unsettled(), self.broken)
            raise

    def _unsettled(self) -> list[Lane]:
        return [*self._hungry.values(), *(lane for link in self._links.values() for lane in _lanes_of(link))]

    def _ready_lanes(self) -> list[Lane]:
        now = time.monotonic()
        timeout_s = self._cluster.settings.delivery_timeout_ms / 1000
        with self._changed.lock:
            for key, lane in list(self._hungry.items()):
                if gone := lane.expire(now, timeout_s):
                    self._settle(gone, lane.failure)
                if not lane.waiting:
                    del self._hungry[key]
            return [lane for lane in self._hungry.values() if lane.can_send(now)]

    def _dispatch(self, ready: Iterable[Lane]) -> None:
        by_node: dict[int, list[tuple[Lane, Leader]]] = defaultdict(list)
        for lane in ready:
            leader = self._leader_of(lane)
            if leader is None:
                continue
            if lane.topic_id not in (None, leader.topic_id):
                self._fail([lane], made_anew(lane.topic, "written to"))
                continue
            if lane.under_way and lane.node_id != leader.node_id:
                # What is under way to the old leader must be settled first: it may have been stored there.
                lane.pause(time.monotonic())
                continue
            lane.node_id, lane.topic_id = leader.node_id, leader.topic_id
            by_node[leader.node_id].append((lane, leader))
        for node_id, lanes in by_node.items():
            link = self._link(node_id, lanes)
            while link is not None and len(link.sent) < self._max_in_flight:
                if not self._send_some(node_id, link, lanes):
                    break

    def _leader_of(self, lane: Lane) -> Leader | None:
        try:
            return self._cluster.leader(lane.topic, lane.partition, Deadline(_LOOKUP_S))
        except TRANSPORT_FAILURES:
            self._pause([lane])
        except BifrostError as failure:
            if failure.code == ErrorCode.LEADER_NOT_AVAILABLE.name:
                self._pause([lane])
            else:
                self._fail([lane], failure)
        return None

    def _link(self, node_id: int, lanes: list[tuple[Lane, Leader]]) -> Link | None:
        link = self._links.get(node_id)
        if link is not None:
            return link
        try:
            connection = self._cluster.take(node_id, Deadline(_LOOKUP_S))
        except TRANSPORT_FAILURES:
            self._pause(lane for lane, _ in lanes)
            return None
        except BifrostError as failure:
            self._fail((lane for lane, _ in lanes), failure)
            return None
        link = self._links[node_id] = Link(connection)
        self._selector.register(connection, selectors.EVENT_READ, node_id)
        return link

    def _pause(self, lanes: Iterable[Lane]) -> None:
        with self._changed.lock:
            for lane in lanes:
                lane.pause(time.monotonic())
                self._cluster.suspect(lane.topic)

    def _fail(self, lanes: Iterable[Lane], failure: BifrostError) -> None:
        with self._changed.lock:
            for lane in lanes:
                self._settle(lane.fail(failure), failure)

    def _send_some(self, node_id: int, link: Link, lanes: list[tuple[Lane, Leader]]) -> bool:
        """One request with one batch of each lane, as far as they fit. False: there was nothing to send, or no way."""
        settings = self._cluster.settings
        chosen: list[tuple[Lane, Batch]] = []
        topic_ids: dict[str, bytes] = {}
        size = 0
        with self._changed.lock:
            now = time.monotonic()
            for lane, leader in lanes:
                if not lane.can_send(now) or (chosen and size + lane.next_bytes > settings.request_bytes):
                    continue
                batch = lane.take()
                size += len(batch.data)
                chosen.append((lane, batch))
                topic_ids[lane.topic] = leader.topic_id
        if not chosen:
            return False
        sent = Sent(chosen, topic_ids, Deadline(settings.request_timeout_ms / 1000))
        link.sent.append(sent)
        try:
            self._send(link.connection, sent)
        except TRANSPORT_FAILURES:
            self._lose(node_id, link)
            return False
        except BifrostError as failure:
            self._fail((lane for lane, _ in lanes), failure)
            self._lose(node_id, link)
            return False
        return True

    def _send(self, connection: Connection, sent: Sent) -> None:
        by_id = ZERO_UUID not in sent.topic_ids.values()
        version = connection.version(
            produce.API_KEY, produce.VERSIONS, below=None if by_id else produce.TOPIC_IDS_SINCE
        )
        topics = {name: TopicProduceData(name, topic_id, []) for name, topic_id in sent.topic_ids.items()}
        for lane, batch in sent.batches:
            topics[lane.topic].partitions.append(PartitionProduceData(lane.partition, memoryview(batch.data)))
        timeout_ms = self._cluster.settings.request_timeout_ms
        request = ProduceRequest(None, self._acks, timeout_ms, list(topics.values()))
        expected = connection.expect(produce.API_KEY, version)
        pieces = produce.encode_request_pieces(version, expected.correlation_id, connection.client_id, request)
        connection.send(pieces, expected, sent.deadline)

    def _pause_s(self) -> float:
        """How long there is nothing to do unless an answer comes or a batch is added."""
        with self._changed.lock:
            now = time.monotonic()
            if self._stopping or any(lane.can_send(now) and self._may_send(lane) for lane in self._hungry.values()):
                return 0.0
            self._sleeping = True
            resume = min((lane.resume_at_s - now for lane in self._hungry.values()), default=_TICK_S)
            return min(resume, _TICK_S) if resume > 0 else _TICK_S

    def _may_send(self, lane: Lane) -> bool:
        link = self._links.get(lane.node_id)
        return link is None or len(link.sent) < self._max_in_flight

    def _hear(self, timeout_s: float) -> None:
        """Takes the answers that are there, or the first that comes in time."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._wake_reader:
                self._wake_reader.recv(4096)
            elif (link := self._links.get(key.data)) is not None:
                self._hear_link(key.data, link)
        self._sleeping = False
        for node_id, link in list(self._links.items()):
            if link.sent and link.sent[0].deadline.passed:
                self._lose(node_id, link)

    def _hear_link(self, node_id: int, link: Link) -> None:
        while True:
            if not link.sent:  # nobody asked: the broker has hung up
                self._lose(node_id, link)
                return
            try:
                frame = link.connection.receive(link.sent[0].deadline)
                self._apply(link.sent[0], frame)
            except (BifrostError, ProtocolError):
                self._lose(node_id, link)
                return
            link.sent.popleft()
            if not link.connection.has_decrypted():
                return

    def _apply(self, sent: Sent, frame: Frame) -> None:
        response = produce.decode_response(frame.data, frame.body, frame.version)
        by_id = frame.version >= produce.TOPIC_IDS_SINCE
        results: dict[tuple[str | bytes, int], PartitionProduceResult] = {
            (topic.topic_id if by_id else topic.name, result.index): result
            for topic in response.topics
            for result in topic.partitions
        }
        with self._changed.lock:
            for lane, batch in sent.batches:
                result = results.get((sent.topic_ids[lane.topic] if by_id else lane.topic, lane.partition))
                if lane.holds(batch):
                    self._judge(lane, batch, result)

    def _judge(self, lane: Lane, batch: Batch, result: PartitionProduceResult | None) -> None:
        if result is None:
            result = PartitionProduceResult(lane.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        if not result.error_code:
            lane.succeed(batch, result.base_offset, result.log_append_time_ms)
            self._settle([batch])
            return
        gone, moved = lane.refuse(batch, result.error_code, result.error_message)
        if moved:
            self._cluster.suspect(lane.topic)
            lane.pause(time.monotonic())
        if lane.waiting:
            self._hungry[lane.topic, lane.partition] = lane
        if batch.pending.done and batch not in gone:
            gone = [batch]
        self._settle(gone, lane.failure)

    def _settle(self, batches: list[Batch], failure: BifrostError | None = None) -> None:
        self.first_failure = self.first_failure or failure
        self.buffered_bytes -= sum(len(batch.data) for batch in batches)
        self._changed.notify_all()

    def _lose(self, node_id: int, link: Link) -> None:
        """The connection is gone: everything on it goes again, in order, after a pause."""
        del self._links[node_id]
        self._selector.unregister(link.connection)
        self._cluster.lost(link.connection)
        with self._changed.lock:
            now = time.monotonic()
            for lane in _lanes_of(link):
                lane.pause(now)
                self._cluster.suspect(lane.topic)
            for sent in link.sent:
                for lane, batch in sent.batches:
                    if lane.holds(batch):
                        lane.lose(batch)
                        self._hungry[lane.topic, lane.partition] = lane


def _lanes_of(link: Link) -> set[Lane]:
    return {lane for sent in link.sent for lane, _ in sent.batches}
