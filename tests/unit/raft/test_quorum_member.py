"""Members with their drivers, storage and Kafka's messages between them: elections, commits, snapshots, comebacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bifrost.errors import ApiError, ErrorCode
from bifrost.raft.core.roles import Follower, Prospective
from tests.unit.raft.lab import Lab, running


def play(story: Callable[[Lab], Awaitable[None]], voters: int = 3, observers: int = 0) -> None:
    async def run() -> None:
        async with running(voters, observers) as lab:
            await story(lab)

    asyncio.run(run())


def test_a_quorum_of_one_leads_at_once() -> None:
    async def story(lab: Lab) -> None:
        assert lab[1].running.core.leads
        await lab.commit(b"a", b"b")
        assert list(lab[1].committed.values()) == [b"a", b"b"]

    play(story, voters=1)


@pytest.mark.parametrize("voters", [3, 5])
def test_what_is_committed_reaches_everybody(voters: int) -> None:
    async def story(lab: Lab) -> None:
        for number in range(20):
            await lab.commit(b"%d" % number)
        assert all(machine.committed == lab[1].committed for machine in lab.up)
        assert list(lab[1].committed.values()) == [b"%d" % number for number in range(20)]

    play(story, voters, observers=2)


def test_another_leads_after_a_death_and_nothing_is_lost() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        dead = await lab.leader()
        await dead.stop(clean=False)
        await lab.commit(b"after")
        dead.start()
        await lab.commit(b"together")
        assert list(dead.committed.values()) == [b"before", b"after", b"together"]
        assert dead.running.core.epoch > 1

    play(story, observers=1)


def test_a_leader_that_stops_hands_over() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        leader = await lab.leader()
        epoch = leader.running.core.epoch
        await leader.stop(clean=True)
        successor = await lab.leader()
        assert successor.running.core.epoch == epoch + 1, "it took more than one election"
        await lab.commit(b"after")

    play(story)


def test_without_a_majority_nothing_is_committed_and_with_one_it_goes_on() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        leader = await lab.leader()
        others = [machine for machine in lab.up if machine is not leader]
        for machine in others:
            await machine.stop(clean=False)
        leader.running.propose([b"alone"], leader.running.core.epoch)
        await lab.until(lambda: not leader.running.core.leads)
        assert list(leader.committed.values()) == [b"before"]
        others[0].start()
        await lab.commit(b"after")
        others[1].start()
        await lab.commit(b"together")
        assert {b"before", b"after", b"together"} <= set(leader.committed.values())
        assert all(machine.committed == leader.committed for machine in lab.up)

    play(story)


def test_a_cut_link_to_the_leader_disturbs_nobody_else() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        leader = await lab.leader()
        lonely = next(machine for machine in lab.up if machine is not leader)
        lab.cut.add(frozenset((leader.me, lonely.me)))
        for cable in lonely.cables:
            cable.abort()
        epoch = leader.running.core.epoch
        for role in (Prospective, Follower, Prospective, Follower):  # it asks for support, and gets none
            await lab.until(lambda role=role: isinstance(lonely.running.core.role, role))  # type: ignore[misc]
        assert (leader.running.core.leads, leader.running.core.epoch) == (True, epoch)
        lab.cut.clear()
        await lab.commit(b"after")

    play(story)


def test_whoever_has_slept_through_a_snapshot_is_sent_it() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"first")
        leader = await lab.leader()
        late = next(machine for machine in lab.up if machine is not leader)
        await late.stop(clean=False)
        for number in range(3):
            await lab.commit(b"%d" % number)
            (await lab.leader()).snapshot()
        leader = await lab.leader()
        assert leader.running.storage.start_offset > 0
        late.start()
        await lab.commit(b"last")
        assert late.running.storage.start_offset > 0
        assert late.committed == leader.committed

    play(story)


def test_an_empty_disk_is_filled_again() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"first")
        leader = await lab.leader()
        wiped = next(machine for machine in lab.up if machine is not leader)
        await wiped.stop(clean=False)
        wiped.disk = type(wiped.disk)()
        leader.snapshot()
        await lab.commit(b"second")
        wiped.start()
        await lab.commit(b"third")
        assert wiped.committed == leader.committed

    play(story)


def test_a_restart_finds_what_was_committed_behind_a_snapshot() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"a")
        lab[1].snapshot()
        await lab.commit(b"b")
        lab[1].snapshot()
        await lab.commit(b"c")
        before = lab[1].committed
        await lab[1].stop(clean=True)
        lab[1].start()
        await lab.until(lambda: lab[1].committed == before)
        await lab.commit(b"d")

    play(story, voters=1)


def test_only_the_leader_of_the_epoch_appends() -> None:
    async def story(lab: Lab) -> None:
        leader = await lab.leader()
        follower = next(machine for machine in lab.up if machine is not leader)
        for machine, epoch in ((follower, leader.running.core.epoch), (leader, leader.running.core.epoch - 1)):
            with pytest.raises(ApiError) as refused:
                machine.running.propose([b"x"], epoch)
            assert refused.value.code is ErrorCode.NOT_CONTROLLER

    play(story)
