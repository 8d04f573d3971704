"""Members of different clients in one group: whoever leads assigns for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.cache import Unavailable
from tests.compat.conftest import skip_without
from tests.compat.groups import Group
from tests.compat.members.flavours import FLAVOURS
from tests.compat.members.history import History, anomalies
from tests.compat.members.host import Member, wait_for
from tests.compat.servers import Server

CLASSIC = ("confluent", "kafka-python", "aiokafka")
CONSUMER = ("confluent-848", "java-848", "franz-go-848")


@pytest.fixture
def group(broker: Server, coordinators: None) -> Iterator[Group]:
    made = Group(broker.bootstrap, FLAVOURS["confluent"])
    yield made
    made.close()


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
@pytest.mark.parametrize("leader", CLASSIC)
def test_clients_share_a_group_whoever_leads_it(leader: str, assignor: str, group: Group) -> None:
    _live_together(group, [leader, *(name for name in CLASSIC if name != leader)], assignor)


def test_clients_share_a_group_that_the_broker_assigns(group: Group) -> None:
    try:
        for name in CONSUMER:
            FLAVOURS[name].shared_host()
    except Unavailable as error:
        skip_without(error)
    _live_together(group, list(CONSUMER), None)


def _live_together(group: Group, names: list[str], assignor: str | None) -> None:
    """They share the partitions, read everything once, hand over when the first leaves, and miss nothing."""
    group.write(40)

    def join(name: str) -> Member:
        return group.join(flavour=FLAVOURS[name], assignor=assignor, commit="always")

    first = join(names[0])
    group.wait_until_shared(first)
    members = [first, *map(join, names[1:])]

    def shared() -> bool:
        owned = [place for member in members for place in member.owned]
        return all(member.owned for member in members) and sorted(owned) == sorted(group.places)

    wait_for(shared, "each has something, and no partition is left out or owned twice", *members)
    group.write(40)
    group.wait_until_committed(group.ends)
    first.leave()
    group.wait_until_shared(*members[1:])
    group.write(8)
    group.wait_until_committed(group.ends)

    def found() -> list[str]:
        return anomalies(History(group.events, group.ends, group.committed()))

    # A commit may be seen at the broker before its member was heard to say what it has read.
    wait_for(lambda: not any(each.startswith("lost_records") for each in found()), "all that is read is told", *members)
    assert found() == []
    assert sum(len(member.records) for member in members) == 88, "nobody died, so nothing was read twice"
