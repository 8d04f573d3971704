"""Which protocol a generation is led by, and what the coordinator reads of it."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicGroup
from bifrost.coordinator.core.classic.member import Member
from tests.unit.coordinator.classic.stand_ins import CLIENT, DELAY_MS, Shard

NO_TOPICS = b"\0\0\0\0\0\0\xff\xff\xff\xff"


def subscription(*topics: str, version: int = 0, more: bytes = b"") -> bytes:
    """A ConsumerProtocolSubscription; later versions have `more` at the end."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff" + more


def group_of(*preferences: str) -> ClassicGroup:
    """A group whose members like these protocols in this order; a letter is a protocol."""
    members = [
        Member(f"m{number}", None, CLIENT, 1, 1, dict.fromkeys(liked, NO_TOPICS))
        for number, liked in enumerate(preferences)
    ]
    return ClassicGroup("g", state_since_ms=0, protocol_type="consumer", members=members)


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        (["ab"], "a"),
        (["ab", "b"], "b"),
        (["ab", "ba", "ba"], "b"),
        (["abc", "acb", "bac"], "a"),
        (["abc", "cab", "cba"], "c"),
        (["xab", "yba", "zba"], "b"),  # x, y and z are not known to all, so they get no vote
    ],
)
def test_each_member_votes_for_its_first_protocol_that_all_know_and_most_votes_win(
    preferences: list[str], chosen: str
) -> None:
    assert group_of(*preferences).select_protocol() == chosen


def test_equal_votes_are_decided_the_same_way_every_time() -> None:
    assert {group_of("ab", "ba").select_protocol() for _ in range(20)} == {"a"}


def test_the_choice_is_made_anew_for_every_generation() -> None:
    shard = Shard()
    narrow, _ = shard.enter([("range", b"r")])
    wide, _ = shard.enter([("sticky", b"s"), ("range", b"r")])
    shard.advance(2 * DELAY_MS)
    assert shard.group.protocol == "range"
    shard.settle([narrow, wide])
    shard.leave(narrow)
    (answer,) = shard.join(wide, protocols=[("sticky", b"s"), ("range", b"r")])
    assert (answer.protocol_name, answer.members[0].metadata) == ("sticky", b"s")


def test_topics_are_read_from_what_consumers_say() -> None:
    shard = Shard()
    shard.stable(2, [("range", subscription("a", "b")), ("other", b"?")])
    assert shard.group.subscribed_topics() == {"a", "b"}
    assert shard.group.is_subscribed("a")
    assert not shard.group.is_subscribed("c")
    assert shard.restart().group.subscribed_topics() == {"a", "b"}


def test_topics_are_read_from_every_version_of_a_subscription() -> None:
    for version in range(5):
        shard = Shard()
        shard.stable(1, [("range", subscription("a", version=version, more=b"owned partitions, rack"))])
        assert shard.group.subscribed_topics() == {"a"}


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\0\0\0\1", b"\0\0\x7f\xff\xff\xff"])
def test_a_subscription_that_cannot_be_read_disturbs_nobody(metadata: bytes) -> None:
    """The topics are not known then, and a consumer's group counts as subscribed to all of them."""
    shard = Shard()
    shard.stable(1, [("range", metadata)])
    assert shard.group.subscribed_topics() is None
    assert shard.group.is_subscribed("any")


def test_of_other_protocol_types_nothing_is_read() -> None:
    shard = Shard()
    shard.join(version=3, protocol_type="connect", protocols=[("range", subscription("a"))])
    shard.advance(DELAY_MS)
    assert shard.group.subscribed_topics() is None
    assert not shard.group.is_subscribed("a")


def test_a_group_that_became_empty_is_subscribed_to_nothing() -> None:
    shard = Shard()
    (member,) = shard.stable(1, [("range", subscription("a"))])
    shard.leave(member)
    assert shard.group.subscribed_topics() == set()
    assert not shard.group.is_subscribed("a")


def test_topics_of_the_last_generation_count_until_the_next_begins() -> None:
    shard = Shard()
    leader, follower = shard.stable(2, [("range", subscription("a"))])
    shard.join(leader, protocols=[("range", subscription("b"))])
    assert shard.group.subscribed_topics() == {"a"}
    shard.join(follower, protocols=[("range", subscription("b"))])
    assert shard.group.subscribed_topics() == {"b"}
