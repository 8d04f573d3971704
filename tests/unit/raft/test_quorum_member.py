"""Members with their drivers, storage and Kafka's messages between them: elections, commits, snapshots, comebacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.protocol.fetch.request import FetchRequest
from bifrost.protocol.fetch.response import FetchResponse, decode_response
from bifrost.raft import fetching, wire
from bifrost.raft.core.messages import ElectionState, LogEnd, SnapshotId, Vote
from bifrost.raft.core.roles import Follower, Prospective
from tests.sim.disk import FaultyDisk
from tests.unit.raft.lab import TIMING, Lab, running


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


def test_a_snapshot_that_is_spoilt_on_its_way_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lab: Lab) -> None:
        leader = await lab.leader()
        late = next(machine for machine in lab.up if machine is not leader)
        await late.stop(clean=False)
        for number in range(3):
            await lab.commit(b"%d" % number)
            (await lab.leader()).snapshot()
        snapshots = (await lab.leader()).running.storage.snapshots
        whole, spoilt = snapshots.piece, 0

        def piece(snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[memoryview, int]:
            nonlocal spoilt
            data, size = whole(snapshot, position, max_bytes)
            spoilt += 1
            return (memoryview(bytes([data[0], *data[1:-1], data[-1] ^ 1])) if spoilt == 1 else data), size

        monkeypatch.setattr(snapshots, "piece", piece)
        late.start()
        await lab.commit(b"last")
        assert spoilt > 1
        assert late.committed == (await lab.leader()).committed

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


def test_an_observer_pauses_between_questions_that_nobody_can_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not lead says so at once: without a pause every broker would keep every Odin busy until one leads."""

    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        voters, observer = [lab[1], lab[2], lab[3]], lab[100]
        lab.cut |= {frozenset((one.me, other.me)) for one in voters for other in voters if one is not other}
        for machine in voters:
            for cable in machine.cables:
                cable.abort()
        await lab.until(lambda: not any(machine.running.core.leads for machine in voters))
        loop, asked_at = asyncio.get_running_loop(), []

        def counted(fetch: Callable[[FetchRequest], Awaitable[FetchResponse]]) -> object:
            async def ask(request: FetchRequest) -> FetchResponse:
                asked_at.append(loop.time())
                return await fetch(request)

            return ask

        for machine in voters:
            assert machine.service is not None
            monkeypatch.setattr(machine.service, "fetch", counted(machine.service.fetch))
        await lab.until(lambda: len(asked_at) >= 10)
        pause_s = observer.running.settings.retry_backoff_ms / 1000
        # One of them may still name another, which is asked at once: so there is a pause after every second question.
        assert asked_at[9] - asked_at[0] >= 4 * pause_s
        lab.cut.clear()
        await lab.commit(b"after")  # which the observer hears of, too

    play(story, observers=1)


@pytest.mark.parametrize("failure", [StorageError, DiskFullError])
def test_a_vote_that_was_not_written_down_is_not_given_when_it_is_asked_for_again(
    failure: type[StorageError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        leader = await lab.leader()
        voter = next(machine for machine in lab.up if machine is not leader)
        core, service = voter.running.core, voter.service
        assert service is not None

        def refuse(state: ElectionState) -> None:
            raise failure("quorum-state", "the disk failed")

        monkeypatch.setattr(voter.running.storage, "store_election", refuse)
        candidate = next(one for one in core.voters if one != voter.me)
        vote = Vote(core.epoch + 1, candidate, LogEnd(core.epoch, 1 << 20), is_pre_vote=False, is_newborn=False)
        for _ in ("asked", "asked again"):
            with pytest.raises(StorageError):
                service.vote(wire.vote_request(vote, voter.me, None))
        assert voter.running.stopping, "it has nothing to say any more"
        voter.failures.clear()

    play(story)


@pytest.mark.parametrize("at", [11, 16, 100], ids=["length", "format", "records"])
def test_records_that_are_spoilt_on_their_way_are_fetched_again(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        storage, spoilt = (await lab.leader()).running.storage, 0
        whole = storage.read

        def read(offset: int, max_bytes: int) -> memoryview:
            nonlocal spoilt
            data = bytearray(whole(offset, max_bytes))
            if len(data) > at and spoilt < 3:
                spoilt += 1
                data[at] ^= 0x7F
            return memoryview(data)

        monkeypatch.setattr(storage, "read", read)
        await lab.commit(b"after" * 20)
        assert spoilt == 3

    play(story, observers=1)


def test_an_answer_that_makes_no_sense_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        spoilt = 0

        def decode(body: memoryview, at: int, version: int) -> FetchResponse:
            nonlocal spoilt
            spoilt += 1
            return decode_response(body[:5] if spoilt <= 3 else body, at, version)

        monkeypatch.setattr(fetching, "decode_response", decode)
        await lab.commit(b"after")
        assert spoilt > 3

    play(story, observers=1)


@pytest.mark.parametrize("slept", [False, True], ids=["records", "snapshot"])
@pytest.mark.parametrize("is_voter", [False, True])
def test_whose_disk_is_full_hears_the_rest_when_there_is_room(is_voter: bool, slept: bool) -> None:
    async def story(lab: Lab) -> None:
        await lab.commit(b"before")
        leader = await lab.leader()
        full = next(one for one in lab.up if one is not leader and (one.me in leader.running.core.voters) == is_voter)
        await full.stop(clean=True)
        disk = full.disk = FaultyDisk(Random(1))
        full.start()
        await lab.commit(b"also before")
        others = {frozenset((full.me, other.me)) for other in lab.up if other is not full}
        if slept:
            lab.cut |= others
            for cable in full.cables:
                cable.abort()
        for number in range(3):
            offset = leader.running.propose([b"%d" % number], leader.running.core.epoch)
            await lab.until(lambda offset=offset: offset in leader.committed)  # type: ignore[misc]
            disk.space_left = 0
            if slept:
                leader.snapshot()
        lab.cut -= others
        await asyncio.sleep(3 * TIMING.fetch_timeout_ms / 1000)
        assert (full.failures, full.running.core.leader) == ([], leader.me)
        assert offset not in full.committed
        disk.space_left = None
        await lab.until(lambda: full.committed == leader.committed)

    play(story, observers=1)
