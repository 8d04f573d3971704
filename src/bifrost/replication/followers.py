"""The partitions that this node follows, each with the fetcher of its leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bifrost.replication.fetcher import Fetcher
from bifrost.replication.following_node import FollowingNode
from bifrost.replication.partition import Partition
from bifrost.types import NodeId

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Runs something for as long as the node does."""


class Followers:
    """One fetcher for each broker that leads something which this node follows."""

    def __init__(self, node: FollowingNode, spawn: Spawn) -> None:
        self._node = node
        self._spawn = spawn
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._fetcher_of: dict[Partition, Fetcher] = {}
        self._stopped = False

    def assign(self, partition: Partition) -> None:
        """Follow whoever leads the partition now; nobody, if this node does or there is no leader."""
        leader = partition.leader_id
        known = self._fetcher_of.get(partition)
        if partition.is_leader or leader is None or leader == self._node.broker_id or self._stopped:
            self.forget(partition)
            return
        if known is not None and known.leader_id != leader:
            self.forget(partition)
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(leader, self._node)
            self._tasks.append(self._spawn(fetcher.run(), f"fetcher of broker {leader}"))
        self._fetcher_of[partition] = fetcher
        fetcher.follow(partition)

    def forget(self, partition: Partition) -> None:
        """This node does not follow it any more."""
        fetcher = self._fetcher_of.pop(partition, None)
        if fetcher is not None:
            fetcher.forget(partition)

    def look_again(self, partition: Partition) -> None:
        """Whether its catching up is throttled may have changed."""
        fetcher = self._fetcher_of.get(partition)
        if fetcher is not None:
            fetcher.look_again(partition)

    def on_synced(self, partition: Partition) -> None:
        """Some of what was fetched is on disk."""
        fetcher = self._fetcher_of.get(partition)
        if fetcher is not None:
            fetcher.on_synced(partition)

    def on_start_stored(self, partition: Partition) -> None:
        """It is on disk where its log begins."""
        fetcher = self._fetcher_of.get(partition)
        if fetcher is not None:
            fetcher.on_start_stored(partition)

    def set_rate(self, rate: int | None, now_ms: float) -> None:
        """So many bytes a second may be fetched of partitions that are throttled; None: as many as there are."""
        if rate != self._node.budget.rate:
            self._node.budget.set_rate(rate, now_ms)
            for fetcher in self._fetchers.values():
                fetcher.on_budget_changed()

    def close(self) -> None:
        """Ends what is under way: a leader that is cut off would be tried for half a minute more. A fetcher hands
        nothing to threads, so it may end wherever it waits."""
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        for task in self._tasks:
            task.cancel()
