"""What needs both protocols and the offsets at once: listing, describing, deleting, changing the protocol, replay."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.core.records import UnreadableRecordError
from bifrost.errors import ErrorCode
from tests.unit.coordinator.whole_shard import GROUP, WholeShard, refusal

EMPTY = "Empty"


def zoo() -> WholeShard:
    """A group of each kind."""
    shard = WholeShard()
    shard.commit({("orders", 0): 1}, group_id="simple")
    shard.join_classic("orders", group_id="classic")
    shard.leave_classic(shard.join_classic("orders", group_id="left"), group_id="left")
    shard.heartbeat("m", 0, ["orders"], group_id="consumer")
    return shard


def listed(shard: WholeShard, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
    return {group.group_id for group in shard.core.list_groups(states, types)}


def test_groups_are_listed_with_state_type_and_protocol() -> None:
    found = {
        group.group_id: (group.group_state, group.group_type, group.protocol_type)
        for group in zoo().core.list_groups((), ())
    }
    assert found == {
        "simple": (EMPTY, "classic", ""),
        "classic": ("Stable", "classic", "consumer"),
        "left": (EMPTY, "classic", "consumer"),
        "consumer": ("Stable", "consumer", "consumer"),
    }


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (("Stable",), (), {"classic", "consumer"}),
        (("stable", " EMPTY "), (), {"simple", "classic", "left", "consumer"}),
        ((), ("Consumer",), {"consumer"}),
        (("Empty",), ("classic",), {"simple", "left"}),
        (("Dead",), (), set()),
        ((), ("share",), set()),
    ],
)
def test_filters_ignore_case_and_unknown_words_match_nothing(
    states: tuple[str, ...], types: tuple[str, ...], expected: set[str]
) -> None:
    assert listed(zoo(), states, types) == expected


def test_a_simple_group_is_described_as_an_empty_one() -> None:
    described = zoo().core.describe("simple", 6)
    assert (described.error_code, described.group_state, described.protocol_type, described.members) == (
        0,
        EMPTY,
        "",
        [],
    )


def test_a_group_of_the_newer_protocol_is_not_described_by_the_older_request() -> None:
    assert zoo().core.describe("consumer", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert zoo().core.describe("consumer", 5).group_state == "Dead"


class TestDelete:
    @pytest.mark.parametrize("group_id", ["simple", "left"])
    def test_an_empty_group_goes_with_its_offsets(self, group_id: str) -> None:
        shard = zoo()
        shard.commit({("orders", 1): 1, ("payments", 0): 1}, group_id=group_id)
        shard.core.delete(group_id)
        for left in (shard, shard.restart()):
            assert group_id not in listed(left)
            assert left.fetch_all(group_id) == {}

    def test_an_empty_group_of_the_newer_protocol_goes_too(self) -> None:
        shard = zoo()
        shard.heartbeat("m", -1, group_id="consumer")
        shard.core.delete("consumer")
        assert "consumer" not in listed(shard)
        assert "consumer" not in listed(shard.restart())

    @pytest.mark.parametrize("group_id", ["classic", "consumer"])
    def test_a_group_with_members_stays(self, group_id: str) -> None:
        shard = zoo()
        assert refusal(shard.core.delete, group_id) is ErrorCode.NON_EMPTY_GROUP
        assert group_id in listed(shard)

    def test_an_unknown_group_is_not_found(self) -> None:
        assert refusal(zoo().core.delete, "nobody") is ErrorCode.GROUP_ID_NOT_FOUND

    def test_what_a_failure_leaves_can_be_deleted_again(self) -> None:
        shard = zoo()
        shard.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert refusal(shard.core.delete, "left") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard.journal.refuse_with = None
        shard.core.delete("left")
        assert "left" not in listed(shard)

    def test_a_group_with_many_offsets_is_deleted_in_batches_of_a_sane_size(self) -> None:
        shard = WholeShard()
        shard.topics.make("wide", 5_000)
        shard.commit({("wide", partition): 1 for partition in range(5_000)}, group_id="g" * 200)
        batches: list[int] = []
        append = shard.journal.append

        def counted(records: list[LogRecord]) -> None:
            batches.append(sum(len(one.key) for one in records))
            append(records)

        shard.journal.append = counted  # type: ignore[method-assign, assignment]
        shard.core.delete("g" * 200)
        assert len(batches) > 1
        assert max(batches) < 300_000
        assert listed(shard) == set()


class TestChangeOfProtocol:
    """KIP-848: while nobody is in it, a group may take the other protocol; its offsets stay."""

    def test_from_classic_to_consumer(self) -> None:
        shard = WholeShard()
        member = shard.join_classic("orders")
        shard.commit({("orders", 0): 5}, member_id=member, generation=1)
        shard.leave_classic(member)
        shard.heartbeat("m", 0, ["orders"])
        for after in (shard, shard.restart()):
            assert [group.group_type for group in after.core.list_groups((), ())] == ["consumer"]
            assert after.fetch(("orders", 0)) == [5]

    def test_from_consumer_to_classic(self) -> None:
        shard = WholeShard()
        epoch = shard.heartbeat("m", 0, ["orders"]).member_epoch
        shard.commit({("orders", 0): 5}, member_id="m", generation=epoch)
        shard.heartbeat("m", -1)
        shard.join_classic("orders")
        for after in (shard, shard.restart()):
            assert [group.group_type for group in after.core.list_groups((), ())] == ["classic"]
            assert after.fetch(("orders", 0)) == [5]

    def test_a_member_of_before_is_told_to_forget_its_id_first(self) -> None:
        shard = WholeShard()
        shard.heartbeat("m", 0, ["orders"])
        shard.heartbeat("m", -1)
        with pytest.raises(AssertionError, match=str(int(ErrorCode.UNKNOWN_MEMBER_ID))):
            shard.join_classic("orders", member_id="of a log that was lost")
        shard.join_classic("orders")

    def test_not_while_somebody_is_in_it(self) -> None:
        shard = WholeShard()
        shard.heartbeat("m", 0, ["orders"])
        with pytest.raises(AssertionError, match=str(int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))):
            shard.join_classic("orders")
        shard = WholeShard()
        shard.join_classic("orders")
        assert refusal(shard.heartbeat, "m", 0, ["orders"]) is ErrorCode.GROUP_ID_NOT_FOUND


def test_everything_is_found_again_after_a_restart() -> None:
    shard = zoo()
    again = shard.restart()
    before, after = ({one.group_id: one for one in each.core.list_groups((), ())} for each in (shard, again))
    assert after == before
    assert again.fetch_all("simple") == {("orders", 0): 1}
    assert again.core.describe("classic", 6) == shard.core.describe("classic", 6)


def test_offsets_in_deleted_topics_are_forgotten_in_every_group() -> None:
    shard = WholeShard()
    shard.commit({("orders", 0): 1, ("payments", 0): 2})
    shard.commit({("orders", 1): 1}, group_id="other")
    shard.core.topics_deleted({"orders", "unrelated"})
    for after in (shard, shard.restart()):
        assert after.fetch_all() == {("payments", 0): 2}
        assert after.fetch_all("other") == {}


def test_records_of_other_software_are_stepped_over() -> None:
    shard = WholeShard()
    shard.core.replay([(b"\x00\x63whatever", b"\x00\x00"), (b"\x00\x09", None)])
    assert listed(shard) == set()


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01\x00\x09short", b"\x00\x02\x00\x09short"])
def test_a_record_of_ours_that_makes_no_sense_is_told(key: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        WholeShard().core.replay([(key, b"\x00\x00")])


def test_who_waits_is_told_when_another_node_takes_over() -> None:
    shard = WholeShard()
    shard.join_classic("orders", group_id=GROUP)
    shard.core.unload()
    assert shard.core.groups == {}
