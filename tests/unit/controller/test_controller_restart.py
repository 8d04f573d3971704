"""The controller on a real partition log: what was answered is there after a crash."""

from __future__ import annotations

import asyncio
from random import Random

from tests.unit.controller.stand_ins import CLUSTER, registration

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.topics import NewTopic, TopicRef
from bifrost.controller.driver import Controller
from bifrost.log.memory_disk import MemoryDisk
from bifrost.raft.solo import SoloLog
from bifrost.settings import Settings


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def open_controller(disk: MemoryDisk) -> Controller:
    log = SoloLog.open(disk, "data", Settings(), StillClock())
    return Controller(log, Settings(), Random(3), on_failure=lambda _: None)


async def live_through(controller: Controller, start: int) -> MetadataImage:
    """One life of a node; it is never closed."""
    controller.load()
    task = asyncio.ensure_future(controller.run())
    await controller.open_cluster(CLUSTER)
    epoch = await controller.register_broker(registration(1, start=start))
    await asyncio.gather(*(controller.create_topics([NewTopic(f"t{start}-{number}", 2)]) for number in range(20)))
    await controller.delete_topics([TopicRef(f"t{start}-0")])
    await controller.allocate_producer_ids(broker_id=1, broker_epoch=epoch)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return controller.image


def test_everything_answered_survives_a_crash() -> None:
    disk = MemoryDisk()
    image = MetadataImage()
    for start in range(1, 4):
        controller = open_controller(disk)
        controller.load()
        assert controller.image == image
        image = asyncio.run(live_through(open_controller(disk), start))
        assert len(image.topics) == 19 * start
        assert image.next_producer_id == 1_000 * start
    # Each start of the broker gave the partitions of earlier starts a new leader epoch.
    epochs = {name[:2]: topic.partitions[0].leader_epoch for name, topic in image.topics.items()}
    assert epochs == {"t1": 2, "t2": 1, "t3": 0}
