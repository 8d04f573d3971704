"""Cooperative assignors (KIP-429) need nothing of the coordinator but that it hands on what members say."""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import Shard, codes
from tests.unit.coordinator.classic.test_protocol_choice import subscription

COOPERATIVE = "cooperative-sticky"


def owning(*partitions: int) -> list[tuple[str, bytes]]:
    """What a consumer says that owns these; a stand-in for the real encoding, which is opaque here."""
    return [(COOPERATIVE, subscription("t", version=1, more=bytes(partitions)))]


def test_partitions_move_in_two_generations_and_nobody_stops_in_between() -> None:
    shard = Shard()
    (first,) = shard.stable(1, owning())
    second, waiting = shard.enter(owning())

    # The first member is told to join, says what it owns, and goes on reading meanwhile.
    assert shard.heartbeat(first) == ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.commit(first, 1) == ErrorCode.NONE
    (joined,) = shard.join(first, protocols=owning(0, 1))
    assert {one.member_id: one.metadata for one in joined.members} == {
        first: owning(0, 1)[0][1],
        second: owning()[0][1],
    }

    # Generation 2 takes a partition from the first member and gives it to nobody.
    parked = shard.sync(second, protocol_name=COOPERATIVE)
    shard.sync(first, assignments={first: b"0", second: b""}, protocol_name=COOPERATIVE)
    assert (codes(parked), parked[0].assignment) == ([ErrorCode.NONE], b"")
    assert waiting[0].generation_id == 2

    # Its metadata changed, so to join again starts generation 3, in which the partition has a new owner.
    again = shard.join(first, protocols=owning(0))
    assert codes(again) == [None]
    follower = shard.join(second, protocols=owning())
    assert (again[0].generation_id, follower[0].generation_id) == (3, 3)
    assert again[0].members[0].metadata == owning(0)[0][1]
    shard.sync(first, assignments={first: b"0", second: b"1"}, protocol_name=COOPERATIVE)
    assert shard.sync(second, protocol_name=COOPERATIVE)[0].assignment == b"1"
    assert shard.state is ClassicState.STABLE


def test_a_follower_that_owns_something_else_starts_a_rebalance() -> None:
    shard = Shard()
    _, follower = shard.stable(2, owning())
    assert codes(shard.join(follower, protocols=owning())) == [ErrorCode.NONE]
    assert codes(shard.join(follower, protocols=owning(1))) == [None]


def test_a_group_moves_from_an_eager_to_a_cooperative_assignor_member_by_member() -> None:
    """First everybody learns the new one beside the old, then everybody forgets the old."""
    shard = Shard()
    old, both, new = [("range", b"")], [(COOPERATIVE, b""), ("range", b"")], [(COOPERATIVE, b"")]
    first, second = shard.stable(2, old)
    assert codes(shard.join(protocols=new)) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    shard.join(second, protocols=both)
    shard.join(first, protocols=old)
    assert shard.group.protocol == "range"
    shard.settle([first, second])
    shard.join(first, protocols=both)
    shard.join(second, protocols=both)
    assert shard.group.protocol == COOPERATIVE
