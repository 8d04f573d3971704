"""A leader makes sure that it leads before it says what is so."""

from __future__ import annotations

import asyncio

import pytest

from bifrost.errors import ApiError, ErrorCode
from bifrost.raft.confirming import LeadershipCheck
from tests.unit.raft.lab import Lab, Machine
from tests.unit.raft.test_quorum_member import play


def check_of(lab: Lab, machine: Machine) -> LeadershipCheck:
    return LeadershipCheck(machine.running, lab.transport(machine))


async def refusal(check: LeadershipCheck) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        await check.confirm()
    return refused.value.code


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_a_leader_is_confirmed_and_told_everything_that_is_committed(voters: int) -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"a", b"b")
        leader = await lab.leader()
        check = check_of(lab, leader)
        assert await check.confirm() == leader.running.core.high_watermark
        check.close()

    play(story, voters)


def test_a_follower_is_not() -> None:
    async def story(lab: Lab) -> None:
        leader = await lab.leader()
        follower = next(machine for machine in lab.up if machine is not leader)
        check = check_of(lab, follower)
        assert await refusal(check) is ErrorCode.NOT_CONTROLLER
        check.close()

    play(story)


def test_a_leader_whose_others_are_dead_is_not_although_it_still_believes_that_it_leads() -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"a")
        leader = await lab.leader()
        check = check_of(lab, leader)
        for machine in [machine for machine in lab.up if machine is not leader]:
            await machine.stop(clean=False)
        assert leader.running.core.leads
        assert await refusal(check) is ErrorCode.NOT_CONTROLLER
        check.close()

    play(story)


def test_a_leader_whose_voters_have_moved_on_to_another_epoch_is_not() -> None:
    """It hears from nobody what has happened; only those it asks know."""

    async def story(lab: Lab) -> None:
        await lab.commit(b"a")
        leader = await lab.leader()
        check = check_of(lab, leader)
        for machine in lab.up:
            if machine is not leader:
                core = machine.running.core
                core._detach(core.epoch + 1, machine.running.now_ms())
        assert leader.running.core.leads
        assert await refusal(check) is ErrorCode.NOT_CONTROLLER
        check.close()

    play(story)


def test_whoever_asks_later_is_not_told_what_was_asked_before() -> None:
    """A question that is under way when somebody else asks must not serve for it: its answer may be of the past. All
    who ask meanwhile share the next one."""

    async def story(lab: Lab) -> None:
        await lab.commit(b"a")
        leader = await lab.leader()
        voter = check_of(lab, leader)._others[0]
        first = voter.ask()
        await asyncio.sleep(0)  # it has begun
        second = voter.ask()
        assert second is not first
        assert voter.ask() is second
        assert await asyncio.gather(first, second) == [leader.running.core.epoch] * 2
        assert voter.ask() is not second

    play(story)
