"""Bugs to plant into replication: each breaks one promise about the copies of a partition (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from bifrost.broker import produce_answer
from bifrost.broker.handlers import offsets
from bifrost.controller.core import elections, partition_changes
from bifrost.controller.core import state as metadata
from bifrost.controller.core.records import NO_LEADER
from bifrost.log.slices import LogSlice
from bifrost.protocol.produce import ProduceRequest, ProduceResponse
from bifrost.replication.core.leader import Effects, PartitionLeader
from bifrost.replication.partition import ACKS_ALL, Partition

Plant = AbstractContextManager[Any]


def fetch_before_sync() -> Plant:
    """A follower asks for what comes next, which says that it holds the rest, before that is on its disk."""
    return patch.object(Partition, "is_synced", property(lambda self: True))


def count_unsynced() -> Plant:
    """A leader counts itself by what it has written, synced or not."""
    on_append = PartitionLeader.on_append

    def hasty(self: PartitionLeader, log_end_offset: int, durable_offset: int) -> Effects:
        return on_append(self, log_end_offset, log_end_offset)

    return patch.object(PartitionLeader, "on_append", hasty)


def keep_diverging_copies() -> Plant:
    """A leader does not look where a follower's history leaves its own."""
    return patch.object(Partition, "diverging_epoch", lambda self, last_fetched_epoch, fetch_offset: None)


def shrink_before_agreed() -> Plant:
    """A leader stops counting a late replica at once; in the ISR, from which leaders come, it is until later."""

    def recount(self: PartitionLeader) -> None:
        counted = self.isr if self._pending is None else self._pending
        self._counted = tuple(one for broker, one in self.followers.items() if broker in counted or one.is_joining)

    return patch.object(PartitionLeader, "_recount", recount)


def truncate_to_high_watermark() -> Plant:
    """Who begins to follow cuts its log to what it knows to be committed, as Kafka once did (KIP-101 tells why not)."""
    follow = Partition.follow

    def cautious(self: Partition, leader_id: Any, epoch: int, replicas: Any) -> None:
        follow(self, leader_id, epoch, replicas)
        self.truncate_to(self.high_watermark, epoch, 0)

    return patch.object(Partition, "follow", cautious)


def relay_before_committed() -> Plant:
    """A broker that passes a write on asks for the leader's word alone, whatever its client wanted."""
    ask = produce_answer.ask_elsewhere

    def hasty(
        broker: Any, connection: Any, header: Any, request: ProduceRequest, *parts: Any
    ) -> Awaitable[ProduceResponse]:
        return ask(broker, connection, header, msgspec.structs.replace(request, acks=1), *parts)

    return patch.object(produce_answer, "ask_elsewhere", hasty)


def elect_anybody() -> Plant:
    """A controller takes any live replica for the next leader."""

    def elected(state: metadata.Partition, isr: Collection[int], live: Container[int]) -> int:
        return next((broker for broker in reversed(state.replicas) if broker in live), NO_LEADER)

    return patch.object(elections, "elected", elected)


def tell_unknown_end() -> Plant:
    """A new leader tells where the log ends before it knows how far others had committed it."""
    return patch.object(offsets, "_check_end_is_known", lambda ctx, partition, end: None)


def show_everything() -> Plant:
    """Consumers are given what is not committed yet."""

    def read(
        self: Partition, offset: int, max_bytes: int, *, committed_only: bool, min_one_batch: bool
    ) -> LogSlice | None:
        return self.log.read(offset, max_bytes, end_offset=self.log.log_end_offset, min_one_batch=min_one_batch)

    return patch.object(Partition, "read", read)


def promise_when_deposed() -> Plant:
    """A broker that hears that it was fenced, or that another one leads, tells those who wait that all went well."""
    is_acknowledged = Partition.is_acknowledged

    def polite(self: Partition, next_offset: int, acks: int = ACKS_ALL) -> bool:
        return not self.is_leader or is_acknowledged(self, next_offset, acks)

    return patch.object(Partition, "is_acknowledged", polite)


@contextmanager
def agree_with_anybody() -> Iterator[None]:
    """A controller takes any ISR from anybody: from who leads no more, and from an earlier start of a broker."""
    with (
        patch.object(partition_changes, "check_registered", lambda image, *, broker_id, broker_epoch: None),
        patch.object(partition_changes, "_check_epochs", lambda state, asked, broker_id: None),
        patch.object(partition_changes, "_check_isr", lambda image, state, asked: None),
    ):
        yield


def take_old_isrs() -> Plant:
    """A controller takes what a leader asked for before the ISR was changed, if it still leads in the same epoch."""
    check = partition_changes._check_epochs

    def lenient(state: metadata.Partition, asked: partition_changes.IsrChange, broker_id: int) -> None:
        known = min(asked.partition_epoch, state.partition_epoch)
        check(msgspec.structs.replace(state, partition_epoch=known), asked, broker_id)

    return patch.object(partition_changes, "_check_epochs", lenient)
