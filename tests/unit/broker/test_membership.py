"""How long a broker waits for a controller that does not answer, and what waits behind what."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from bifrost.broker.membership import membership, replication_channel
from bifrost.protocol.codec import writer
from bifrost.protocol.frame import encode_request
from bifrost.protocol.messages.replicas import AlterPartitionRequest
from bifrost.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from bifrost.settings import parse_settings
from tests.loop_cluster import BROKERS, LoopCluster
from tests.sim.loop import SimLoop
from tests.unit.broker.stand_ins import on_loop
from tests.unit.broker.test_odin import NoWayThere, Watching


@on_loop
async def test_a_busy_controller_has_half_a_session_and_there_is_another_half_to_be_heard_by_another() -> None:
    """Not the patience of voters with each other: brokers hung up on a controller that had more to do than that."""
    settings, _ = parse_settings({"broker.session.timeout.ms": "9000", "controller.quorum.request.timeout.ms": "2000"})
    odin = Watching().odin
    heartbeats, _ = membership(settings, odin, NoWayThere(), Random(1))
    for channel in (heartbeats, replication_channel(settings, odin, NoWayThere())):
        assert channel._patience_s == 4.5


def test_a_change_of_isrs_waits_behind_nothing_that_clients_ask_for() -> None:
    """A controller works on one request of a connection at a time, and some take long."""
    loop = SimLoop(Random(1))

    async def story() -> None:
        cluster = LoopCluster(loop)
        await cluster.start()
        (odin,) = [one.node._odin for number, one in cluster.machines.items() if number >= BROKERS]
        broker = cluster.machines[0].node
        assert odin is not None and broker._replication is not None and broker._lifecycle is not None
        has_begun = asyncio.Event()

        async def hang(*_: Any, **__: Any) -> Any:
            has_begun.set()
            await asyncio.Event().wait()

        odin.controller.create_topics = hang  # type: ignore[method-assign]
        client = await cluster.connect(0)
        create = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        body = writer(CreateTopicsRequest, 5)(create)
        hung = asyncio.ensure_future(client.ask(encode_request(19, 5, 0, "client", body)))
        await has_begun.wait()
        change = AlterPartitionRequest(broker_id=0, broker_epoch=broker._lifecycle.epoch, topics=[])
        answer = await asyncio.wait_for(broker._replication._isr_changes._ask(change), 1)
        assert answer.error_code == 0
        hung.cancel()
        await cluster.stop()

    try:
        loop.run_until_complete(story())
    finally:
        loop.hands.close()
        loop.close()
