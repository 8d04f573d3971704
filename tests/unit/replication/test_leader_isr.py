"""Who is in sync: how followers count, join and fall behind, and what a leader may believe meanwhile."""

from __future__ import annotations

import pytest

from bifrost.errors import ApiError, ErrorCode
from bifrost.replication.core.leader import Effects, Member, PartitionLeader
from bifrost.types import NodeId

ME, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)
EPOCHS = {ME: 11, SECOND: 12, THIRD: 13}
LAG_MS = 30_000.0


class Led:
    """A leader of three replicas, with a clock."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), *, end: int = 0, high_watermark: int = 0) -> None:
        self.live = dict(EPOCHS)
        self.now_ms = 1_000.0
        self.core = PartitionLeader(
            ME,
            epoch=5,
            partition_epoch=7,
            replicas=(ME, SECOND, THIRD),
            isr=frozenset(map(NodeId, isr)),
            live=self.live,
            high_watermark=high_watermark,
            log_end_offset=end,
            durable_offset=end,
        )

    def append(self, end: int) -> Effects:
        return self.core.on_append(end, end)

    def fetch(self, follower: NodeId, offset: int, *, epoch: int | None = None) -> Effects:
        return self.core.on_fetch(follower, EPOCHS[follower] if epoch is None else epoch, offset, self.now_ms)

    def tick(self, after_ms: float) -> Effects:
        self.now_ms += after_ms
        return self.core.on_tick(self.now_ms, LAG_MS)


def members(*brokers: NodeId) -> tuple[Member, ...]:
    """As proposed: the leader's own epoch is for the driver to fill in."""
    return tuple(Member(broker, -1 if broker == ME else EPOCHS[broker]) for broker in brokers)


def test_a_write_is_committed_when_all_in_sync_have_asked_for_what_follows_it() -> None:
    led = Led()
    led.append(10)
    assert led.core.high_watermark == 0
    assert led.fetch(SECOND, 10).high_watermark is None
    assert led.fetch(THIRD, 6).high_watermark == 6
    assert led.fetch(THIRD, 10).high_watermark == 10


def test_the_leaders_own_disk_counts_too() -> None:
    led = Led()
    led.core.on_append(10, 0)
    led.fetch(SECOND, 10)
    assert led.fetch(THIRD, 10).high_watermark is None
    assert led.core.on_durable(10).high_watermark == 10


def test_nothing_is_committed_before_those_in_sync_were_heard_of_in_this_epoch() -> None:
    led = Led(end=10, high_watermark=4)
    led.fetch(SECOND, 10)
    assert led.core.high_watermark == 4
    led.fetch(THIRD, 10)
    assert led.core.high_watermark == 10


def test_nothing_is_committed_while_too_few_are_in_sync() -> None:
    """KIP-966: also what was written with acks=1 stays out of sight."""
    led = Led(isr=(1,))
    led.core.on_min_insync_replicas(2)
    led.append(10)
    assert led.core.high_watermark == 0
    assert led.core.on_min_insync_replicas(1).high_watermark == 10


def test_who_has_all_that_is_committed_is_proposed() -> None:
    led = Led(isr=(1, 2))
    led.append(10)
    led.fetch(SECOND, 10)
    assert led.fetch(THIRD, 9).propose_isr is None
    assert led.fetch(THIRD, 10).propose_isr == members(ME, SECOND, THIRD)


def test_who_lacks_what_came_before_this_leader_is_not_proposed() -> None:
    """The high watermark of a new leader may lag behind what its predecessor had committed."""
    led = Led(isr=(1, 2), end=10, high_watermark=4)
    led.fetch(SECOND, 4)
    assert led.fetch(THIRD, 8).propose_isr is None
    assert led.fetch(THIRD, 10).propose_isr == members(ME, SECOND, THIRD)


def test_who_is_being_let_in_counts_before_the_controller_has_answered() -> None:
    led = Led(isr=(1, 2))
    led.fetch(THIRD, 0)
    led.append(10)
    assert led.fetch(SECOND, 10).high_watermark is None, "the controller may have let the third one in"
    assert led.fetch(THIRD, 10).high_watermark == 10


def test_who_is_in_step_is_waited_for_even_out_of_sync() -> None:
    """Or it would never catch up with a leader that never pauses."""
    led = Led(isr=(1,), end=100, high_watermark=0)
    led.live.pop(THIRD)
    led.append(110)
    led.fetch(SECOND, 50)
    assert led.core.high_watermark == 110, "it is far behind, so nobody waits for it"
    led.append(120)
    led.fetch(SECOND, 110)  # where the log ended when it last asked
    led.append(130)
    assert led.core.high_watermark == 120
    assert led.fetch(SECOND, 120).propose_isr == members(ME, SECOND)


def test_one_who_restarted_since_it_fetched_is_not_proposed() -> None:
    """KIP-903: it may have lost what it held."""
    led = Led(isr=(1, 2))
    led.fetch(SECOND, 0)
    assert led.fetch(THIRD, 0, epoch=12).propose_isr is None
    assert led.fetch(THIRD, 0, epoch=13).propose_isr == members(ME, SECOND, THIRD)


def test_an_earlier_start_of_a_follower_does_not_count_any_more() -> None:
    led = Led()
    led.fetch(THIRD, 0, epoch=13)
    with pytest.raises(ApiError) as refused:
        led.fetch(THIRD, 5, epoch=12)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led.core.followers[THIRD].end_offset == 0


def test_who_asks_for_more_than_there_ever_was_does_not_count() -> None:
    """After an unclean election a follower may have more than its leader, and nothing that tells of which epoch."""
    led = Led((ME,), end=10, high_watermark=10)
    with pytest.raises(ApiError) as refused:
        led.fetch(SECOND, 50)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    led.append(20)
    assert led.core.proposed_isr() is None, "it does not hold what was written since"


def test_who_is_no_replica_is_refused() -> None:
    led = Led()
    with pytest.raises(ApiError) as refused:
        led.core.on_fetch(NodeId(4), 14, 0, 0.0)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fenced_broker_is_welcome_when_it_is_not_fenced_any_more() -> None:
    led = Led(isr=(1, 2))
    led.fetch(SECOND, 0)
    led.live.pop(THIRD)
    assert led.fetch(THIRD, 0).propose_isr is None
    led.live[THIRD] = EPOCHS[THIRD]
    assert led.core.on_brokers_changed().propose_isr == members(ME, SECOND, THIRD)


def test_who_was_about_to_join_and_is_fenced_is_not_waited_for() -> None:
    led = Led(isr=(1, 2))
    led.append(5)
    led.fetch(SECOND, 5)
    led.fetch(THIRD, 3)
    led.append(10)
    led.fetch(THIRD, 5)  # in step with what there was; the third one joins
    led.core.on_proposal_refused()
    assert led.fetch(SECOND, 10).high_watermark is None
    del led.live[THIRD]
    assert led.core.on_brokers_changed().high_watermark == 10


class TestFallingBehind:
    def test_who_asks_for_nothing_new_for_too_long_leaves(self) -> None:
        led = Led()
        led.append(10)
        led.fetch(SECOND, 10)
        assert led.tick(15_000).propose_isr is None
        assert led.tick(30_001).propose_isr == members(ME, SECOND)

    def test_who_is_at_the_end_stays_however_long_nothing_is_written(self) -> None:
        led = Led()
        for follower in (SECOND, THIRD):
            led.fetch(follower, 0)
        for _ in range(10):
            assert led.tick(60_000).propose_isr is None
        led.append(10)
        assert led.tick(15_000).propose_isr is None, "the first that is seen of it"

    def test_who_keeps_step_with_a_busy_leader_stays(self) -> None:
        led = Led()
        end = 0
        for _ in range(20):
            for follower in (SECOND, THIRD):
                led.fetch(follower, end)
            end += 10
            led.append(end)  # nobody is ever at the end when time is looked at
            assert led.tick(15_000).propose_isr is None

    def test_who_fetches_but_falls_ever_further_behind_leaves(self) -> None:
        led = Led()
        proposed = None
        for round_ in range(6):
            led.append((round_ + 1) * 100)
            led.fetch(SECOND, (round_ + 1) * 100)
            led.fetch(THIRD, round_)
            proposed = proposed or led.tick(15_000).propose_isr
        assert proposed == members(ME, SECOND)

    def test_the_one_that_left_counts_until_the_controller_agrees(self) -> None:
        led = Led()
        led.append(10)
        led.fetch(SECOND, 10)
        led.tick(1)
        led.tick(30_001)
        assert led.core.high_watermark == 0, "it may still be elected"
        assert led.core.on_partition((ME, SECOND, THIRD), frozenset({ME, SECOND}), 8).high_watermark == 10


class TestTheControllersAnswer:
    def test_one_proposal_at_a_time(self) -> None:
        led = Led(isr=(1,))
        assert led.fetch(SECOND, 0).propose_isr == members(ME, SECOND)
        assert led.fetch(THIRD, 0).propose_isr is None
        assert led.core.on_partition((ME, SECOND, THIRD), frozenset({ME, SECOND}), 8).propose_isr == members(
            ME, SECOND, THIRD
        )

    def test_what_was_refused_does_not_count(self) -> None:
        led = Led(isr=(1, 2))
        led.fetch(SECOND, 0)
        led.fetch(THIRD, 0)
        assert led.core.proposed_isr() == members(ME, SECOND, THIRD)
        led.core.on_proposal_refused()
        led.core.followers[THIRD].is_joining = False
        led.core.on_brokers_changed()
        assert led.core.proposed_isr() == members(ME, SECOND, THIRD), "it still qualifies, so it is proposed again"

    def test_an_answer_from_before_changes_nothing(self) -> None:
        led = Led()
        assert led.core.on_partition((ME, SECOND, THIRD), frozenset({ME}), 7) == Effects()
        assert led.core.isr == {ME, SECOND, THIRD}

    def test_replicas_that_come_and_go(self) -> None:
        led = Led(isr=(1, 2))
        led.append(10)
        led.fetch(SECOND, 10)
        fourth = NodeId(4)
        led.core.on_partition((ME, SECOND, fourth), frozenset({ME, SECOND}), 8)
        assert set(led.core.followers) == {SECOND, fourth}
        assert led.core.followers[SECOND].end_offset == 10, "what is known of those who stay is kept"
