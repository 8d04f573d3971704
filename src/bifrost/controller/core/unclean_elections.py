"""Leaders from outside the ISR, where a topic allows it: available again, at the price of writes.

A partition is lost when no member of its ISR lives. The driver asks the replicas that do live how far their logs go,
and the one that goes furthest leads: the latest leader epoch counts first and the end offset second, as in Raft. Kafka
takes the first live replica of the assignment instead, and may lose more than it has to. The ISR becomes the new leader
alone, so that everybody else is cut back to what it has.

Nothing here happens to a partition with a leader, or to a topic without `unclean.leader.election.enable`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.records import NO_LEADER, PartitionChanged
from bifrost.controller.core.state import UNASSIGNED_DIRECTORY, Partition
from bifrost.settings import Settings, TopicConfig

_SWITCH = "unclean.leader.election.enable"


class LogEnd(NamedTuple):
    """How far a replica's log goes; the greater of two has more of what was acknowledged."""

    leader_epoch: int  # of its last batch
    end_offset: int


class LostPartition(NamedTuple):
    """A partition that waits for its live replicas to be asked how far their logs go."""

    topic_id: bytes
    topic: str
    partition: int
    partition_epoch: int
    live_replicas: tuple[int, ...]


class Survivors(NamedTuple):
    """What they answered. It counts for the state of the partition that they were asked about, and for no later one."""

    topic_id: bytes
    partition: int
    partition_epoch: int
    log_ends: Mapping[int, LogEnd]


class Recovered(NamedTuple):
    """A partition that is led again, and has perhaps lost writes."""

    topic: str
    partition: int
    leader: int
    log_end: LogEnd


def lost_partitions(image: MetadataImage, settings: Settings) -> list[LostPartition]:
    """The partitions that wait for an unclean election, and whom to ask."""
    live = image.active_brokers()
    defaults = current_settings(image, settings)
    allowed: dict[bytes, bool] = {}
    lost = []
    for topic, partition, state in image.locate(image.index.led(NO_LEADER)):
        if topic.topic_id not in allowed:
            allowed[topic.topic_id] = allows_unclean(image, defaults, topic.name)
        survivors = tuple(broker for broker in state.replicas if broker in live)
        if survivors and allowed[topic.topic_id]:
            lost.append(LostPartition(topic.topic_id, topic.name, partition, state.partition_epoch, survivors))
    return lost


def recover_partitions(
    image: MetadataImage, settings: Settings, answers: Sequence[Survivors]
) -> Decision[list[Recovered]]:
    """Let the survivor that has most lead each partition that is still as lost as when they were asked."""
    live = image.active_brokers()
    defaults = current_settings(image, settings)
    changes: dict[tuple[bytes, int], PartitionChanged] = {}
    recovered = []
    for topic_id, partition, partition_epoch, log_ends in answers:
        topic = image.topics_by_id.get(topic_id)
        if topic is None or not 0 <= partition < len(topic.partitions) or (topic_id, partition) in changes:
            continue
        state = topic.partitions[partition]
        leader = longest_log(state, live, log_ends)
        if (
            state.has_leader
            or state.partition_epoch != partition_epoch
            or leader == NO_LEADER
            or not allows_unclean(image, defaults, topic.name)
        ):
            continue
        changes[topic_id, partition] = unclean_leader(image, Located(topic, partition, state), leader)
        recovered.append(Recovered(topic.name, partition, leader, log_ends[leader]))
    return Decision([*changes.values()], recovered)


def unclean_leader(image: MetadataImage, located: Located, leader: int) -> PartitionChanged:
    """This replica leads, and is alone in sync. It may have a new log where its old one is lost: then it has yet to say
    where that is."""
    topic, partition, state = located
    directories = None
    if not image.brokers[leader].has_online(state.directory_of(leader)):
        directories = tuple(
            UNASSIGNED_DIRECTORY if broker == leader else state.directory_of(broker) for broker in state.replicas
        )
    return PartitionChanged(topic.topic_id, partition, leader=leader, isr=(leader,), directories=directories)


def longest_log(state: Partition, live: Container[int], log_ends: Mapping[int, LogEnd]) -> int:
    """The live replica whose log goes furthest, of equals the first of the assignment; NO_LEADER if none answered."""
    answered = (broker for broker in state.replicas if broker in live and broker in log_ends)
    return max(answered, key=log_ends.__getitem__, default=NO_LEADER)


def allows_unclean(image: MetadataImage, defaults: Settings, topic: str) -> bool:
    """Whether the topic prefers a leader to its writes; `defaults` are the settings as they stand."""
    configs = image.topic_configs(topic)
    if _SWITCH not in configs:
        return defaults.unclean_leader_election_enable
    return TopicConfig.of(defaults).override(configs).unclean_leader_election_enable
