"""`bifrost.Admin`: consumer groups, against Bifrost and Apache Kafka alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import bifrost
from bifrost.client.descriptions import GroupOffset
from bifrost.types import TopicPartition
from tests.compat.clients.base import Record
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction, StartBroker, unique_name
from tests.compat.consumers import leave_a_trace, reading, write
from tests.compat.servers import Server
from tests.waiting import eventually

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def api(broker: Server, coordinators: None) -> Iterator[bifrost.Admin]:
    with bifrost.Admin(broker.bootstrap) as made:
        yield made


@pytest.fixture
def topic(broker: Server, new_topic: NewTopicFunction) -> str:
    """Three records in partition 0, five in partition 1."""
    name: str = new_topic(2)
    write(broker.bootstrap, name, {0: 3, 1: 5})
    return name


@pytest.fixture
def empty_group(broker: Server, topic: str) -> str:
    """Has read all of the topic."""
    name = unique_name("group")
    leave_a_trace(broker.bootstrap, name, topic, count=8)
    return name


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_shown_with_their_address_and_what_they_own(
    api: bifrost.Admin, broker: Server, topic: str, protocol: str
) -> None:
    name = unique_name("group")
    with reading(broker.bootstrap, name, topic, count=8, protocol=protocol, client_id="till-7"):
        write(broker.bootstrap, topic, {1: 2})
        group = api.group(name)
        (listed,) = [each for each in api.groups() if each.name == name]
    assert (group.state, group.protocol) == (listed.state, listed.protocol) == ("Stable", protocol)
    (member,) = group.members
    assert (member.client_id, member.host, member.instance_id) == ("till-7", "127.0.0.1", None)
    assert member.partitions == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert group.offsets == (
        GroupOffset(topic, 0, committed=3, start=0, end=3, member=member.id),
        GroupOffset(topic, 1, committed=5, start=0, end=7, member=member.id),
    )
    assert [each.lag for each in group.offsets] == [0, 2]
    assert group.lag == 2
    assert group.coordinator is not None


def test_a_partition_without_a_commit_has_no_lag_that_could_be_told(
    api: bifrost.Admin, topic: str, empty_group: str
) -> None:
    api.reset_offsets(api.plan_reset(empty_group, {topic: [0]}, to=1))
    api.add_partitions(topic, 3)
    assert [(each.partition, each.committed, each.lag, each.member) for each in api.group(empty_group).offsets] == [
        (0, 1, 2, None),
        (1, 5, 0, None),
    ]


def test_a_group_that_has_committed_nothing_has_no_lag_that_could_be_told(api: bifrost.Admin, topic: str) -> None:
    name = unique_name("group")
    with bifrost.Consumer(topic, bootstrap=api.bootstrap, group=name, auto_commit=False) as consumer:
        eventually(lambda: consumer.poll(0.1) is not None or consumer.assignment)
        group = api.group(name)
    assert group.offsets
    assert (group.lag, group.untold) == (None, len(group.offsets))


def test_a_deleted_topic_takes_its_offsets_along_or_shows_without_an_end(
    api: bifrost.Admin, topic: str, empty_group: str
) -> None:
    """Apache Kafka forgets the offsets with the topic; a broker need not have done so yet."""
    api.delete_topic(topic)
    try:
        offsets = api.group(empty_group).offsets
    except bifrost.UnknownGroupError:  # all it had is gone, so the group is, too
        return
    assert all(each.end is None and each.lag is None for each in offsets)


def test_a_group_that_is_not_there_is_answered_with_the_nearest(api: bifrost.Admin, empty_group: str) -> None:
    wrong = empty_group[:-1]
    for ask in (
        lambda: api.group(wrong),
        lambda: api.delete_group(wrong),
        lambda: api.plan_reset(wrong, to="earliest"),
    ):
        with pytest.raises(bifrost.UnknownGroupError) as caught:
            ask()
        assert caught.value.hint == f"Did you mean {empty_group}?"
    assert api.delete_group(wrong, missing_ok=True) is False


def test_a_group_is_deleted_with_its_offsets(api: bifrost.Admin, empty_group: str) -> None:
    assert api.delete_group(empty_group) is True
    assert empty_group not in [each.name for each in api.groups()]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_neither_reset_nor_deleted(
    api: bifrost.Admin, broker: Server, topic: str, protocol: str
) -> None:
    name = unique_name("group")
    with reading(broker.bootstrap, name, topic, count=8, protocol=protocol):
        plan = api.plan_reset(name, to="earliest")
        assert plan.state == "Stable"
        with pytest.raises(bifrost.GroupNotEmptyError, match="Stop its consumers first"):
            api.reset_offsets(plan)
        with pytest.raises(bifrost.GroupNotEmptyError, match="Stop its consumers first"):
            api.delete_group(name)
        assert api.group(name).lag == 0
    api.reset_offsets(plan)
    assert api.group(name).lag == 8


def moves(plan: object) -> list[tuple[int, int | None, int]]:
    return [(each.partition, each.current, each.new) for each in plan.changes]  # type: ignore[attr-defined]


def test_a_plan_changes_nothing(api: bifrost.Admin, empty_group: str) -> None:
    assert moves(api.plan_reset(empty_group, to="earliest")) == [(0, 3, 0), (1, 5, 0)]
    assert api.group(empty_group).lag == 0


def test_a_reset_is_to_the_first_the_next_or_any_offset_or_by_so_many(
    api: bifrost.Admin, topic: str, empty_group: str
) -> None:
    api.reset_offsets(api.plan_reset(empty_group, [topic], to="earliest"))
    assert api.group(empty_group).lag == 8
    assert moves(api.plan_reset(empty_group, [topic], to="latest")) == [(0, 0, 3), (1, 0, 5)]
    assert moves(api.plan_reset(empty_group, {topic: [1]}, to=2)) == [(1, 0, 2)]
    api.reset_offsets(api.plan_reset(empty_group, {topic: None}, shift_by=2))
    assert moves(api.plan_reset(empty_group, shift_by=-1)) == [(0, 2, 1), (1, 2, 1)]
    given = {TopicPartition(topic, 1): 4}
    assert moves(api.plan_reset(empty_group, to=given)) == [(1, 2, 4)]


def test_offsets_that_are_not_there_become_the_nearest_that_are(
    api: bifrost.Admin, topic: str, empty_group: str
) -> None:
    beyond = api.plan_reset(empty_group, [topic], to=4)
    assert moves(beyond) == [(0, 3, 3), (1, 5, 4)]
    assert [each.note for each in beyond.changes] == ["4 is after the end", ""]
    before = api.plan_reset(empty_group, [topic], shift_by=-4)
    assert moves(before) == [(0, 3, 0), (1, 5, 1)]


def test_a_reset_by_time(api: bifrost.Admin, broker: Server, new_topic: NewTopicFunction) -> None:
    topic, name = new_topic(1), unique_name("group")
    now_ms = int(time.time() * 1000)
    stamped = [Record(b"x", partition=0, timestamp_ms=now_ms - hours * HOUR_MS) for hours in (5, 4, 3, 2, 1)]
    Confluent(broker.bootstrap).produce(topic, stamped)
    moment = datetime.fromtimestamp((now_ms - 4 * HOUR_MS) / 1000, UTC)
    assert moves(api.plan_reset(name, [topic], to=moment)) == [(0, None, 1)]
    assert moves(api.plan_reset(name, [topic], to=timedelta(hours=2.5))) == [(0, None, 3)]
    assert moves(api.plan_reset(name, [topic], to=timedelta(0))) == [(0, None, 5)]


def test_a_reset_makes_a_group_that_is_not_there_yet(api: bifrost.Admin, topic: str) -> None:
    name = unique_name("group")
    plan = api.plan_reset(name, [topic], to="latest")
    assert plan.state == "Dead"
    api.reset_offsets(plan)
    assert [each.committed for each in api.group(name).offsets] == [3, 5]


def test_a_reset_of_what_is_not_there_is_refused(api: bifrost.Admin, topic: str, empty_group: str) -> None:
    with pytest.raises(bifrost.UnknownPartitionError, match=r"has no partition 2\. It has partitions 0 to 1"):
        api.plan_reset(empty_group, {topic: [0, 2]}, to="earliest")
    with pytest.raises(bifrost.UnknownTopicError):
        api.plan_reset(empty_group, [unique_name("nothing")], to="earliest")
    with pytest.raises(bifrost.InvalidRequestError, match="that could be shifted"):
        api.plan_reset(unique_name("group"), [topic], shift_by=1)
    with pytest.raises(bifrost.InvalidRequestError, match="one target"):
        api.plan_reset(empty_group, [topic])
    with pytest.raises(bifrost.InvalidRequestError, match="one target"):
        api.plan_reset(empty_group, [topic], to="latest", shift_by=1)


@pytest.mark.parametrize("kind", [pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def test_groups_can_be_asked_for_before_their_coordinator_has_loaded(start_broker: StartBroker, kind: str) -> None:
    """The first question of all makes the topic of the groups, and its answer has to wait for it."""
    with bifrost.Admin(start_broker(kind).bootstrap) as api:
        api.create_topic("orders")
        for number in range(20):
            api.reset_offsets(api.plan_reset(f"group-{number}", ["orders"], to="latest"))
            assert api.group(f"group-{number}").lag == 0


def test_the_same_calls_can_be_awaited(broker: Server, topic: str, empty_group: str) -> None:
    async def life_of_a_group() -> None:
        async with bifrost.AsyncAdmin(broker.bootstrap) as api:
            assert empty_group in [each.name for each in await api.groups()]
            await api.reset_offsets(await api.plan_reset(empty_group, [topic], to="earliest"))
            assert (await api.group(empty_group)).lag == 8
            assert await api.delete_group(empty_group)

    asyncio.run(life_of_a_group())
