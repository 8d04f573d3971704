"""Leaders from outside the ISR: one test a rule."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, topic_id

from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import (
    NO_LEADER,
    BrokerFenced,
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
)
from bifrost.controller.core.unclean_elections import (
    LogEnd,
    LostPartition,
    Recovered,
    Survivors,
    lost_partitions,
    recover_partitions,
)
from bifrost.settings import Settings

T = topic_id(100)
SWITCH = "unclean.leader.election.enable"
ENDS = {2: LogEnd(3, 10), 3: LogEnd(3, 11)}


def lost(allowed: str | None = "true") -> MetadataImage:
    """Partition 0 of `t` is lost with broker 1, and 1 is led."""
    image = cluster_of(1, 2, 3)
    apply(
        image,
        [
            TopicCreated("t", T),
            PartitionCreated(T, 0, (1, 2, 3), (1,), NO_LEADER),
            PartitionCreated(T, 1, (1, 2, 3), (2,), 2),
            BrokerFenced(1),
        ],
    )
    if allowed is not None:
        apply(image, [ConfigChanged(TOPIC_RESOURCE, "t", SWITCH, allowed)])
    return image


def recover(image: MetadataImage, *answers: Survivors) -> list[Recovered]:
    decision = recover_partitions(image, Settings(), answers)
    return commit(image, decision) if decision.records else decision.result


def test_a_lost_partition_waits_for_its_live_replicas_to_be_asked() -> None:
    assert lost_partitions(lost(), Settings()) == [LostPartition(T, "t", 0, 0, (2, 3))]


def test_a_lost_partition_without_a_live_replica_waits_for_nothing() -> None:
    image = lost()
    apply(image, [BrokerFenced(2), BrokerFenced(3)])
    assert lost_partitions(image, Settings()) == []


def test_a_topic_that_does_not_allow_it_waits_for_its_isr() -> None:
    for image in (lost(None), lost("false")):
        assert lost_partitions(image, Settings()) == []
        assert recover(image, Survivors(T, 0, 0, ENDS)) == []


def test_the_setting_of_the_brokers_counts_where_the_topic_has_none() -> None:
    image = lost(None)
    assert len(lost_partitions(image, Settings(unclean_leader_election_enable=True))) == 1
    apply(image, [ConfigChanged(BROKER_RESOURCE, EVERY_BROKER, SWITCH, "true")])
    assert len(lost_partitions(image, Settings())) == 1
    apply(image, [ConfigChanged(TOPIC_RESOURCE, "t", SWITCH, "false")])
    assert lost_partitions(image, Settings()) == []


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({2: LogEnd(3, 10), 3: LogEnd(3, 11)}, 3),
        ({2: LogEnd(4, 10), 3: LogEnd(3, 11)}, 2),
        ({2: LogEnd(3, 10), 3: LogEnd(3, 10)}, 2),
        ({3: LogEnd(0, 0)}, 3),
        ({1: LogEnd(9, 99), 2: LogEnd(1, 1)}, 2),
        ({2: LogEnd(1, 1), 7: LogEnd(9, 99)}, 2),
    ],
    ids=["longest", "latest epoch first", "assignment decides", "one answered", "fenced", "not a replica"],
)
def test_the_survivor_with_most_leads(ends: dict[int, LogEnd], leader: int) -> None:
    image = lost()
    assert recover(image, Survivors(T, 0, 0, ends)) == [Recovered("t", 0, leader, ends[leader])]
    part = image.topics["t"].partitions[0]
    assert (part.leader, part.isr, part.leader_epoch) == (leader, (leader,), 1)


def test_without_an_answer_nobody_leads() -> None:
    image = lost()
    assert recover(image, Survivors(T, 0, 0, {})) == []
    assert recover(image, Survivors(T, 0, 0, {1: LogEnd(9, 99)})) == []


def test_answers_about_an_earlier_state_do_not_count() -> None:
    image = lost()
    apply(image, [PartitionChanged(T, 0, leader=1), PartitionChanged(T, 0, leader=NO_LEADER)])
    assert recover(image, Survivors(T, 0, 0, ENDS)) == []
    assert lost_partitions(image, Settings())[0].partition_epoch == 2


def test_a_partition_that_is_led_by_now_is_left_alone() -> None:
    assert recover(lost(), Survivors(T, 1, 0, ENDS)) == []


def test_a_partition_that_is_gone_or_answered_twice_does_no_harm() -> None:
    image = lost()
    answers = [Survivors(topic_id(9), 0, 0, ENDS), Survivors(T, 2, 0, ENDS), Survivors(T, -1, 0, ENDS)]
    answers += [Survivors(T, 0, 0, ENDS)] * 2
    decision = recover_partitions(image, Settings(), answers)
    assert list(decision.records) == [PartitionChanged(T, 0, leader=3, isr=(3,))]
    assert len(decision.result) == 1
