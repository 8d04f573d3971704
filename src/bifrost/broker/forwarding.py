"""Any broker answers for any partition: what another node leads is asked of that node, and its answer passed on.

Clients that know the cluster never need this. Others do: a shell script, a tunnel, a client whose metadata is a moment
old. Each client connection has a connection of its own to each leader, so that what it sends stays in order. A request
is passed on once: the node that gets it so answers itself, whatever it knows, so that none goes in circles.

Must never: pass on a request twice, answer before the leader has, or keep without bound what leaders do not take.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Final, NamedTuple, TypeVar

from bifrost.broker.connection import Connection
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.write_order import WriteOrder
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import ProtocolError
from bifrost.peers.connection import PeerConnection, PeerError, connect
from bifrost.peers.names import PASSED_ON
from bifrost.peers.transport import Transport
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.batch import ProducerMark
from bifrost.protocol.fetch import FetchRequest, FetchResponse
from bifrost.protocol.fetch import decode_response as decode_fetch
from bifrost.protocol.fetch.request import encode_request as encode_fetch
from bifrost.protocol.frame import has_flexible_response_header
from bifrost.protocol.leader_hints import NodeEndpoint
from bifrost.protocol.produce import ProduceRequest, ProduceResponse
from bifrost.protocol.produce import decode_response as decode_produce
from bifrost.protocol.produce.request import FLEXIBLE_SINCE as PRODUCE_FLEXIBLE_SINCE
from bifrost.protocol.produce.request import encode_request as encode_produce
from bifrost.types import NodeId, TopicPartition

_ANSWER_BYTES_MAX: Final = 128 << 20
_CONNECT_S: Final = 5.0
_GRACE_S: Final = 5.0
"""How much longer than its client a node waits for the leader's answer."""
UNDER_WAY_BYTES_MAX: Final = 16 << 20
"""From here on a client is not read from until others have answered. The request that gets there still goes."""
_UNDER_WAY: Final = "other leaders"
_REQUEST_BYTES: Final = 4096
"""What a request costs here besides its frame."""

T = TypeVar("T")


class Leader(NamedTuple):
    """Who leads a partition, as far as this node knows."""

    broker_id: NodeId
    epoch: int


class Forwarding:
    """The ways from this node's clients to other leaders."""

    def __init__(self, node_id: NodeId, image: MetadataImage, live: LiveSettings, transport: Transport) -> None:
        self._node_id = node_id
        self._image = image
        self._live = live
        self._transport = transport
        self.orders: dict[Connection, WriteOrder] = {}
        """Of the connections on which a leader has changed, or may while something is under way."""
        self._clients: dict[Connection, _Client] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    def leader_of(self, topic: str | None, partition: int) -> Leader | None:
        """The other node that leads the partition; None if this one does, or nobody."""
        state = None if topic is None else self._image.partition(topic, partition)
        if state is None or not state.has_leader or state.leader == self._node_id:
            return None
        return Leader(NodeId(state.leader), state.leader_epoch)

    def order_of(self, connection: Connection) -> WriteOrder:
        """What is told of a connection that has ended is kept nowhere: nobody would ever forget it."""
        order = self.orders.get(connection)
        if order is None:
            order = WriteOrder()
            if not connection.is_lost:
                self.orders[connection] = order
                connection.when_lost["write order"] = lambda: self._forget_order(connection)
        return order

    def hold_back(
        self, connection: Connection, client_id: str | None, tp: TopicPartition, mark: ProducerMark | None
    ) -> None:
        """A write was refused for want of a leader: the next ones of its producer may not be passed on before it."""
        if mark is not None and self.is_for_others(client_id):
            self.order_of(connection).failed(tp, mark, asyncio.get_running_loop().time())

    def _forget_order(self, connection: Connection) -> None:
        self.orders.pop(connection, None)

    def is_for_others(self, client_id: str | None) -> bool:
        """Whether a request of this client may be passed on."""
        return self._live.now.leader_forwarding_enable and client_id != PASSED_ON

    def endpoint(self, broker_id: NodeId, listener: str) -> NodeEndpoint | None:
        """Where a client of this listener would find that node (KIP-951)."""
        broker = self._image.brokers.get(broker_id)
        found = None if broker is None else broker.endpoint(listener)
        return None if broker is None or found is None else NodeEndpoint(broker_id, found.host, found.port, broker.rack)

    def produce(
        self, connection: Connection, leader: NodeId, request: ProduceRequest, version: int
    ) -> Awaitable[ProduceResponse]:
        """The leader's answer, or PeerError. The request's buffer may be used again when this returns."""
        version = max(version, PRODUCE_FLEXIBLE_SINCE)
        frame = encode_produce(version, 0, PASSED_ON, request)
        timeout_s = request.timeout_ms / 1000 + _GRACE_S
        return self._ask(connection, leader, _Question(frame, ApiKey.PRODUCE, version, timeout_s), decode_produce)

    def fetch(
        self, connection: Connection, leader: NodeId, request: FetchRequest, version: int
    ) -> Awaitable[FetchResponse]:
        """The leader's answer, or PeerError."""
        frame = encode_fetch(version, 0, PASSED_ON, request)
        timeout_s = request.max_wait_ms / 1000 + _GRACE_S
        return self._ask(connection, leader, _Question(frame, ApiKey.FETCH, version, timeout_s), decode_fetch)

    def _ask(
        self,
        connection: Connection,
        leader: NodeId,
        question: _Question,
        decode: Callable[[memoryview, int, int], T],
    ) -> Awaitable[T]:
        """The question has left when this returns, or stands in line: the order of calls is the order of arrival."""
        client = self._clients.get(connection)
        if client is None:
            client = self._clients[connection] = _Client(connection)
            connection.when_lost["forwarding"] = lambda: self._close(connection)
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        client.expect(answer, len(question.frame))
        try:
            client.way(leader, lambda: _Way(self._transport, self._address(leader))).send(question, answer)
        except PeerError as error:
            answer.set_exception(error)
        return _decoded(answer, question.version, decode)

    def spawn(self, connection: Connection, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run what this client waits for; tasks begin in the order of these calls."""
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(partial(self._on_done, connection))
        return task

    def _on_done(self, connection: Connection, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a bug of ours: the client would wait for ever, and nobody would hear of it
            connection.fail(error)
            task.get_loop().call_exception_handler({"message": "unexpected error for a client", "exception": error})

    def on_change(self, image: MetadataImage, delta: Delta) -> None:
        """Whoever is fenced leads nothing any more: what it was asked is not waited for, though it may have been
        heard. It would be as long as the client's own time else, where a leader hangs."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                for client in self._clients.values():
                    client.give_up(NodeId(broker_id))

    def _address(self, leader: NodeId) -> tuple[str, int]:
        endpoint = self.endpoint(leader, self._live.now.inter_broker_listener)
        if endpoint is None:
            raise PeerError(f"broker {leader} has no address", unsent=True)
        return endpoint.host, endpoint.port

    def _close(self, connection: Connection) -> None:
        client = self._clients.pop(connection, None)
        if client is not None:
            client.close()


class _Question(NamedTuple):
    """A request to another node, without its number."""

    frame: bytes
    api_key: ApiKey
    version: int
    timeout_s: float


class _Client:
    """One client's connection: its ways to leaders, and how much is under way on them.

    A client that sends faster than leaders take is not read from until they have answered. So a leader that hangs
    costs a bounded amount of memory, also where nobody waits for answers (acks=0).
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ways: dict[NodeId, _Way] = {}
        self._under_way_bytes = 0

    def expect(self, answer: asyncio.Future[memoryview], frame_bytes: int) -> None:
        """A request of this size is under way until it is answered, whatever the answer."""
        size = frame_bytes + _REQUEST_BYTES
        self._under_way_bytes += size
        if self._under_way_bytes >= UNDER_WAY_BYTES_MAX:
            self._connection.hold(_UNDER_WAY)
        answer.add_done_callback(lambda done: self._on_answer(done, size))

    def _on_answer(self, answer: asyncio.Future[memoryview], size: int) -> None:
        if not answer.cancelled():
            answer.exception()  # whoever waits for it hears of it; nobody else needs to
        self._under_way_bytes -= size
        if self._under_way_bytes < UNDER_WAY_BYTES_MAX:
            self._connection.release(_UNDER_WAY)

    def way(self, leader: NodeId, make: Callable[[], _Way]) -> _Way:
        way = self._ways.get(leader)
        if way is None or way.is_broken:
            way = self._ways[leader] = make()
        return way

    def give_up(self, leader: NodeId) -> None:
        way = self._ways.pop(leader, None)
        if way is not None:
            way.close("its leader was fenced")

    def close(self) -> None:
        for way in self._ways.values():
            way.close("the client is gone")


class _Way:
    """A connection from one client's connection to one leader; what is sent before it is open waits in line."""

    def __init__(self, transport: Transport, address: tuple[str, int]) -> None:
        self.is_broken = False
        self._link = PeerConnection(PASSED_ON, answer_bytes_max=_ANSWER_BYTES_MAX, on_lost=self._on_lost)
        self._line: deque[tuple[_Question, asyncio.Future[memoryview]]] | None = deque()
        """Who waits for it to open; None once those have been sent, so that nobody overtakes them."""
        self._opening = asyncio.ensure_future(self._open(transport, address))

    def send(self, question: _Question, answer: asyncio.Future[memoryview]) -> None:
        """PeerError if the way is known to be closed; later failures are told by `answer`."""
        if self._line is not None:
            self._line.append((question, answer))
        else:
            self._write(question, answer)

    def close(self, reason: str) -> None:
        self.is_broken = True
        self._opening.cancel()
        self._link.close(reason)
        self._fail(PeerError(reason, unsent=True))

    async def _open(self, transport: Transport, address: tuple[str, int]) -> None:
        try:
            await connect(transport, *address, self._link, timeout_s=_CONNECT_S)
        except PeerError as error:
            self.is_broken = True
            self._fail(error)
            return
        line, self._line = self._line or deque(), None
        for question, answer in line:
            if answer.done():
                continue
            try:
                self._write(question, answer)
            except PeerError as error:
                answer.set_exception(error)

    def _write(self, question: _Question, answer: asyncio.Future[memoryview]) -> None:
        flexible = has_flexible_response_header(question.api_key, question.version)
        self._link.write(_numbered(question.frame), flexible, answer, timeout_s=question.timeout_s)

    def _fail(self, error: PeerError) -> None:
        line, self._line = self._line or deque(), None
        for _, answer in line:
            if not answer.done():
                answer.set_exception(error)

    def _on_lost(self) -> None:
        self.is_broken = True


async def _decoded(answer: asyncio.Future[memoryview], version: int, decode: Callable[[memoryview, int, int], T]) -> T:
    body = await answer
    try:
        return decode(body, 0, version)
    except ProtocolError as error:
        raise PeerError(str(error)) from error


def _numbered(frame: bytes) -> Callable[[int], bytes]:
    """The frame with another correlation id, which stands behind length, API key and version."""
    return lambda number: frame[:8] + number.to_bytes(4) + frame[12:]
