"""The group coordinator of one node: a shard for every partition of `__consumer_offsets` that the node leads.

Shards come with elections and go with resignations. Between an election and the end of loading, requests are refused
with COORDINATOR_LOAD_IN_PROGRESS; small partitions are loaded before large ones. One timer serves the deadlines of all
shards.

This file decides nothing about groups: the cores do, synchronously, and what they append is told only when it is safe
(`journal`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from random import Random
from typing import TypeVar
from uuid import UUID

from bifrost.clock import Clock
from bifrost.coordinator.core.deadlines import Deadlines
from bifrost.coordinator.core.environment import Environment, Respond, Topics
from bifrost.coordinator.core.records import UnreadableRecordError
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.coordinator.core.shard import GroupShard, OffsetSettings
from bifrost.coordinator.journal import Answer, Journal, Waiters
from bifrost.coordinator.loading import LeadershipLostError, Loading
from bifrost.coordinator.router import OFFSETS_TOPIC, partition_for
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.compression import Codec
from bifrost.replication.partition import Partition
from bifrost.settings import Settings

_log = logging.getLogger(__name__)

R = TypeVar("R")

_NEVER = inf

Question = Callable[[GroupShard, Respond[R]], None]
"""What is asked of a shard; the answer may come at once or later."""


class _State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


@dataclass(slots=True, eq=False)
class _Led:
    """A partition that this node leads."""

    partition: Partition
    journal: Journal
    core: GroupShard
    deadlines: Deadlines
    state: _State = _State.LOADING
    next_ms: float = _NEVER
    """When something of it may be due."""


class GroupCoordinator:
    """Finds the shard of a group, or says why not."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        waiters: Waiters,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: Random,
        on_storage_error: Callable[[StorageError], None],
        configs_of: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._configs_of = configs_of
        self._settings = settings
        self._group_settings = group_settings(settings)
        self._offset_settings = OffsetSettings(
            metadata_max=settings.offset_metadata_max_bytes,
            retention_ms=settings.offsets_retention_ms,
            retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        )
        self._topics = topics
        self._waiters = waiters
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._on_storage_error = on_storage_error
        self._led: dict[int, _Led] = {}
        self._to_load: dict[_Led, None] = {}
        self._something_to_load = asyncio.Event()
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms: float = _NEVER

    # What the broker's requests need.

    def ask(self, group_id: str, question: Question[R]) -> R | asyncio.Future[R]:
        """The answer if it is there at once, else a future; `ApiError` if the group is not to be found here."""
        return self._ask(self._find(group_id), question)

    async def ask_each(
        self,
        group_ids: Iterable[str],
        question: Callable[[str], Question[R]],
        refused: Callable[[str, ApiError], R],
    ) -> list[R]:
        """One answer for each group; all are asked before the first is waited for."""
        parts: list[tuple[str, R | asyncio.Future[R]]] = []
        for group_id in group_ids:
            try:
                parts.append((group_id, self.ask(group_id, question(group_id))))
            except ApiError as error:
                parts.append((group_id, refused(group_id, error)))
        answers = []
        for group_id, part in parts:
            try:
                answers.append(await part if isinstance(part, asyncio.Future) else part)
            except ApiError as error:
                answers.append(refused(group_id, error))
        return answers

    async def ask_all(self, question: Question[R]) -> list[R]:
        """The answer of every shard; `ApiError` if one of them is still being loaded."""
        led = [one for one in list(self._led.values()) if self._is_led(one) and one.state is not _State.FAILED]
        for one in led:
            _check_loaded(one)
        parts = [self._ask(one, question) for one in led]
        return [await part if isinstance(part, asyncio.Future) else part for part in parts]

    # What happens to the node's partitions.

    def elected(self, partition: Partition) -> None:
        """This node leads the partition; nothing new if the leader epoch is the same."""
        index, epoch = partition.tp.partition, partition.leader.epoch
        known = self._led.get(index)
        if known is not None and known.partition is partition and known.journal.epoch == epoch:
            return
        self.resigned(index)
        journal = Journal(
            partition,
            self._waiters,
            loop=self._loop,
            clock=self._clock,
            codec=Codec(self._settings.offsets_topic_compression_codec),
            timeout_ms=self._settings.offsets_commit_timeout_ms,
            on_storage_error=self._on_storage_error,
        )
        deadlines = Deadlines()
        environment = Environment(
            journal=journal,
            deadlines=deadlines,
            topics=self._topics,
            monotonic_ms=self._monotonic_ms,
            now_ms=self._clock.now_ms,
            new_id=self._new_id,
            configs_of=self._configs_of,
        )
        core = GroupShard(environment, self._group_settings, self._offset_settings)
        led = self._led[index] = _Led(partition, journal, core, deadlines)
        if partition.log.log_start_offset == partition.log.log_end_offset:
            self._activate(led)
        else:
            self._to_load[led] = None
            self._something_to_load.set()

    def resigned(self, index: int) -> None:
        """This node does not lead the partition any more, or not in the same epoch."""
        led = self._led.pop(index, None)
        if led is None:
            return
        self._to_load.pop(led, None)
        led.journal.close()
        led.core.unload()
        _log.debug("groups unloaded partition=%d", index)

    def drop_lost(self) -> None:
        """A log directory went offline: leaderships may be lost without an election."""
        for led in list(self._led.values()):
            self._is_led(led)

    def topics_changed(self, changed: Collection[str], deleted: Collection[str]) -> None:
        """Topics were created, deleted or got more partitions."""
        for led in self._active():
            try:
                if deleted:
                    led.core.topics_deleted(deleted)
                led.core.consumer.on_topics_changed((*changed, *deleted))
            except ApiError as error:
                _log.warning("offsets of deleted topics stay partition=%s error=%s", led.partition.tp, error)
            self._look_at(led)

    async def run(self) -> None:
        """Load what there is to load, until `close`."""
        while not self._closed:
            if self._to_load:
                led = min(self._to_load, key=lambda one: one.partition.log.size_bytes)
                del self._to_load[led]
                await self._load(led)
            else:
                self._something_to_load.clear()
                await self._something_to_load.wait()

    def close(self) -> None:
        """The node stops; nothing is written any more."""
        self._closed = True
        self._something_to_load.set()
        if self._timer is not None:
            self._timer.cancel()
        for index in list(self._led):
            self.resigned(index)

    # Inside.

    def _find(self, group_id: str) -> _Led:
        count = self._topics.partitions(OFFSETS_TOPIC)
        led = None if count is None else self._led.get(partition_for(group_id, count))
        if led is None or led.state is _State.FAILED or not self._is_led(led):
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"group {group_id} is not coordinated here")
        _check_loaded(led)
        return led

    def _is_led(self, led: _Led) -> bool:
        """A failed disk takes the leadership away without an election."""
        partition = led.partition
        if partition.is_leader and partition.leader.epoch == led.journal.epoch:
            return True
        if self._led.get(partition.tp.partition) is led:
            self.resigned(partition.tp.partition)
        return False

    def _ask(self, led: _Led, question: Question[R]) -> R | asyncio.Future[R]:
        answer: Answer[R] = Answer(led.journal)
        try:
            question(led.core, answer)
        finally:
            self._look_at(led)
        return answer.outcome.result() if answer.outcome.done() else answer.outcome

    async def _load(self, led: _Led) -> None:
        started = self._loop.time()
        loading = Loading(led.partition, led.core, buffer_bytes=self._settings.offsets_load_buffer_size)
        try:
            loaded = await loading.run()
        except LeadershipLostError:
            return
        except (ApiError, StorageError, CorruptBatchError, UnreadableRecordError) as error:
            led.state = _State.FAILED
            _log.error("groups not loaded partition=%s error=%r", led.partition.tp, error)
            return
        if self._led.get(led.partition.tp.partition) is not led:
            return
        if loaded.open_transactions:
            _log.warning(
                "offsets of open transactions left out partition=%s count=%d",
                led.partition.tp,
                loaded.open_transactions,
            )
        self._activate(led)
        duration_ms = (self._loop.time() - started) * 1000
        _log.info(
            "groups loaded partition=%s records=%d groups=%d offsets=%d duration_ms=%.0f",
            *(led.partition.tp, loaded.records, len(led.core.groups), len(led.core.committed), duration_ms),
        )

    def _activate(self, led: _Led) -> None:
        led.state = _State.ACTIVE
        interval_ms = self._settings.offsets_retention_check_interval_ms
        share = led.partition.tp.partition / (self._topics.partitions(OFFSETS_TOPIC) or 1)
        led.core.loaded(retention_delay_ms=int(interval_ms * share))
        self._look_at(led)

    def _active(self) -> Iterator[_Led]:
        return (led for led in list(self._led.values()) if led.state is _State.ACTIVE and self._is_led(led))

    def _look_at(self, led: _Led) -> None:
        """Wake up in time for the shard's next deadline."""
        next_ms = led.deadlines.next_ms()
        led.next_ms = _NEVER if next_ms is None else next_ms
        if led.next_ms < self._timer_at_ms:
            self._set_timer(led.next_ms)

    def _set_timer(self, at_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        idle = self._closed or at_ms == _NEVER
        self._timer = None if idle else self._loop.call_at(at_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        """Who lives puts its deadline off, so mostly there is nothing to do but to find out when the next one is."""
        now_ms = self._monotonic_ms()
        try:
            for led in [one for one in self._led.values() if one.next_ms <= now_ms]:
                self._run_deadlines(led, now_ms)
        finally:
            self._set_timer(min((led.next_ms for led in self._led.values()), default=_NEVER))

    def _run_deadlines(self, led: _Led, now_ms: int) -> None:
        if not self._is_led(led):
            return
        try:
            led.deadlines.run(now_ms)
        except ApiError as error:
            _log.warning("change of a group not written partition=%s error=%s", led.partition.tp, error)
        next_ms = led.deadlines.next_ms()
        led.next_ms = _NEVER if next_ms is None else next_ms

    def _monotonic_ms(self) -> int:
        """Rounded, and not cut: when the timer fires, its deadline has come."""
        return round(self._loop.time() * 1000)

    def _new_id(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))


def _check_loaded(led: _Led) -> None:
    if led.state is _State.LOADING:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{led.partition.tp} is being loaded")


def group_settings(settings: Settings) -> GroupSettings:
    """What of the broker's settings concerns groups."""
    return GroupSettings(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
        consumer_assignors=settings.group_consumer_assignors,
        consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        consumer_regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
    )
