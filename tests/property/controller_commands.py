"""Commands for a controller: everything that can be decided, with arguments good and bad, for Hypothesis to draw from.

A command is given the image and a number that nobody else has, from which fresh ids are made. What a good request must
know of the image, such as epochs, it reads there, and sometimes gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from bifrost.controller.core.brokers import register_broker, unregister_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.config_changes import ConfigChange, ResourceChange, alter_configs
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.directories import Assigned, assign_directories
from bifrost.controller.core.elect_leaders import elect_leaders, rebalance_leaders
from bifrost.controller.core.heartbeats import BrokerStart, Heartbeat, fence_broker, heartbeat
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.partition_changes import IsrChange, IsrMember, TopicIsrChanges, alter_partitions
from bifrost.controller.core.partitions import MorePartitions, create_partitions
from bifrost.controller.core.producer_ids import allocate_producer_ids
from bifrost.controller.core.reassignments import TopicMoves, WantedMove, alter_reassignments
from bifrost.controller.core.topics import NewTopic, TopicRef, create_topics, delete_topics
from bifrost.controller.core.unclean_elections import LogEnd, Survivors, lost_partitions, recover_partitions
from bifrost.settings import Settings
from tests.unit.controller.stand_ins import CLUSTER, directory_of, registration, topic_id

Command = Callable[[MetadataImage, int], Decision[Any]]

SETTINGS = Settings(num_partitions=2, default_replication_factor=1)
ALL_NAMES = ["a", "b", "c.d", "c_d", "bad name"]
ALL_BROKERS = range(4)  # 0 to 2 are there from the start
NAMES = st.sampled_from(ALL_NAMES)
BROKERS = st.sampled_from(ALL_BROKERS)
SELDOM = st.sampled_from([False, False, False, True])
COUNTS = st.sampled_from([1, 2, 3, -1, 1, 2, 3, 1, 2, 3, 0, 4, -2])
GOOD_CONFIGS = [("retention.ms", "1"), ("segment.bytes", "2000000"), ("unclean.leader.election.enable", "true")]
BAD_CONFIGS = [("nope", "1"), ("preallocate", None)]
CONFIGS = st.sampled_from([[], [], *([one] for one in [*GOOD_CONFIGS, *BAD_CONFIGS])])
REPLICAS = st.permutations(range(3)).map(lambda order: order[:2]) | st.lists(BROKERS, max_size=3)
PLACED = st.builds(NewTopic, NAMES, COUNTS, COUNTS, st.just(()), CONFIGS)
ASSIGNED = st.builds(
    lambda name, replicas, configs: NewTopic(name, assignments=list(enumerate(replicas)), configs=configs),
    NAMES,
    st.lists(REPLICAS, min_size=1, max_size=3),
    CONFIGS,
)
NEW_TOPICS = st.lists(st.one_of(PLACED, PLACED, ASSIGNED), min_size=1, max_size=4, unique_by=lambda topic: topic.name)
REFS = st.lists(
    NAMES.map(TopicRef) | st.integers(0, 99).map(lambda number: TopicRef(None, topic_id(number))),
    min_size=1,
    max_size=3,
)
MORE = st.lists(
    st.builds(MorePartitions, NAMES, COUNTS, st.none() | st.lists(REPLICAS, max_size=3)), min_size=1, max_size=3
)
RESOURCES = NAMES.map(lambda name: (2, name)) | st.sampled_from([(4, ""), (4, "1"), (4, "2"), (32, "g")])
CONFIG_CHANGES = st.builds(
    ConfigChange,
    st.sampled_from(["cleanup.policy", "retention.ms", "message.max.bytes", "log.cleanup.policy", "nope"]),
    st.sampled_from(["7", "8", "compact", "delete", "compact,delete", "", None]),
    st.integers(0, 4),
)
ALTERATIONS = st.lists(
    st.builds(
        lambda resource, changes: ResourceChange(*resource, changes), RESOURCES, st.lists(CONFIG_CHANGES, max_size=3)
    ),
    min_size=1,
    max_size=3,
)


def creating(topics: list[NewTopic], validate_only: bool) -> Command:
    def decide(image: MetadataImage, fresh: int) -> Decision[Any]:
        ids = [topic_id(1 + 4 * fresh + number) for number in range(len(topics))]
        return create_topics(image, SETTINGS, topics, topic_ids=ids, validate_only=validate_only)

    return decide


def altering_configs(wanted: list[ResourceChange], replace: bool, validate_only: bool) -> Command:
    return lambda image, _: alter_configs(image, SETTINGS, wanted, replace=replace, validate_only=validate_only)


def registering(broker: int, fenced: bool, clean: bool, alive: bool, directories: int) -> Command:
    def decide(image: MetadataImage, fresh: int) -> Decision[Any]:
        known = image.brokers.get(broker)
        asked = registration(
            broker,
            start=fresh,
            rack=f"r{broker % 2}",
            previous_epoch=known.epoch if known and clean else -1,
            directories=tuple(directory_of(broker, number) for number in range(directories)),
        )
        return register_broker(image, asked, fenced=fenced, session_alive=alive)

    return decide


def beating(
    broker: int, want_fence: bool, want_shut_down: bool, seen: bool, others_saw: bool, failed: int | None = None
) -> Command:
    def decide(image: MetadataImage, _: int) -> Decision[Any]:
        known = image.brokers.get(broker)
        asked = Heartbeat(
            broker_id=broker,
            broker_epoch=known.epoch if known else 0,
            metadata_offset=image.offset if seen else 0,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            failed_directories=() if failed is None else (directory_of(broker, failed),),
        )
        others = {BrokerStart(one.broker_id, one.epoch): image.offset for one in image.brokers.values() if others_saw}
        return heartbeat(image, asked, others)

    return decide


def assigning(broker: int, pick: int, number: int, count: int) -> Command:
    """A broker says that some replicas are in one of its directories; not all of them need be its own."""

    def decide(image: MetadataImage, _: int) -> Decision[Any]:
        known = image.brokers.get(broker)
        places = [(topic.topic_id, index) for topic in image.topics.values() for index in range(len(topic.partitions))]
        wanted = [Assigned(directory_of(broker, number), *place) for place in places[pick : pick + count]]
        wanted.append(Assigned(directory_of(broker, number), topic_id(77), 0))
        return assign_directories(image, wanted, broker_id=broker, broker_epoch=known.epoch if known else 0)

    return decide


def fencing(broker: int) -> Command:
    def decide(image: MetadataImage, _: int) -> Decision[Any]:
        known = image.brokers.get(broker)
        return fence_broker(image, broker, known.epoch if known else 0)

    return decide


def led_partitions(image: MetadataImage) -> list[Located]:
    return [
        Located(topic, index, part)
        for topic in image.topics.values()
        for index, part in enumerate(topic.partitions)
        if part.has_leader
    ]


def altering_isr(pick: int, members: list[int], faults: tuple[int, int, int]) -> Command:
    """What the leader of a partition wants; faults are added to the epochs of leader, partition and broker."""

    def decide(image: MetadataImage, _: int) -> Decision[Any]:
        led = led_partitions(image)
        if not led:
            return alter_partitions(image, [], broker_id=0, broker_epoch=0)
        topic, index, part = led[pick % len(led)]
        epoch = image.brokers[part.leader].epoch + faults[2]
        isr = [IsrMember(one) for one in [part.leader, *members]]
        change = IsrChange(index, part.leader_epoch + faults[0], part.partition_epoch + faults[1], isr)
        return alter_partitions(
            image, [TopicIsrChanges(topic.topic_id, [change])], broker_id=part.leader, broker_epoch=epoch
        )

    return decide


def rejoining(pick: int) -> Command:
    """A leader takes every replica that lives into its ISR, as it does when they have caught up."""

    def decide(image: MetadataImage, fresh: int) -> Decision[Any]:
        led = led_partitions(image)
        part = led[pick % len(led)].state if led else None
        active = image.active_brokers()
        others = [one for one in part.replicas if one in active and one != part.leader] if part else []
        return altering_isr(pick, others, (0, 0, 0))(image, fresh)

    return decide


def electing(election: int, wanted: list[tuple[str, int]] | None) -> Command:
    return lambda image, _: elect_leaders(image, election, wanted)


def moving(topic: str, partition: int, replicas: list[int] | None, any_count: bool) -> Command:
    wanted = [TopicMoves(topic, [WantedMove(partition, replicas)])]
    return lambda image, _: alter_reassignments(image, SETTINGS, wanted, allow_replication_factor_change=any_count)


def recovering(ends: list[LogEnd]) -> Command:
    """Every lost partition hears from the first of its live replicas."""

    def decide(image: MetadataImage, _: int) -> Decision[Any]:
        answers = [
            Survivors(lost.topic_id, lost.partition, lost.partition_epoch, dict(zip(lost.live_replicas, ends)))
            for lost in lost_partitions(image, SETTINGS)
        ]
        return recover_partitions(image, SETTINGS, answers)

    return decide


FAULTS = st.sampled_from([(0, 0, 0)] * 6 + [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1)])
PICKS = st.integers(0, 11)
PARTITIONS = st.lists(st.tuples(NAMES, st.integers(-1, 3)), max_size=3)
LOG_ENDS = st.lists(st.builds(LogEnd, st.integers(0, 3), st.integers(0, 3)), max_size=3)
TOPICS: st.SearchStrategy[Command] = st.one_of(
    st.builds(creating, NEW_TOPICS, SELDOM),
    st.tuples(REFS, SELDOM).map(
        lambda it: lambda image, _: delete_topics(image, SETTINGS, it[0] if it[1] else it[0][:0])
    ),
    MORE.map(lambda more: lambda image, _: create_partitions(image, more)),
    st.builds(altering_configs, ALTERATIONS, st.booleans(), SELDOM),
    st.tuples(BROKERS, st.integers(0, 9)).map(
        lambda it: lambda image, _: allocate_producer_ids(image, broker_id=it[0], broker_epoch=it[1])
    ),
)
LIVES: st.SearchStrategy[Command] = st.one_of(
    st.builds(beating, BROKERS, st.just(False), st.just(False), st.just(True), st.booleans()),
    st.builds(beating, BROKERS, st.just(False), st.just(False), st.just(True), st.booleans()),
    st.builds(beating, BROKERS, SELDOM, st.booleans(), st.booleans(), st.booleans()),
    st.builds(registering, BROKERS, st.booleans(), st.booleans(), SELDOM, st.integers(0, 2)),
    st.builds(beating, BROKERS, st.just(False), SELDOM, st.just(True), st.booleans(), st.integers(0, 2)),
    st.builds(assigning, BROKERS, st.integers(0, 5), st.integers(0, 2), st.integers(1, 6)),
    BROKERS.map(fencing),
    st.tuples(BROKERS, SELDOM).map(
        lambda it: lambda image, _: unregister_broker(image, it[0] if it[1] else 9),
    ),
)
MOVES: st.SearchStrategy[Command] = st.builds(
    moving, NAMES, st.integers(0, 2), st.lists(BROKERS, min_size=1, max_size=3, unique=True) | st.none(), st.booleans()
)
LEADERS: st.SearchStrategy[Command] = st.one_of(
    PICKS.map(rejoining),
    PICKS.map(rejoining),
    st.builds(altering_isr, PICKS, st.lists(BROKERS, max_size=2, unique=True), FAULTS),
    st.builds(electing, st.sampled_from([0, 1, 0, 1, 2]), st.none() | PARTITIONS),
    st.tuples(st.integers(0, 50), st.integers(1, 3)).map(
        lambda it: lambda image, _: rebalance_leaders(image, imbalance_percentage=it[0], elections_max=it[1])
    ),
    LOG_ENDS.map(recovering),
    MOVES,
    MOVES,
)


def well(broker: int) -> Command:
    return beating(broker, False, False, True, True)


def outage(order: list[int], silent: int, back: int, then: Command) -> list[Command]:
    """Brokers go one after the other, some return in the same order: the first of them misses what the last has."""
    return [*(fencing(broker) for broker in order[:silent]), *(well(broker) for broker in order[:back]), then]


def shutdown(broker: int) -> list[Command]:
    leaving = beating(broker, False, True, True, True)
    return [leaving, leaving]


def recovery(order: list[int], then: Command) -> list[Command]:
    """Everybody returns and catches up."""
    return [*(well(broker) for broker in order), *(rejoining(pick) for pick in range(6)), then]


ORDERS = st.permutations(range(3))
STEPS = st.one_of(
    st.one_of(TOPICS, LIVES, LEADERS, LEADERS).map(lambda command: [command]),
    st.one_of(TOPICS, LIVES, LEADERS, LEADERS).map(lambda command: [command]),
    st.builds(outage, ORDERS, st.sampled_from([3, 2, 1]), st.integers(1, 3), LEADERS),
    BROKERS.map(shutdown),
    st.builds(recovery, ORDERS, LEADERS),
)


def runs(at_least: int, at_most: int) -> st.SearchStrategy[list[Command]]:
    """What a controller is asked, one thing after the other."""
    return st.lists(STEPS, min_size=at_least, max_size=at_most).map(
        lambda steps: [command for step in steps for command in step]
    )


BOOT: list[Command] = [
    lambda image, _: open_cluster(image, CLUSTER),
    *(lambda image, _, broker=broker: register_broker(image, registration(broker)) for broker in range(3)),
    creating([NewTopic("a", 3, 3, configs=[("unclean.leader.election.enable", "true")]), NewTopic("b", 2, 2)], False),
]
