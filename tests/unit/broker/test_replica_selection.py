"""A consumer reads in its own rack where it can, and is never sent to somebody who sends it away (KIP-392)."""

from __future__ import annotations

import pytest

from bifrost.broker.replica_selection import replica_in_rack
from bifrost.replication.core.leader import PartitionLeader
from bifrost.types import NodeId

ME, NEAR, NEARER, FAR = NodeId(1), NodeId(2), NodeId(3), NodeId(4)
RACKS = {ME: "a", NEAR: "b", NEARER: "b", FAR: "c"}


def leading(isr: tuple[NodeId, ...] = (ME, NEAR, NEARER, FAR), **ends: int) -> PartitionLeader:
    """A leader whose followers hold everything below these offsets."""
    leader = PartitionLeader(
        ME,
        epoch=1,
        replicas=(ME, NEAR, NEARER, FAR),
        isr=frozenset(isr),
        high_watermark=5,
        log_end_offset=20,
        durable_offset=20,
    )
    for broker, end in ((NEAR, ends.get("near", 10)), (NEARER, ends.get("nearer", 10)), (FAR, ends.get("far", 10))):
        leader.followers[broker].end_offset = end
    return leader


def chosen(leader: PartitionLeader, rack: str = "b", offset: int = 5) -> NodeId | None:
    return replica_in_rack(leader, ME, rack, offset, RACKS.get)


def test_the_one_in_the_consumers_rack_that_has_most() -> None:
    assert chosen(leading(near=12, nearer=15)) == NEARER
    assert chosen(leading(near=15, nearer=12)) == NEAR
    assert chosen(leading(), rack="c") == FAR


def test_of_equals_always_the_same_so_that_consumers_stay_where_they_are() -> None:
    assert chosen(leading()) == NEAR


@pytest.mark.parametrize("rack", ["a", "elsewhere"])
def test_the_leader_serves_its_own_rack_and_those_without_a_replica(rack: str) -> None:
    assert chosen(leading(), rack=rack) is None


def test_nobody_is_sent_to_a_replica_that_is_not_in_sync() -> None:
    assert chosen(leading(isr=(ME, NEAR, FAR), near=8, nearer=15)) == NEAR
    assert chosen(leading(isr=(ME, FAR))) is None


def test_nobody_is_sent_to_a_replica_that_lacks_the_offset() -> None:
    assert chosen(leading(near=9, nearer=11), offset=11) == NEARER
    assert chosen(leading(near=9, nearer=11), offset=12) is None
    assert chosen(leading(near=-1, nearer=-1), offset=0) is None, "who has not fetched yet has nothing to show"
