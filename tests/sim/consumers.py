"""Consumers in the simulated world: they poll with and without fetch sessions, wait, go back, and read on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bifrost.errors import ErrorCode
from bifrost.protocol.batch import CorruptBatchError, iter_headers
from bifrost.protocol.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetchResult,
)
from bifrost.protocol.records import decode_batch
from bifrost.protocol.wire import ZERO_UUID
from tests.sim.client import TROUBLE, Client, Topic, Wire
from tests.sim.history import History, OutOfRange, Place, Polled, Value
from tests.sim.network import SimNetwork
from tests.sim.values import decode_value

SESSIONS_SINCE = 7
SLACK_S = 5.0


class Consumer(Client):
    """Reads every partition of its topics, from the start and to no end."""

    def __init__(
        self,
        name: str,
        network: SimNetwork,
        history: History,
        seed: str,
        topics: Sequence[Topic],
        *,
        calm: bool = False,
    ) -> None:
        super().__init__(name, network, history, seed)
        rng = self.rng
        self.version = rng.randint(4, 18)
        self.positions: dict[Place, int] = {place: 0 for topic in topics for place in topic.places}
        self._topics = {topic.topic_id if self.version >= TOPIC_IDS_SINCE else topic.name: topic for topic in topics}
        self._max_wait_ms = 100 if calm else rng.choice((0, 100, 500, 2000))
        self._min_bytes = 1 if calm else rng.choice((1, 1, 1, 5_000))
        self._max_bytes = 1 << 20 if calm else rng.choice((1, 500, 10_000, 1 << 20))
        self._partition_max_bytes = 1 << 20 if calm else rng.choice((200, 2_000, 1 << 20))
        self._rewind_share = 0.0 if calm else rng.choice((0.0, 0.01))
        self._work_s = rng.choice((0.005, 0.05, 0.2))
        self._session_id = 0
        self._session_epoch = 0
        self._told: dict[Place, int] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                wire = await self.connect()
            except TROUBLE:
                await self.rest()
                continue
            self._leave_session()
            try:
                while wire.is_open:
                    await self.poll(wire)
                    await asyncio.sleep(self.rng.expovariate(1 / self._work_s))
            except TROUBLE:
                pass
            finally:
                wire.close()
            await self.rest()

    async def poll(self, wire: Wire) -> None:
        if self.rng.random() < self._rewind_share:
            place = self.rng.choice(list(self.positions))
            self.positions[place] = self.rng.randint(0, self.positions[place])
        asked_at, asked = self.loop.time(), dict(self.positions)
        response = await wire.fetch(self.version, self._request(), self._max_wait_ms / 1000 + SLACK_S)
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            if code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                self.complain("unexpected answer", f"Fetch {code.name}")
            self._leave_session()
            return
        self._continue_session(response)
        for topic_result in response.topics:
            topic = self._topics[topic_result.topic_id if self.version >= TOPIC_IDS_SINCE else topic_result.name]
            for result in topic_result.partitions:
                place = topic.place(result.index)
                await self._take(place, asked[place], asked_at, wire.host, result)

    def _request(self) -> FetchRequest:
        incremental = self._session_epoch > 0
        wanted = [
            (place, offset)
            for place, offset in self.positions.items()
            if not incremental or self._told.get(place) != offset
        ]
        self._told.update(wanted)
        by_id = self.version >= TOPIC_IDS_SINCE
        topics: dict[str, FetchTopic] = {}
        for place, offset in wanted:
            topic = topics.get(place.topic)
            if topic is None:
                name, topic_id = ("", bytes.fromhex(place.topic_id)) if by_id else (place.topic, ZERO_UUID)
                topic = topics[place.topic] = FetchTopic(name, topic_id, [])
            topic.partitions.append(FetchPartition(place.partition, -1, offset, -1, -1, self._partition_max_bytes))
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            topics=list(topics.values()),
            session_id=self._session_id,
            session_epoch=self._session_epoch if self.version >= SESSIONS_SINCE else -1,
        )

    def _leave_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._told.clear()

    def _continue_session(self, response: FetchResponse) -> None:
        if self.version < SESSIONS_SINCE or response.session_id == 0:
            self._leave_session()
            return
        self._session_epoch = 1 if self._session_id != response.session_id else self._session_epoch + 1
        self._session_id = response.session_id

    async def _take(
        self, place: Place, offset: int, asked_at: float, asked_of: str, result: PartitionFetchResult
    ) -> None:
        code = ErrorCode(result.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.history.add(OutOfRange(asked_at, self.loop.time(), self.name, place, offset))
            self.positions[place] = 0
        elif code is not ErrorCode.NONE:
            if not code.retriable or code is ErrorCode.CORRUPT_MESSAGE:
                self.complain("unexpected answer", f"Fetch {code.name} from {place}")
            await asyncio.sleep(0.1)
        else:
            records = await self._read(place, offset, result)
            now, watermark = self.loop.time(), result.high_watermark
            self.history.add(Polled(asked_at, now, self.name, place, offset, watermark, records, asked_of))
            if records:
                self.positions[place] = records[-1][0] + 1

    async def _read(self, place: Place, offset: int, result: PartitionFetchResult) -> tuple[tuple[int, Value], ...]:
        """Records at or after the offset that was asked for; a batch may begin before it, and the last be cut."""
        data = memoryview(result.records or b"")  # type: ignore[arg-type]
        found: list[tuple[int, Value]] = []
        try:
            for position, header in iter_headers(data):
                records = decode_batch(data[position : position + header.size_bytes])
                found.extend((one.offset, decode_value(one.value)) for one in records if one.offset >= offset)
        except CorruptBatchError as error:
            self.complain("corrupt batch", f"{place} from {offset}: {error}")
            await asyncio.sleep(1.0)  # it will not get better
        return tuple(found)


async def read_all(consumer: Consumer, ends: dict[Place, int]) -> None:
    """Poll until everything below `ends` was read."""
    wire = await consumer.connect()
    try:
        while any(consumer.positions[place] < end for place, end in ends.items()):
            await consumer.poll(wire)
    finally:
        wire.close()
