"""Elections that somebody asks for (ElectLeaders), and the rebalancing that brings leaders home now and then.

Whoever is first in an assignment should lead: that is how placement spreads the load. A broker that was away leads
nothing when it comes back, until one of the two here gives it back what was its own. Results and their order are those
of Kafka's ReplicationControlManager.electLeaders.

Deciding reads the image and changes nothing; only what is not led as asked is looked at, unless it is named.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from bifrost.controller.core.decision import Decision
from bifrost.controller.core.elections import electable, new_leader
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.records import NO_LEADER, PartitionChanged
from bifrost.controller.core.unclean_elections import LogEnd, longest_log, unclean_leader
from bifrost.errors import ApiError, ErrorCode

LogEnds = Mapping[tuple[bytes, int], Mapping[int, LogEnd]]
"""How far logs go, by topic id and partition, then by broker."""

_NO_ANSWERS: LogEnds = {}


class ElectionType(IntEnum):
    """The numbers are those of the wire (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionResult(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def elect_leaders(
    image: MetadataImage,
    election_type: int,
    wanted: Sequence[tuple[str, int]] | None,
    *,
    log_ends: LogEnds = _NO_ANSWERS,
) -> Decision[list[ElectionResult]]:
    """Elect for the partitions that are named, or for all: then those that need no election are not mentioned.

    `log_ends` tells how far the logs of lost partitions go, by topic id, partition and broker. Where it tells nothing,
    an unclean election takes the first live replica, as Kafka does; that it was asked for is consent.
    """
    if election_type not in ElectionType.__members__.values():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no election of type {election_type}")
    live = image.active_brokers()
    changes: list[PartitionChanged] = []
    results: dict[tuple[str, int], ElectionResult] = {}
    for name, partition in _candidates(image, election_type) if wanted is None else wanted:
        if (name, partition) in results:
            continue
        try:
            located = _find(image, name, partition)
            if election_type == ElectionType.PREFERRED:
                changes.append(_elect_preferred(located, electable(image, located.state, live)))
            else:
                answers = log_ends.get((located.topic.topic_id, partition), {})
                changes.append(_elect_uncleanly(image, located, live, answers))
            results[name, partition] = ElectionResult(name, partition)
        except ApiError as error:
            results[name, partition] = ElectionResult(name, partition, error.code, error.detail or None)
    return Decision(changes, list(results.values()))


def rebalance_leaders(image: MetadataImage, *, imbalance_percentage: int, elections_max: int) -> Decision[bool]:
    """Give leaderships back to brokers that lack more than this share of those that should be theirs.

    At most so many at a time; the result says whether to ask again at once. The share is what
    `leader.imbalance.per.broker.percentage` was until Kafka 3. With 0 every leader goes home, as in Kafka 4.
    """
    changes: list[PartitionChanged] = []
    for broker_id in sorted(image.active_brokers()):
        missing = image.index.not_led(broker_id)
        count = sum(bits.bit_count() for bits in missing.values())
        if count * 100 <= imbalance_percentage * image.index.preferred.get(broker_id, 0):
            continue
        in_sync = image.index.in_sync(broker_id)
        waiting = {topic_id: bits & in_sync.get(topic_id, 0) for topic_id, bits in missing.items()}
        broker = image.brokers[broker_id]
        for located in image.locate(waiting):
            if not broker.has_online(located.state.directory_of(broker_id)):
                continue
            if len(changes) == elections_max:
                return Decision(changes, True)
            changes.append(new_leader(located, broker_id))
    return Decision(changes, False)


def _candidates(image: MetadataImage, election_type: int) -> Iterator[tuple[str, int]]:
    """Every partition that such an election could do something about."""
    if election_type == ElectionType.UNCLEAN:
        tables = [image.index.led(NO_LEADER)]
    else:
        tables = [image.index.not_led(broker_id) for broker_id in sorted(image.index.preferred)]
    for bits in tables:
        for topic, partition, _ in image.locate(bits):
            yield topic.name, partition


def _find(image: MetadataImage, name: str, partition: int) -> Located:
    state = image.partition(name, partition)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{partition}")
    return Located(image.topics[name], partition, state)


def _elect_preferred(located: Located, live: Container[int]) -> PartitionChanged:
    state = located.state
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred} leads already")
    if preferred not in live or preferred not in state.isr:
        problem = "not in sync" if preferred in live else "not available"
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} is {problem}")
    return new_leader(located, preferred)


def _elect_uncleanly(
    image: MetadataImage, located: Located, live: frozenset[int], log_ends: Mapping[int, LogEnd]
) -> PartitionChanged:
    state = located.state
    if state.has_leader:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {state.leader} leads")
    leader = longest_log(state, live, log_ends)
    if leader == NO_LEADER:
        sound = electable(image, state, live)
        leader = next((broker for broker in state.replicas if broker in sound), NO_LEADER)
    if leader == NO_LEADER:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is available")
    return unclean_leader(image, located, leader)
