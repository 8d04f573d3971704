"""Sessions of brokers, and what a heartbeat leads to: one test a rule."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, create, registration

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.heartbeats import (
    BrokerSessions,
    BrokerStart,
    Heartbeat,
    HeartbeatAnswer,
    fence_broker,
    heartbeat,
)
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import NO_LEADER, BrokerFenced, BrokerShuttingDown
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ApiError, ErrorCode

TIMEOUT = 9_000


def cluster() -> MetadataImage:
    """Brokers 1, 2 and 3, and a topic whose partitions are led by 1, 2 and 3; 1 alone has `own`."""
    image = cluster_of(1, 2, 3)
    create(image, NewTopic("t", assignments=[(0, [1, 2]), (1, [2, 3]), (2, [3, 1])]))
    create(image, NewTopic("own", assignments=[(0, [1])]))
    return image


def beat(
    image: MetadataImage,
    broker_id: int,
    *,
    seen: int | None = None,
    want_fence: bool = False,
    want_shut_down: bool = False,
    others: dict[BrokerStart, int] | None = None,
) -> HeartbeatAnswer:
    """One heartbeat, committed; `seen` is how much metadata the broker has, and `others` how much the others have."""
    asked = Heartbeat(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].epoch,
        metadata_offset=image.offset if seen is None else seen,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )
    decision = heartbeat(image, asked, others or {})
    if decision.records:
        commit(image, decision)
    return decision.result


def everybody_saw(image: MetadataImage, offset: int | None = None) -> dict[BrokerStart, int]:
    return {
        BrokerStart(broker.broker_id, broker.epoch): image.offset if offset is None else offset
        for broker in image.brokers.values()
    }


def leaders(image: MetadataImage, topic: str = "t") -> list[int]:
    return [part.leader for part in image.topics[topic].partitions]


def starting(image: MetadataImage) -> int:
    """Broker 4 registers, fenced; its epoch."""
    commit(image, register_broker(image, registration(4), fenced=True))
    return image.brokers[4].epoch


def test_a_heartbeat_of_an_earlier_start_is_refused() -> None:
    image = cluster()
    for broker_id, epoch in ((1, 0), (1, 99), (9, 1)):
        with pytest.raises(ApiError) as refusal:
            heartbeat(image, Heartbeat(broker_id=broker_id, broker_epoch=epoch, metadata_offset=0), {})
        assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_nothing_happens_to_a_broker_that_is_well() -> None:
    image = cluster()
    before = image.offset
    assert beat(image, 1) == HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert image.offset == before


def test_a_broker_that_has_not_seen_its_own_registration_stays_fenced() -> None:
    image = cluster()
    epoch = starting(image)
    assert beat(image, 4, seen=epoch - 1) == HeartbeatAnswer(False, is_fenced=True, should_shut_down=False)
    assert image.brokers[4].fenced


def test_a_broker_that_has_is_unfenced() -> None:
    image = cluster()
    epoch = starting(image)
    assert beat(image, 4, seen=epoch) == HeartbeatAnswer(True, is_fenced=False, should_shut_down=False)
    assert image.brokers[4].active


def test_a_broker_that_wants_to_stay_fenced_does() -> None:
    image = cluster()
    starting(image)
    assert beat(image, 4, want_fence=True) == HeartbeatAnswer(True, is_fenced=True, should_shut_down=False)
    assert image.brokers[4].fenced


def test_a_broker_that_is_unfenced_leads_what_only_it_has() -> None:
    image = cluster()
    commit(image, fence_broker(image, 1, image.brokers[1].epoch))
    assert leaders(image, "own") == [NO_LEADER]
    beat(image, 1)
    assert leaders(image, "own") == [1]


def test_a_broker_that_wants_to_be_fenced_is() -> None:
    image = cluster()
    assert beat(image, 1, want_fence=True) == HeartbeatAnswer(True, is_fenced=True, should_shut_down=False)
    assert image.brokers[1].fenced
    assert (leaders(image), leaders(image, "own")) == ([2, 2, 3], [NO_LEADER])


def test_a_fenced_broker_may_go_at_once() -> None:
    image = cluster()
    epoch = starting(image)
    assert beat(image, 4, seen=epoch, want_shut_down=True) == HeartbeatAnswer(
        True, is_fenced=True, should_shut_down=True
    )
    assert image.brokers[4].fenced


def test_a_broker_that_wants_both_is_fenced_and_goes() -> None:
    image = cluster()
    assert beat(image, 1, want_fence=True, want_shut_down=True) == HeartbeatAnswer(True, True, should_shut_down=True)
    assert image.brokers[1].fenced


def test_a_broker_that_leads_nothing_is_fenced_and_goes() -> None:
    image = cluster()
    beat(image, 4, seen=starting(image))
    assert beat(image, 4, want_shut_down=True) == HeartbeatAnswer(True, is_fenced=True, should_shut_down=True)
    assert image.brokers[4].fenced


def test_a_broker_that_wants_to_go_gives_away_what_it_leads_and_waits() -> None:
    image = cluster()
    answer = beat(image, 1, want_shut_down=True)
    assert answer == HeartbeatAnswer(True, is_fenced=False, should_shut_down=False)
    assert leaders(image) == [2, 2, 3]
    assert [part.isr for part in image.topics["t"].partitions] == [(2,), (2, 3), (3,)]
    assert image.brokers[1].shutdown_offset == image.offset


def test_a_partition_that_nobody_else_can_lead_does_not_hold_a_broker_back() -> None:
    image = cluster()
    beat(image, 1, want_shut_down=True)
    assert leaders(image, "own") == [NO_LEADER]
    assert beat(image, 1, want_shut_down=True, others=everybody_saw(image)).should_shut_down


def test_a_broker_goes_when_every_other_has_seen_who_leads_now() -> None:
    image = cluster()
    beat(image, 1, want_shut_down=True)
    seen = image.brokers[1].shutdown_offset
    late = everybody_saw(image, seen) | {BrokerStart(3, image.brokers[3].epoch): seen - 1}
    assert beat(image, 1, want_shut_down=True, others=late) == HeartbeatAnswer(True, False, should_shut_down=False)
    unheard = {start: offset for start, offset in everybody_saw(image, seen).items() if start.broker_id != 2}
    assert not beat(image, 1, want_shut_down=True, others=unheard).should_shut_down
    assert not image.brokers[1].fenced
    on_time = everybody_saw(image, seen)
    assert beat(image, 1, want_shut_down=True, others=on_time) == HeartbeatAnswer(True, True, should_shut_down=True)
    assert image.brokers[1].fenced


@pytest.mark.parametrize("gone", [BrokerFenced(3), BrokerShuttingDown(3)], ids=str)
def test_a_broker_that_goes_does_not_wait_for_those_that_are_gone(gone: BrokerFenced) -> None:
    image = cluster()
    apply(image, [gone])
    beat(image, 1, want_shut_down=True)
    seen = {BrokerStart(2, image.brokers[2].epoch): image.offset}
    assert beat(image, 1, want_shut_down=True, others=seen).should_shut_down


def test_what_an_earlier_start_saw_does_not_count() -> None:
    image = cluster()
    others = everybody_saw(image, 99)
    commit(image, register_broker(image, registration(2, start=2)))
    beat(image, 1, want_shut_down=True)
    assert not beat(image, 1, want_shut_down=True, others=others).should_shut_down


def test_a_silent_broker_is_fenced_once() -> None:
    image = cluster()
    epoch = image.brokers[1].epoch
    assert commit(image, fence_broker(image, 1, epoch)) is True
    assert (image.live_brokers(), leaders(image)) == ([2, 3], [2, 2, 3])
    assert fence_broker(image, 1, epoch) == ((), False)


def test_an_earlier_start_or_an_unknown_broker_is_not_fenced() -> None:
    image = cluster()
    assert fence_broker(image, 1, image.brokers[1].epoch - 1) == ((), False)
    assert fence_broker(image, 9, 1) == ((), False)


def test_a_session_lasts_for_its_time_and_no_longer() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(1, 5, 1_000, metadata_offset=7)
    assert sessions.deadline_ms() == 10_000
    assert sessions.is_alive(1, 5, 9_999)
    assert sessions.expired(9_999) == []
    assert not sessions.is_alive(1, 5, 10_000)
    assert sessions.expired(10_000) == [(1, 5)]


def test_a_heartbeat_starts_the_session_anew() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(1, 5, 0, metadata_offset=7)
    sessions.on_heartbeat(1, 5, 5_000, metadata_offset=8)
    assert sessions.deadline_ms() == 14_000
    assert sessions.metadata_offsets == {(1, 5): 8}


def test_a_registration_starts_a_session_and_ends_that_of_the_earlier_start() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(1, 5, 0, metadata_offset=7)
    sessions.on_heartbeat(2, 6, 0, metadata_offset=7)
    sessions.on_registered(1, 9, 100)
    assert sessions.metadata_offsets == {(2, 6): 7, (1, 9): -1}
    assert (sessions.is_alive(1, 5, 100), sessions.is_alive(1, 9, 100)) == (False, True)


def test_a_registration_that_is_heard_of_late_takes_nothing_from_a_later_start() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_registered(1, 9, 100)
    sessions.on_registered(1, 5, 200)
    assert sessions.metadata_offsets == {(1, 9): -1}


def test_a_registration_that_is_answered_again_takes_nothing_back() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(1, 5, 4_000, metadata_offset=7)
    sessions.on_registered(1, 5, 100)
    assert (sessions.metadata_offsets, sessions.deadline_ms()) == ({(1, 5): 7}, 13_000)


def test_a_lost_connection_ends_the_session_at_once_and_a_heartbeat_starts_it_again() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(1, 5, 1_000, metadata_offset=7)
    sessions.on_connection_lost(1, 4)
    assert sessions.is_alive(1, 5, 1_000)
    assert not sessions.has_lost_connection(1, 5)
    assert sessions.expired(1_000) == [(1, 4)], "it had no session, and might take part all the same"
    sessions.forget(1, 4)
    sessions.on_connection_lost(1, 5)
    assert sessions.has_lost_connection(1, 5)
    assert not sessions.is_alive(1, 5, 1_000)
    assert sessions.expired(1_000) == [(1, 5)]
    assert (sessions.deadline_ms() or 0) < 1_000
    sessions.on_heartbeat(1, 5, 1_001, metadata_offset=7)
    assert sessions.expired(1_001) == []
    assert not sessions.has_lost_connection(1, 5)


def test_a_session_that_ends_with_its_time_says_nothing_of_a_connection() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(1, 5, 1_000, metadata_offset=7)
    assert sessions.expired(10_000) == [(1, 5)]
    assert not sessions.has_lost_connection(1, 5)


def test_the_expired_are_named_until_they_are_forgotten() -> None:
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(2, 5, 1, metadata_offset=7)
    sessions.on_heartbeat(1, 6, 2, metadata_offset=7)
    assert sessions.expired(20_000) == sessions.expired(20_000) == [(2, 5), (1, 6)]
    sessions.forget(2, 5)
    assert sessions.expired(20_000) == [(1, 6)]
    sessions.forget(1, 6)
    assert (sessions.expired(20_000), sessions.deadline_ms()) == ([], None)


def test_a_controller_that_takes_over_gives_every_broker_a_session() -> None:
    image = cluster()
    starting(image)
    sessions = BrokerSessions(TIMEOUT)
    sessions.on_heartbeat(7, 7, 0, metadata_offset=7)
    sessions.on_takeover(image, 500)
    assert sessions.metadata_offsets == dict.fromkeys(everybody_saw(cluster()), -1)
    assert sessions.deadline_ms() == 500 + TIMEOUT
