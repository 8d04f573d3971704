"""Groups as their users know them, with every client as it comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat import wire
from tests.compat.cache import Unavailable
from tests.compat.conftest import skip_without, unique_name
from tests.compat.groups import KILLED_AFTER_MS, PARTITIONS, Group, quiet, values
from tests.compat.members.flavours import FLAVOURS, Flavour
from tests.compat.members.host import own_host, wait_for
from tests.compat.servers import Server


@pytest.fixture(params=sorted(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    return FLAVOURS[request.param]


@pytest.fixture
def group(broker: Server, flavour: Flavour, coordinators: None) -> Iterator[Group]:
    try:
        flavour.shared_host()
    except Unavailable as error:
        skip_without(error)
    made = Group(broker.bootstrap, flavour)
    yield made
    made.close()


def lacking(group: Group, *features: str) -> None:
    missing = group.flavour.lacks.intersection(features)
    if missing:
        pytest.skip(f"{group.flavour.name} has no {', '.join(sorted(missing))}")


def test_partitions_are_shared_and_handed_over(group: Group) -> None:
    """One reads all, two share; more members than partitions leaves one idle and ready, which replaces who leaves."""
    group.write(40)
    first = group.join()
    group.wait_until_shared(first)
    group.wait_until_read(40, first)
    assert values(first) == sorted(f"{partition}/{offset}" for partition in range(4) for offset in range(10))

    second = group.join()
    group.wait_until_shared(first, second)

    crowd = [first, second, *(group.join() for _ in range(PARTITIONS - 1))]

    def one_each() -> bool:
        owned = sorted(len(member.owned) for member in crowd)
        return owned == [0, 1, 1, 1, 1] and set().union(*(member.owned for member in crowd)) == group.places

    wait_for(one_each, "one partition each, and one member without", *crowd)
    (idle,) = (member for member in crowd if not member.owned)
    leaver = next(member for member in crowd if member.owned)
    leaver.leave()
    rest = [member for member in crowd if member is not leaver]
    group.wait_until_shared(*rest)
    assert idle.owned, "the idle one was ready"


def test_a_killed_member_is_replaced(group: Group) -> None:
    """It says nothing; the group misses its heartbeats."""
    group.write(40)
    survivor = group.join(session_ms=KILLED_AFTER_MS)
    with own_host(group.flavour.make_host) as host:
        victim = group.join(host, session_ms=KILLED_AFTER_MS)
        group.wait_until_shared(survivor, victim)
        host.kill()
    group.wait_until_shared(survivor)
    before = len(survivor.records)
    group.write(8)
    wait_for(
        lambda: {"0/10", "1/10", "2/10", "3/10"} <= {record.value for record in survivor.records[before:]},
        "the survivor reads what comes later from all partitions",
        survivor,
    )


def test_who_comes_back_goes_on_at_the_commit(group: Group) -> None:
    """After a synchronous commit, an asynchronous one, and one that the client made by itself."""
    group.write(8)
    reader = group.join()
    group.wait_until_read(8, reader)
    if "manual-commit" not in group.flavour.lacks:
        assert reader.commit(sync=True).kind == "committed"
        assert group.committed() == group.ends
        group.write(8)
        group.wait_until_read(16, reader)
        assert reader.commit(sync=False).kind == "committed"
    reader.leave()
    group.wait_until_committed(group.ends)

    group.write(4)
    again = group.join(commit="auto")
    group.wait_until_read(4, again)
    if "manual-commit" not in group.flavour.lacks:
        group.wait_until_committed(group.ends)  # while it is still in; kcat commits every five seconds
    again.leave()
    group.wait_until_committed(group.ends)

    group.write(4)
    last = group.join()
    group.wait_until_read(4, last)
    group.wait_until_shared(last)
    start = group.ends[group.topic, 0] - 1
    assert values(last) == [f"{partition}/{start}" for partition in range(4)], "each record once, none of the old ones"


def test_without_a_commit_the_client_chooses_where_to_begin(group: Group) -> None:
    group.write(8)
    late = group.join(reset="latest")
    group.wait_until_shared(late)

    def write_until_it_reads() -> bool:
        """The client does not tell when it has found the end of the log."""
        group.write(4)
        return len({record.partition for record in late.records}) == PARTITIONS

    wait_for(write_until_it_reads, "new records reach all partitions", late)
    assert all(record.offset >= 2 for record in late.records)
    late.leave()


def test_a_static_member_restarts_unnoticed(group: Group) -> None:
    lacking(group, "static")
    names = [unique_name("instance") for _ in range(2)]
    group.write(4)
    stays, goes = (group.join(instance=name) for name in names)
    group.wait_until_shared(stays, goes)
    share = set(goes.owned)
    goes.leave()
    before = len(stays.events)
    returned = group.join(instance=names[1])
    group.wait_until_shared(stays, returned)
    assert returned.owned == share
    changes = [event for event in stays.events[before:] if event.kind in ("assigned", "revoked", "lost")]
    assert not any(event.places for event in changes), "nobody else was disturbed"


def test_cooperative_members_keep_what_they_have(group: Group) -> None:
    """Only what moves is revoked (KIP-429); the broker's own assignors never revoke more (KIP-848)."""
    wanted: dict[str, Any] = {"assignor": "cooperative-sticky"}
    if group.flavour.protocol == "consumer":
        wanted = {}
    else:
        lacking(group, "cooperative")
    first = group.join(**wanted)
    group.wait_until_shared(first)
    second = group.join(**wanted)
    group.wait_until_shared(first, second)
    given_up = {place for event in first.events if event.kind in ("revoked", "lost") for place in event.places}
    assert given_up == second.owned
    second.leave()
    group.wait_until_shared(first)
    again = {place for event in first.events if event.kind in ("revoked", "lost") for place in event.places}
    assert again == given_up, "taking over costs nothing"


def test_a_pattern_finds_topics_also_later_ones(group: Group) -> None:
    family = unique_name("family")
    topics = [f"{family}.{number}" for number in range(2)]
    wire.create_topic(group.bootstrap, topics[0], 2)
    member = group.join(topics=(), pattern=f"^{family}.*")
    wait_for(lambda: member.owned == {(topics[0], 0), (topics[0], 1)}, "the topic that matches", member)
    if group.flavour.protocol == "consumer" or "later-topics" in group.flavour.lacks:
        return
    wire.create_topic(group.bootstrap, topics[1], 1)
    wait_for(lambda: (topics[1], 0) in member.owned, "a topic that matches and came later", member)


@pytest.mark.parametrize("flavour", [FLAVOURS["confluent-848"]], ids=str)
def test_the_broker_finds_later_topics_for_a_pattern(broker: Server, group: Group) -> None:
    """KIP-848 leaves regular expressions to the broker, which looks every ten seconds."""
    if broker.name == "kafka" and "COMPAT_SLOW" not in os.environ:
        pytest.skip("seen to pass, and slow")
    family = unique_name("family")
    wire.create_topic(group.bootstrap, f"{family}.0", 1)
    member = group.join(topics=(), pattern=f"^{family}.*")
    wait_for(lambda: member.owned == {(f"{family}.0", 0)}, "the topic that matches", member)
    wire.create_topic(group.bootstrap, f"{family}.1", 1)
    wait_for(lambda: (f"{family}.1", 0) in member.owned, "a topic that matches and came later", member)


@pytest.mark.parametrize("flavour", [FLAVOURS["confluent"], FLAVOURS["java-848"]], ids=str)
def test_a_member_that_stops_polling_is_replaced(group: Group) -> None:
    """Its client gives up its place, though its heartbeats went on; when it polls again it is back."""
    group.is_judged = False
    limits: dict[str, Any] = {"session_ms": KILLED_AFTER_MS, "max_poll_ms": KILLED_AFTER_MS}
    group.write(4)
    lively, sleepy = group.join(**limits), group.join(**limits)
    group.wait_until_shared(lively, sleepy)
    sleepy.stall(KILLED_AFTER_MS / 1000 + 2)
    wait_for(lambda: lively.owned == group.places, "the lively one has all", lively, sleepy)
    assert quiet([lively], 0.3)
    wait_for(lambda: len(lively.owned) == len(sleepy.owned) == PARTITIONS // 2, "the other is back", lively, sleepy)
