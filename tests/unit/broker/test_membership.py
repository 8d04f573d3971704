"""How long a broker waits for a controller that does not answer, and what waits behind what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from bifrost.broker.membership import membership, replication_channel
from bifrost.broker.node import Node
from bifrost.broker.odin import Odin
from bifrost.clock import SystemClock
from bifrost.controller.core.brokers import Registration
from bifrost.controller.core.heartbeats import Heartbeat
from bifrost.errors import ApiError, ErrorCode
from bifrost.log.memory_disk import MemoryDisk
from bifrost.peers.retries import Retries
from bifrost.peers.transport import TcpTransport
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


def _play(story: Callable[[LoopCluster], Awaitable[None]]) -> None:
    """On three brokers and a controller, in virtual time."""
    loop = SimLoop(Random(1))

    async def whole() -> None:
        cluster = LoopCluster(loop)
        await cluster.start()
        await asyncio.wait_for(story(cluster), 60)
        await cluster.stop()

    try:
        loop.run_until_complete(whole())
    finally:
        loop.hands.close()
        loop.close()


def _odin_of(cluster: LoopCluster) -> Odin:
    (odin,) = [one.node._odin for number, one in cluster.machines.items() if number >= BROKERS]
    assert odin is not None
    return odin


def test_a_change_of_isrs_waits_behind_nothing_that_clients_ask_for() -> None:
    """A controller works on one request of a connection at a time, and some take long."""

    async def story(cluster: LoopCluster) -> None:
        broker = cluster.machines[0].node
        assert broker._replication is not None
        assert broker._lifecycle is not None
        has_begun = asyncio.Event()

        async def hang(*_: Any, **__: Any) -> Any:
            has_begun.set()
            await asyncio.Event().wait()

        _odin_of(cluster).controller.create_topics = hang  # type: ignore[method-assign]
        client = await cluster.connect(0)
        create = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        body = writer(CreateTopicsRequest, 5)(create)
        hung = asyncio.ensure_future(client.ask(encode_request(19, 5, 0, "client", body)))
        await has_begun.wait()
        change = AlterPartitionRequest(broker_id=0, broker_epoch=broker._lifecycle.epoch, topics=[])
        answer = await asyncio.wait_for(broker._replication._isr_changes._ask(change), 1)
        assert answer.error_code == 0
        hung.cancel()

    _play(story)


def test_a_broker_that_is_unregistered_while_it_runs_comes_back_with_another_epoch_and_takes_part() -> None:
    """It said for ever, twenty times a second, that its epoch was over."""

    async def story(cluster: LoopCluster) -> None:
        odin, broker = _odin_of(cluster), cluster.machines[0].node
        assert broker._lifecycle is not None
        epoch = broker._lifecycle.epoch
        await odin.controller.unregister_broker(0)
        await odin.until(lambda image: 0 in image.brokers and not image.brokers[0].fenced)
        assert broker._lifecycle.epoch == odin.replica.image.brokers[0].epoch > epoch

    _play(story)


def test_a_broker_whose_id_another_process_has_taken_stops_and_says_why() -> None:
    async def story(cluster: LoopCluster) -> None:
        odin, broker = _odin_of(cluster), cluster.machines[0].node
        assert broker._lifecycle is not None
        image, has_asked, may_fail = odin.replica.image, asyncio.Event(), asyncio.Event()

        async def hang(*_: Any, **__: Any) -> Any:
            has_asked.set()
            await may_fail.wait()
            raise ApiError(ErrorCode.NOT_CONTROLLER)

        broker._lifecycle._channel.ask = hang  # type: ignore[method-assign]
        await has_asked.wait()
        await odin.controller.unregister_broker(0)
        where = image.brokers[1].endpoints
        double = Registration(broker_id=0, cluster_id=image.cluster_id or "", incarnation=bytes(16), endpoints=where)
        epoch = await odin.register(double)
        await odin.heartbeat(Heartbeat(broker_id=0, broker_epoch=epoch, metadata_offset=epoch), None)
        assert not image.brokers[0].fenced
        may_fail.set()
        with pytest.raises(ApiError, match="another process has registered as broker 0"):
            await cluster.machines.pop(0).process.spawn(broker.run_until_stopped())

    _play(story)


def test_the_only_broker_comes_back_when_it_is_unregistered() -> None:
    """It is the whole quorum, and sends no heartbeats that would be refused."""

    async def story() -> None:
        settings, _ = parse_settings({"log.dirs": "/data", "listeners": "PLAINTEXT://localhost:0"})
        node = Node(settings, disk=MemoryDisk(), clock=SystemClock(), rng=Random(1), transport=TcpTransport())
        await node.start()
        assert node._odin is not None
        await node._odin.controller.unregister_broker(settings.node_id)
        await asyncio.wait_for(node._odin.until(lambda image: settings.node_id in image.brokers), 10)
        node.request_stop()
        await node.run_until_stopped()

    asyncio.run(story())


def test_what_is_refused_again_and_again_is_told_once_and_tried_less_and_less_often() -> None:
    retries = Retries(0.05, 1.0)
    stale, away = ApiError(ErrorCode.STALE_BROKER_EPOCH), ApiError(ErrorCode.NOT_CONTROLLER)
    assert [retries.is_news(error) for error in (stale, stale, away, stale)] == [True, False, True, False]
    assert [retries.pause_s() for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    retries.succeeded()
    assert retries.is_news(stale)
    assert retries.pause_s() == 0.05


def test_the_log_does_not_fill_with_a_refusal_that_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: LoopCluster) -> None:
        broker = cluster.machines[0].node
        assert broker._lifecycle is not None
        asked = 0

        async def refuse(*_: Any, **__: Any) -> Any:
            nonlocal asked
            asked += 1
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)

        broker._lifecycle._channel.ask = refuse  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert 5 < asked < 25
        assert len([one for one in caplog.messages if "heartbeat failed" in one]) == 1

    _play(story)
