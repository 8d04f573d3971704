"""The fetchers of a node: one for each leader, and none when it stops."""

from __future__ import annotations

import asyncio
from typing import Any

from bifrost.replication.followers import Followers
from bifrost.replication.following_node import Address, FetchSettings, FollowingNode
from tests.unit.broker.stand_ins import on_loop, turns
from tests.unit.coordinator.led_partition import FixedClock
from tests.unit.replication.following import LEADER, ME, Following


class Void:
    """A network that drops what is sent into it."""

    def __init__(self) -> None:
        self.attempts = 0

    async def connect(self, _host: str, _port: int, _protocol: Any) -> None:
        self.attempts += 1
        await asyncio.get_running_loop().create_future()


@on_loop
async def test_a_leader_that_cannot_be_reached_does_not_keep_a_node_from_stopping() -> None:
    """A connection may be tried for replica.socket.timeout.ms: half a minute."""
    network, tasks = Void(), list[asyncio.Task[None]]()

    def spawn(work: Any, _name: str) -> asyncio.Task[None]:
        tasks.append(asyncio.ensure_future(work))
        return tasks[-1]

    node = FollowingNode(
        broker_id=ME,
        broker_epoch=lambda: 9,
        address_of=lambda _: Address("leader", 1),
        transport=network,  # type: ignore[arg-type]  # it only connects
        clock=FixedClock(),
        settings=FetchSettings(
            max_wait_ms=500, max_bytes=1 << 20, partition_max_bytes=1 << 20, pause_max_ms=1000, timeout_ms=30_000
        ),
        on_storage_error=lambda _: None,
    )
    followers, partition = Followers(node, spawn), Following().make(0)
    partition.follow(LEADER, 1, (LEADER, ME))
    followers.assign(partition)
    await turns(5)
    assert network.attempts == 1
    followers.close()
    await turns(5)
    assert [task.done() for task in tasks] == [True]
    followers.forget(partition)  # whatever comes late finds nobody, and that is fine
    followers.on_synced(partition)


@on_loop
async def test_what_comes_after_a_fetcher_has_ended_disturbs_nobody() -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    it = Following()
    it.follow()
    await turns(5)
    it.task.cancel()
    await turns(5)
    it.fetcher.forget(it.partition)
    it.fetcher.close()
    await turns(5)
    assert (it.task.cancelled(), errors) == (True, [])
