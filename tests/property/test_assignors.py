"""The assignors' promises, whoever reads whatever: every partition has one owner, evenly, and moves only if it must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.coordinator.core.assignors import ASSIGNORS
from bifrost.coordinator.core.assignors.subscribers import Assignment, Subscriber

TOPICS = [UUID(int=number) for number in range(1, 6)]
assign_uniformly, assign_ranges = ASSIGNORS["uniform"], ASSIGNORS["range"]

partition_counts = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in TOPICS})
topic_sets = st.frozensets(st.sampled_from(TOPICS), max_size=len(TOPICS))
member_ids = st.lists(st.integers(0, 99).map("m{}".format), min_size=1, max_size=9, unique=True)
anybody = st.dictionaries(st.integers(0, 99).map("m{}".format), topic_sets, min_size=1, max_size=9)
both = pytest.mark.parametrize("name", list(ASSIGNORS))


def fresh(topics: Mapping[str, frozenset[UUID]]) -> dict[str, Subscriber]:
    return {member_id: Subscriber(read, {}) for member_id, read in topics.items()}


def after(assigned: Mapping[str, Assignment], topics: Mapping[str, frozenset[UUID]]) -> dict[str, Subscriber]:
    """The same members, or others, as they were assigned before."""
    return {member_id: Subscriber(read, assigned.get(member_id, {})) for member_id, read in topics.items()}


def owners(assigned: Mapping[str, Assignment]) -> dict[tuple[UUID, int], str]:
    pairs = [
        ((topic, partition), member_id)
        for member_id, mine in assigned.items()
        for topic in mine
        for partition in mine[topic]
    ]
    assert len(pairs) == len(dict(pairs)), "a partition has two owners"
    return dict(pairs)


def loads(assigned: Mapping[str, Assignment]) -> list[int]:
    return [sum(map(len, mine.values())) for mine in assigned.values()]


@both
@given(topics=anybody, counts=partition_counts, data=st.data())
def test_every_partition_that_somebody_reads_has_one_owner_who_reads_it(
    name: str, topics: dict[str, frozenset[UUID]], counts: dict[UUID, int], data: st.DataObject
) -> None:
    assigned = ASSIGNORS[name](fresh(topics), counts)
    changed = data.draw(anybody)
    for members, found in ((topics, assigned), (changed, ASSIGNORS[name](after(assigned, changed), counts))):
        assert found.keys() == members.keys()
        read = frozenset[UUID]().union(*members.values())
        assert owners(found).keys() == {(topic, number) for topic in read for number in range(counts[topic])}
        assert all(mine.keys() <= members[member_id] for member_id, mine in found.items())
        assert all(all(mine.values()) for mine in found.values()), "a topic without partitions is left out"


@given(members=member_ids, topics=topic_sets, counts=partition_counts)
def test_members_alike_differ_by_one_at_most(
    members: list[str], topics: frozenset[UUID], counts: dict[UUID, int]
) -> None:
    found = loads(assign_uniformly(fresh(dict.fromkeys(members, topics)), counts))
    assert max(found) - min(found) <= 1


@given(members=member_ids, counts=partition_counts, data=st.data())
def test_members_alike_keep_as_much_as_evenness_allows(
    members: list[str], counts: dict[UUID, int], data: st.DataObject
) -> None:
    topics = frozenset(TOPICS)
    before = assign_uniformly(fresh(dict.fromkeys(members, topics)), counts)
    now = data.draw(member_ids)
    changed = assign_uniformly(after(before, dict.fromkeys(now, topics)), counts)
    assert max(loads(changed)) - min(loads(changed)) <= 1
    most = -(-sum(counts.values()) // len(now))
    moved = [partition for partition, owner in owners(before).items() if owners(changed)[partition] != owner]
    surplus = {member_id: load - most for member_id, load in zip(before, loads(before)) if member_id in now}
    given_up = Counter(owners(before)[partition] for partition in moved if owners(before)[partition] in now)
    for member_id, count in given_up.items():
        assert count <= max(surplus[member_id] + 1, 0), "it gave up more than it had too many"


@given(members=member_ids.filter(lambda members: len(members) > 1), counts=partition_counts, data=st.data())
def test_when_somebody_leaves_only_its_partitions_move(
    members: list[str], counts: dict[UUID, int], data: st.DataObject
) -> None:
    topics = frozenset(TOPICS)
    before = assign_uniformly(fresh(dict.fromkeys(members, topics)), counts)
    left = data.draw(st.sampled_from(members))
    rest = dict.fromkeys([member_id for member_id in members if member_id != left], topics)
    changed = owners(assign_uniformly(after(before, rest), counts))
    assert all(changed[partition] == owner for partition, owner in owners(before).items() if owner != left)


@given(members=member_ids, counts=partition_counts)
def test_when_nothing_changes_nothing_moves(members: list[str], counts: dict[UUID, int]) -> None:
    subscribers = dict.fromkeys(members, frozenset(TOPICS))
    before = assign_uniformly(fresh(subscribers), counts)
    assert assign_uniformly(after(before, subscribers), counts) == before


@given(topics=anybody, counts=partition_counts)
def test_different_members_cannot_be_made_more_even_by_moving_one_partition(
    topics: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    assigned = assign_uniformly(fresh(topics), counts)
    load = dict(zip(assigned, loads(assigned)))
    for (topic, _), owner in owners(assigned).items():
        assert all(load[owner] - load[reader] <= 1 for reader, read in topics.items() if topic in read)
    assert assign_uniformly(after(assigned, topics), counts) == assigned, "what is even stays as it is"


@given(members=member_ids, count=st.integers(1, 12), data=st.data())
def test_ranges_of_equal_topics_are_cut_at_the_same_places(members: list[str], count: int, data: st.DataObject) -> None:
    first, second, *_ = TOPICS
    topics = {member_id: frozenset([first, second]) for member_id in members}
    assigned = assign_ranges(fresh(topics), {first: count, second: count})
    for mine in assigned.values():
        assert mine.get(first) == mine.get(second)
        numbers = sorted(mine.get(first, ()))
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    found = loads(assigned)
    assert max(found) - min(found) <= 2, "one for each topic"


def test_ranges_go_to_static_members_first_by_their_instances() -> None:
    topic = TOPICS[0]
    subscribers = {
        "a": Subscriber(frozenset([topic]), {}),
        "b": Subscriber(frozenset([topic]), {}, "z"),
        "c": Subscriber(frozenset([topic]), {}, "y"),
    }
    assigned = assign_ranges(subscribers, {topic: 4})
    assert assigned == {"c": {topic: {0, 1}}, "b": {topic: {2}}, "a": {topic: {3}}}


@both
def test_nobody_gets_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}) == {}
    assert ASSIGNORS[name]({"a": Subscriber(frozenset(), {})}, {}) == {"a": {}}


def test_a_target_that_names_a_partition_twice_is_mended() -> None:
    """Such as one whose writing was cut short by another version."""
    topic = TOPICS[0]
    twice = {topic: frozenset([0, 1])}
    for read in (frozenset([topic]), frozenset(TOPICS[:2])):
        subscribers = {"a": Subscriber(frozenset([topic]), twice), "b": Subscriber(read, twice)}
        assert owners(assign_uniformly(subscribers, dict.fromkeys(TOPICS, 2))).keys() >= {(topic, 0), (topic, 1)}
