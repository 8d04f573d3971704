"""Every promise about fenced epochs can be seen to be broken: a few facts by hand for each, and some in which all is
well."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bifrost.controller.core.records import (
    BrokerFenced,
    BrokerRegistered,
    ClusterCreated,
    Endpoint,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    encode_change,
)
from tests.sim.cluster.copies import Batch, Key
from tests.sim.cluster.fencing import Asked, FencingJudge

TOPIC = bytes(15) + b"\x01"
KEY: Key = (TOPIC.hex(), 0)
FIRST, SECOND, OTHER = Batch(0, 3, b"first"), Batch(3, 5, b"second"), Batch(3, 5, b"other")
SMALLER = PartitionChanged(TOPIC, 0, isr=(1, 2))


class Court:
    """A judge, and what it found. Brokers 1, 2 and 3 are registered at offsets 1, 2 and 3; 1 leads in epoch 0."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.copies = {life: [FIRST] for life in ("one-1", "two-1", "three-1")}
        self.judge = FencingJudge(lambda kind, _: self.found.append(kind), lambda life, _: self.copies[life])
        self._offset = 0
        self.commit(ClusterCreated("cluster"))
        for broker in (1, 2, 3):
            endpoints = (Endpoint("PLAINTEXT", "here", 9092),)
            self.commit(BrokerRegistered(broker, bytes([broker]) * 16, endpoints, None, False))
        created = PartitionCreated(TOPIC, 0, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=0)
        self.commit(TopicCreated("topic", TOPIC), created)
        self.judge.leads("one-1", KEY, 0)

    def commit(self, *records: MetadataRecord) -> None:
        self.judge.commits(self._offset, encode_change(records), records)
        self._offset += 1

    def fence_the_first(self) -> None:
        """From now on 2 leads, in epoch 1; as the log has it, whoever has heard of it."""
        self.commit(PartitionChanged(TOPIC, 0, leader=2, isr=(2, 3)), BrokerFenced(1, 0))

    def ask(
        self,
        broker: int,
        broker_epoch: int,
        leader_epoch: int,
        change: Sequence[MetadataRecord] = (SMALLER,),
        partition_epoch: int = 0,
    ) -> None:
        self.judge.asks(encode_change(change), Asked(broker, broker_epoch, {KEY: (leader_epoch, partition_epoch)}))


def test_what_a_fenced_leader_acknowledges_is_held_by_those_who_lead_already() -> None:
    court = Court()
    court.fence_the_first()
    court.judge.leads("two-1", KEY, 1)
    court.copies["one-1"].append(SECOND)
    court.judge.acknowledges("one-1", KEY, 0, 3)
    assert court.found == [], "the second has the first batch, too"
    assert court.judge.seen["acknowledged when superseded"] == 1
    court.judge.acknowledges("one-1", KEY, 0, 5)
    assert court.found == ["acknowledged, not kept"]


def test_what_was_acknowledged_is_held_by_those_who_lead_later() -> None:
    court = Court()
    court.copies["one-1"].append(SECOND)
    court.copies["three-1"].append(OTHER)
    court.judge.acknowledges("one-1", KEY, 0, 5)
    court.copies["two-1"].append(SECOND)
    court.fence_the_first()
    court.judge.leads("two-1", KEY, 1)
    assert court.found == []
    court.judge.leads("three-1", KEY, 2)
    assert court.found == ["acknowledged, not kept"], "other bytes at the same offsets are not what was acknowledged"


def test_what_the_present_leader_has_and_does_not_acknowledge_may_go() -> None:
    court = Court()
    court.copies["one-1"].append(SECOND)
    court.judge.acknowledges("one-1", KEY, 0, 3)
    court.fence_the_first()
    court.judge.leads("two-1", KEY, 1)
    court.copies["two-1"].append(OTHER)
    court.judge.acknowledges("two-1", KEY, 1, 5)
    assert court.found == []
    assert court.judge.seen["acknowledged when superseded"] == 0


@pytest.mark.parametrize(
    ("broker", "broker_epoch", "leader_epoch", "is_fine"),
    [(1, 1, 0, True), (1, 0, 0, False), (2, 2, 0, False), (1, 1, 1, False), (9, 1, 0, False)],
)
def test_an_isr_is_changed_for_whoever_leads_and_for_nobody_else(
    broker: int, broker_epoch: int, leader_epoch: int, is_fine: bool
) -> None:
    court = Court()
    court.ask(broker, broker_epoch, leader_epoch)
    court.commit(SMALLER)
    assert court.found == ([] if is_fine else ["granted to a fenced broker"])
    assert court.judge.seen["ISRs changed"] == 1


def test_who_has_not_heard_of_the_last_change_is_not_granted_another() -> None:
    court = Court()
    court.ask(1, 1, 0)
    court.commit(SMALLER)
    again = PartitionChanged(TOPIC, 0, isr=(1, 2, 3))
    court.ask(1, 1, 0, (again,))
    court.commit(again)
    assert court.found == ["granted to a fenced broker"]


def test_what_counts_is_the_log_before_the_change_and_not_what_was_so_when_it_was_asked_for() -> None:
    court = Court()
    court.ask(1, 1, 0)
    court.fence_the_first()
    assert court.found == [], "it is not in the log yet"
    court.commit(SMALLER)
    assert court.found == ["granted to a fenced broker"]


def test_a_change_that_two_have_asked_for_may_be_that_of_either() -> None:
    court = Court()
    court.ask(1, 0, 0)
    court.ask(1, 1, 0)
    court.commit(SMALLER)
    assert court.found == []


def test_news_is_told_once_by_whoever_is_first() -> None:
    court = Court()
    court.ask(1, 1, 0)
    court.commit(SMALLER)
    court.ask(1, 1, 0)
    court.judge.commits(2, encode_change((SMALLER,)), (SMALLER,))
    assert court.judge.seen["ISRs changed"] == 1
