"""Tells the judge of fencing what is committed, whom controllers agree with, and what leaders acknowledge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bifrost.controller.core import partition_changes
from bifrost.controller.core.records import decode_change, encode_change, in_changes
from bifrost.protocol.batch import read_header
from bifrost.raft.metadata_log import Entry
from bifrost.replication.partition import ACKS_ALL, Partition
from tests.sim.cluster.copies import Key
from tests.sim.cluster.fencing import Asked
from tests.sim.cluster.hooks import Hooks
from tests.sim.cluster.world import ClusterWorld
from tests.sim.process import CURRENT


class WatchingFencing:
    """The shoulders, one method for each."""

    def __init__(self, world: ClusterWorld) -> None:
        self._judge = world.fencing
        self._held = world.copies.held

    def attach(self, hooks: Hooks) -> None:
        """To be attached after the copies are: what they hold has to be known here."""
        hooks.before(Partition, "lead", self.leads)
        hooks.after(Partition, "is_acknowledged", self.acknowledges)
        decide = partition_changes.alter_partitions

        def watched_decide(image: Any, wanted: Any, *, broker_id: int, broker_epoch: int) -> Any:
            decision = decide(image, wanted, broker_id=broker_id, broker_epoch=broker_epoch)
            self.decided(decision.records, wanted, broker_id, broker_epoch)
            return decision

        hooks.wrap(partition_changes, "alter_partitions", watched_decide)

    def applied(self, entry: Entry) -> None:
        """Of whichever node: it is committed, or another judge has complained."""
        value = entry.value if isinstance(entry.value, bytes) else b""
        self._judge.commits(entry.offset, value, decode_change(value) if value else ())

    def decided(self, records: Sequence[Any], wanted: Any, broker: int, broker_epoch: int) -> None:
        known = {
            (topic.topic_id.hex(), one.partition): (one.leader_epoch, one.partition_epoch)
            for topic in wanted
            for one in topic.partitions
        }
        for part in in_changes(records):
            self._judge.asks(encode_change(part), Asked(broker, broker_epoch, known))

    def leads(self, partition: Partition, epoch: int, *_: object) -> None:
        if partition.leading is None or partition.leading.epoch != epoch:
            self._judge.leads(_life(), _key(partition), epoch)

    def acknowledges(self, partition: Partition, is_safe: bool, next_offset: int, acks: int = ACKS_ALL) -> None:
        if not is_safe or acks != ACKS_ALL:
            return
        life, key = _life(), _key(partition)
        if partition.leading is not None:
            epoch = partition.leading.epoch
        else:  # it does not lead, and acknowledges: in the epoch in which that was written
            written = [one for one in self._held(life, key) if one.end_offset <= next_offset]
            epoch = read_header(written[-1].data).leader_epoch if written else 0
        self._judge.acknowledges(life, key, epoch, next_offset)


def _life() -> str:
    process = CURRENT.get()
    assert process is not None, "nodes act in their processes"
    return process.name


def _key(partition: Partition) -> Key:
    return partition.topic_id.hex(), partition.tp.partition
