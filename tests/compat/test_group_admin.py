"""Groups are listed, described, deleted, and their offsets moved, through the admin clients of two libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.clients.base import ClientError
from tests.compat.clients.group_admin import GROUP_ADMINS, GroupAdmin, Listed
from tests.compat.groups import Group
from tests.compat.members.flavours import FLAVOURS
from tests.compat.members.host import Member
from tests.compat.servers import Server

UNKNOWN_MEMBER_ID = 25
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86


@pytest.fixture(params=sorted(GROUP_ADMINS))
def groups(request: pytest.FixtureRequest, broker: Server, coordinators: None) -> GroupAdmin:
    admin: GroupAdmin = GROUP_ADMINS[request.param](broker.bootstrap)
    return admin


@pytest.fixture(params=["confluent", "confluent-848"])
def group(request: pytest.FixtureRequest, broker: Server, coordinators: None) -> Iterator[Group]:
    made = Group(broker.bootstrap, FLAVOURS[request.param])
    yield made
    made.close()


@pytest.fixture
def reader(group: Group) -> Member:
    """The only member, which has read and committed two records of each partition."""
    group.write(8)
    member = group.join()
    group.wait_until_shared(member)
    group.wait_until_read(8, member)
    assert member.commit().kind == "committed"
    return member


def _refused(code: int, call: Callable[[], None]) -> None:
    with pytest.raises(ClientError) as refusal:
        call()
    assert refusal.value.code == code, refusal.value


def test_groups_are_listed_by_state_and_type(groups: GroupAdmin, group: Group, reader: Member) -> None:
    kind = group.flavour.protocol
    other = "consumer" if kind == "classic" else "classic"
    assert groups.list()[group.name] == Listed("stable", kind)
    assert group.name in groups.list(state="stable", kind=kind)
    assert group.name not in groups.list(state="empty")
    assert group.name not in groups.list(kind=other)
    reader.leave()
    assert groups.list()[group.name] == Listed("empty", kind)
    assert group.name in groups.list(state="empty")


def test_a_group_is_described_with_its_members(groups: GroupAdmin, group: Group, reader: Member) -> None:
    if groups.name == "kafka-python" and group.flavour.protocol == "consumer":
        pytest.skip("kafka-python describes classic groups only")
    found = groups.describe(group.name)
    assert found.state == "stable"
    assert found.assignor == ("range" if group.flavour.protocol == "classic" else "uniform")
    assert dict(found.members) == {reader.name: frozenset(group.places)}
    reader.leave()
    left = groups.describe(group.name)
    assert (left.state, dict(left.members)) == ("empty", {})


def test_a_group_is_deleted_once_it_is_empty(groups: GroupAdmin, group: Group, reader: Member) -> None:
    _refused(NON_EMPTY_GROUP, lambda: groups.delete(group.name))
    reader.leave()
    groups.delete(group.name)
    assert group.name not in groups.list()
    assert groups.offsets(group.name) == {}
    _refused(GROUP_ID_NOT_FOUND, lambda: groups.delete(group.name))


def test_offsets_are_moved_while_nobody_is_in(groups: GroupAdmin, group: Group, reader: Member) -> None:
    """A member that comes later begins where they were moved to."""
    assert groups.offsets(group.name) == dict.fromkeys(group.places, 2)
    _refused(UNKNOWN_MEMBER_ID, lambda: groups.alter_offsets(group.name, {(group.topic, 0): 0}))
    reader.leave()
    groups.alter_offsets(group.name, {(group.topic, 0): 0, (group.topic, 3): 1})
    moved = {(group.topic, 0): 0, (group.topic, 1): 2, (group.topic, 2): 2, (group.topic, 3): 1}
    assert groups.offsets(group.name) == moved
    again = group.join()
    group.wait_until_shared(again)
    group.wait_until_read(3, again)
    assert sorted(record.value for record in again.records) == ["0/0", "0/1", "3/1"]


def test_offsets_of_topics_nobody_reads_are_deleted(groups: GroupAdmin, group: Group, reader: Member) -> None:
    if "delete-offsets" in groups.lacks:
        pytest.skip(f"{groups.name} has no call for it")
    _refused(GROUP_SUBSCRIBED_TO_TOPIC, lambda: groups.delete_offsets(group.name, {(group.topic, 0)}))
    reader.leave()
    groups.delete_offsets(group.name, {(group.topic, 0)})
    assert groups.offsets(group.name) == {(group.topic, partition): 2 for partition in (1, 2, 3)}
    _refused(GROUP_ID_NOT_FOUND, lambda: groups.delete_offsets("no-such-group", {(group.topic, 0)}))
