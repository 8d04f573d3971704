"""The controller on a real partition log: what was answered is there after a crash."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

from tests.unit.broker.stand_ins import until
from tests.unit.controller.stand_ins import CLUSTER, registration

from bifrost.broker.odin import Odin
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.topics import NewTopic, TopicRef
from bifrost.log.memory_disk import MemoryDisk
from bifrost.metrics import Metrics
from bifrost.peers.transport import TcpTransport
from bifrost.settings import Settings


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


async def live_through(disk: MemoryDisk, start: int) -> tuple[MetadataImage, MetadataImage]:
    """One life of a node, which is never closed: what it found, and what it left."""
    odin = Odin.open(
        Settings(),
        disk,
        transport=TcpTransport(),
        clock=StillClock(),
        rng=Random(3),
        metrics=Metrics(),
        on_failure=lambda _: None,
    )
    odin.start()
    task = asyncio.ensure_future(odin.run())
    controller = odin.controller
    while not controller.is_active:
        await odin.member.changed()
    found = controller.image.copy()
    await controller.open_cluster(CLUSTER)
    epoch = await odin.register(registration(1, start=start))
    await asyncio.gather(*(controller.create_topics([NewTopic(f"t{start}-{number}", 2)]) for number in range(20)))
    await controller.delete_topics([TopicRef(f"t{start}-0")])
    await controller.allocate_producer_ids(broker_id=1, broker_epoch=epoch)
    task.cancel()
    await odin.member.stop(clean=False)
    return found, controller.image


def test_everything_answered_survives_a_crash() -> None:
    disk = MemoryDisk()
    image = MetadataImage()
    for start in range(1, 4):
        found, image_then = asyncio.run(live_through(disk, start))
        assert found == image
        image = image_then
        assert len(image.topics) == 19 * start
        assert image.next_producer_id == 1_000 * start
    # Each start of the broker gave the partitions of earlier starts a new leader epoch.
    epochs = {name[:2]: topic.partitions[0].leader_epoch for name, topic in image.topics.items()}
    assert epochs == {"t1": 2, "t2": 1, "t3": 0}


def test_a_snapshot_ends_where_a_batch_does() -> None:
    """Whoever begins with it asks for what follows, and is sent whole batches."""

    async def run() -> None:
        odin = Odin.open(
            replace(Settings(), metadata_log_max_record_bytes_between_snapshots=1),
            MemoryDisk(),
            transport=TcpTransport(),
            clock=StillClock(),
            rng=Random(3),
            metrics=Metrics(),
            on_failure=lambda _: None,
        )
        taken: set[int] = set()
        add = odin.member.storage.snapshots.add
        odin.member.storage.snapshots.add = lambda one: (taken.add(one.end_offset), add(one))[1]  # type: ignore[method-assign, func-returns-value]
        odin.start()
        task = asyncio.ensure_future(odin.run())
        while not odin.controller.is_active:
            await odin.member.changed()
        await odin.controller.open_cluster(CLUSTER)
        await odin.register(registration(1))
        ends = {odin.member.end_offset}
        for request in range(5):
            topics = [NewTopic(f"t{request}-{number}", 1) for number in range(300)]
            await odin.controller.create_topics(topics)
            ends.add(odin.member.end_offset)
            await until(lambda: bool(taken & {max(ends)}))
        assert ends >= {end for end in taken if end > min(ends)}, "some began within a request"
        task.cancel()
        await odin.member.stop(clean=False)

    asyncio.run(run())
