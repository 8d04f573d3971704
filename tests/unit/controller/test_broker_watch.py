"""Who is fenced and why, and whose epoch a registration gets: the watch at work on a controller and a log in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from tests.unit.controller.stand_ins import CLUSTER, MemoryLog, registration

from bifrost.broker.odin import Odin
from bifrost.clock import SystemClock
from bifrost.controller.broker_watch import BrokerWatch
from bifrost.controller.core.heartbeats import Heartbeat, HeartbeatAnswer
from bifrost.controller.core.records import DIED, SILENT, BrokerFenced, decode_change
from bifrost.controller.driver import Controller
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ApiError, ErrorCode
from bifrost.log.memory_disk import MemoryDisk
from bifrost.metrics import Metrics
from bifrost.peers.transport import TcpTransport
from bifrost.settings import Settings


class Watched:
    """A controller that leads, its watch, and what that finds where a broker listened."""

    def __init__(self, *, session_timeout_ms: int = 60_000) -> None:
        self.log = MemoryLog()
        replica = MetadataReplica(self.log)
        self.log.replicas.append(replica)
        self.controller = Controller(self.log, replica, Settings(), Random(7), on_failure=lambda _: None)
        self.is_gone: Callable[[], Awaitable[bool | None]] = lambda: _soon(True)
        self.looked = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.watch = BrokerWatch(self.controller, loop, self._look, session_timeout_ms=session_timeout_ms)
        self.controller.activate(1)

    async def _look(self, _broker_id: int) -> bool | None:
        self.looked.set()
        return await self.is_gone()

    async def hold(self) -> asyncio.Task[int]:
        """Start a change whose append waits for the gate, so that what follows is grouped."""
        self.log.gate = asyncio.Event()
        self.log.reached.clear()
        first = asyncio.ensure_future(self.watch.register(registration(9), fenced=True))
        await self.log.reached.wait()
        return first

    def let_go(self) -> None:
        assert self.log.gate is not None
        self.log.gate.set()

    async def joined(self, broker_id: int) -> int:
        """The epoch of a broker that takes part."""
        epoch = await self.watch.register(registration(broker_id), fenced=True)
        await self.beat(broker_id, epoch)
        return epoch

    async def beat(self, broker_id: int, epoch: int) -> HeartbeatAnswer:
        seen = self.controller.image.offset
        return await self.watch.heartbeat(Heartbeat(broker_id=broker_id, broker_epoch=epoch, metadata_offset=seen))

    async def fenced(self) -> list[BrokerFenced]:
        """The records that fence brokers, once there is one."""
        while True:
            if found := self.fenced_so_far():
                return found
            await asyncio.sleep(0)

    def fenced_so_far(self) -> list[BrokerFenced]:
        records = [record for value in self.log.values for record in decode_change(value)]
        return [record for record in records if isinstance(record, BrokerFenced)]


async def _soon(answer: bool | None) -> bool | None:
    await asyncio.sleep(0)
    return answer


@asynccontextmanager
async def watched(**options: int) -> AsyncIterator[Watched]:
    it = Watched(**options)
    tasks = [asyncio.ensure_future(it.controller.run()), asyncio.ensure_future(it.watch.run())]
    await it.controller.open_cluster(CLUSTER)
    try:
        yield it
    finally:
        it.watch.close()
        it.controller.close()
        await asyncio.gather(*tasks)


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))  # type: ignore[arg-type]


def test_two_registrations_in_one_commit_have_an_epoch_each() -> None:
    async def story() -> None:
        async with watched() as it:
            first = await it.hold()
            starts = [
                asyncio.ensure_future(it.watch.register(registration(1, start=start), fenced=True)) for start in (1, 2)
            ]
            await asyncio.sleep(0)
            it.let_go()
            await first
            epochs = await asyncio.gather(*starts)
            assert it.log.appends[-1] == 2, "they share an append"
            assert epochs == [it.log.end_offset - 2, it.log.end_offset - 1]
            assert it.controller.image.brokers[1].epoch == epochs[1]

    play(story)


def test_a_registration_is_answered_even_if_the_broker_is_unregistered_in_the_same_commit() -> None:
    async def story() -> None:
        async with watched() as it:
            first = await it.hold()
            start = asyncio.ensure_future(it.watch.register(registration(1), fenced=True))
            await asyncio.sleep(0)
            end = asyncio.ensure_future(it.controller.unregister_broker(1))
            await asyncio.sleep(0)
            it.let_go()
            await asyncio.gather(first, end)
            assert await start == it.log.end_offset - 2
            assert 1 not in it.controller.image.brokers

    play(story)


@pytest.mark.parametrize(("gone", "reason"), [(True, DIED), (None, SILENT)])
def test_a_broker_has_died_if_nobody_listens_where_its_connection_came_from(gone: bool | None, reason: int) -> None:
    async def story() -> None:
        async with watched() as it:
            it.is_gone = lambda: _soon(gone)
            it.watch.on_connection_lost(1, await it.joined(1))
            assert await it.fenced() == [BrokerFenced(1, reason)]

    play(story)


def test_a_broker_whose_doors_close_one_after_the_other_has_died_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bifrost.controller.broker_watch._GRACE_MS", 60_000)  # nobody waits for that

    async def story() -> None:
        async with watched() as it:
            looks = iter((False, True))
            it.is_gone = lambda: _soon(next(looks))
            it.watch.on_connection_lost(1, await it.joined(1))
            assert await it.fenced() == [BrokerFenced(1, DIED)]

    play(story)


def test_a_broker_that_cannot_be_looked_for_is_fenced_all_the_same() -> None:
    async def story() -> None:
        async with watched() as it:
            it.is_gone = asyncio.Event().wait  # for ever
            it.watch.on_connection_lost(1, await it.joined(1))
            assert await it.fenced() == [BrokerFenced(1, SILENT)]

    play(story)


def test_a_broker_that_gave_up_its_connection_and_speaks_on_another_stays() -> None:
    async def story() -> None:
        async with watched() as it:
            it.is_gone = lambda: _soon(False)
            epoch, other = await it.joined(1), await it.joined(2)
            it.watch.on_connection_lost(1, epoch)
            await it.looked.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not (await it.beat(1, epoch)).is_fenced
            it.is_gone = lambda: _soon(True)
            it.watch.on_connection_lost(2, other)  # whose turn comes behind
            assert await it.fenced() == [BrokerFenced(2, DIED)]

    play(story)


def test_a_broker_that_is_still_there_and_says_nothing_is_fenced_when_its_session_ends() -> None:
    async def story() -> None:
        async with watched(session_timeout_ms=100) as it:
            it.is_gone = lambda: _soon(False)
            it.watch.on_connection_lost(1, await it.joined(1))
            assert await it.fenced() == [BrokerFenced(1, SILENT)]

    play(story)


def test_another_start_of_a_broker_that_may_speak_again_does_not_wait_for_that() -> None:
    async def story() -> None:
        async with watched() as it:
            it.is_gone = lambda: _soon(False)
            epoch = await it.joined(1)
            it.watch.on_connection_lost(1, epoch)
            await it.looked.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert await it.watch.register(registration(1, start=2), fenced=True) > epoch

    play(story)


def test_a_heartbeat_that_changes_nothing_is_not_held_up_by_changes_that_are() -> None:
    async def story() -> None:
        async with watched() as it:
            epoch = await it.joined(1)
            first = await it.hold()
            assert not (await it.beat(1, epoch)).is_fenced
            assert not first.done()
            it.let_go()
            await first

    play(story)


def test_a_heartbeat_is_not_answered_while_its_broker_is_being_fenced() -> None:
    async def story() -> None:
        async with watched() as it:
            epoch = await it.joined(1)
            it.log.gate = asyncio.Event()
            it.log.reached.clear()
            it.watch.on_connection_lost(1, epoch)
            await it.log.reached.wait()
            beat = asyncio.ensure_future(it.beat(1, epoch))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not beat.done()
            it.let_go()
            assert (await beat).is_fenced

    play(story)


def test_a_broker_that_was_told_that_it_takes_part_is_not_fenced_for_what_was_before() -> None:
    """The decision to fence it stood in the queue for so long."""

    async def story() -> None:
        async with watched() as it:
            epoch = await it.joined(1)
            first = await it.hold()
            it.watch.on_connection_lost(1, epoch)
            await it.looked.wait()
            for _ in range(20):
                await asyncio.sleep(0)  # until it waits for its turn
            assert not (await it.beat(1, epoch)).is_fenced
            it.let_go()
            await first
            other = await it.joined(2)
            it.watch.on_connection_lost(2, other)
            assert await it.fenced() == [BrokerFenced(2, DIED)]

    play(story)


def test_what_lies_unread_in_the_sockets_when_a_session_ends_is_read_first() -> None:
    """This controller was stopped for less than it would notice, and takes a few turns to read and understand."""

    async def story() -> None:
        async with watched(session_timeout_ms=150) as it:
            epoch = await it.joined(1)
            time.sleep(0.2)  # noqa: ASYNC251  # the whole process stands still
            for _ in range(10):
                await asyncio.sleep(0)
            assert not (await it.beat(1, epoch)).is_fenced
            assert it.fenced_so_far() == []

    play(story)


def test_brokers_that_are_not_heard_of_after_a_takeover_are_looked_for_at_once_and_not_in_turn() -> None:
    async def story() -> None:
        async with watched() as it:
            for broker_id in (1, 2, 3):
                await it.joined(broker_id)
            looks, everybody = [], asyncio.Event()

            async def is_gone() -> bool:
                looks.append(1)
                if len(looks) == 3:
                    everybody.set()
                await everybody.wait()
                return True

            it.is_gone = is_gone
            looking = asyncio.ensure_future(it.watch.look_around())
            it.watch.on_active(None)
            await everybody.wait()
            it.watch.close()
            await looking

    play(story)


def test_a_broker_that_hangs_is_silent_and_not_looked_for() -> None:
    async def story() -> None:
        async with watched(session_timeout_ms=20) as it:
            await it.joined(1)
            assert await it.fenced() == [BrokerFenced(1, SILENT)]
            assert not it.looked.is_set()

    play(story)


def test_a_controller_that_was_stopped_itself_hears_what_brokers_said_meanwhile_before_it_fences_any() -> None:
    async def story() -> None:
        async with watched(session_timeout_ms=200) as it:
            epoch = await it.joined(1)
            time.sleep(1)  # noqa: ASYNC251  # the whole process stands still, as after SIGSTOP
            await asyncio.sleep(0.01)
            await it.beat(1, epoch)
            assert it.fenced_so_far() == []
            assert len(await it.fenced()) == 1, "it says nothing more"

    play(story)


def test_a_broker_that_is_heard_of_while_it_is_looked_for_is_not_fenced() -> None:
    async def story() -> None:
        async with watched() as it:
            epoch, answer = await it.joined(1), asyncio.Event()
            other = await it.joined(2)
            it.is_gone = answer.wait
            it.watch.on_connection_lost(1, epoch)
            await it.looked.wait()
            await it.beat(1, epoch)
            answer.set()
            it.watch.on_connection_lost(2, other)  # whose turn comes behind
            assert await it.fenced() == [BrokerFenced(2, DIED)]

    play(story)


def test_a_broker_that_is_heard_of_while_it_is_being_counted_out_is_watched_from_then_on() -> None:
    """It had been fenced anyway when its first connection was lost, so nothing was decided; then it took part."""

    async def story() -> None:
        async with watched() as it:
            epoch = await it.watch.register(registration(1), fenced=True)
            first = await it.hold()
            it.watch.on_connection_lost(1, epoch)
            for _ in range(10):
                await asyncio.sleep(0)  # until it waits for its turn at the log
            beat = asyncio.ensure_future(it.beat(1, epoch))
            await asyncio.sleep(0)
            it.let_go()
            await asyncio.gather(first, beat)
            assert not it.controller.image.brokers[1].fenced
            it.watch.on_connection_lost(1, epoch)
            assert await it.fenced() == [BrokerFenced(1, DIED)]

    play(story)


class Door:
    """A connection, as far as Odin looks at it."""

    def __init__(self) -> None:
        self.when_lost: dict[str, Callable[[], None]] = {}


def test_a_heartbeat_of_an_earlier_start_does_not_hide_the_death_of_the_present_one() -> None:
    async def story() -> None:
        settings = Settings(process_roles=("controller",), node_id=100, log_dirs=("data",))
        odin = Odin.open(
            settings, MemoryDisk(), transport=TcpTransport(), clock=SystemClock(), rng=Random(7), metrics=Metrics(),
            on_failure=lambda error: None,
        )  # fmt: skip
        odin.start()
        running = asyncio.ensure_future(odin.run())
        while not odin.controller.is_active:
            await odin.member.changed()
        await odin.controller.open_cluster(CLUSTER)
        lost: list[tuple[int, int]] = []
        odin._watch.on_connection_lost = lambda *start: lost.append(start)  # type: ignore[method-assign]
        epoch = await odin.register(registration(1))
        right, stale = Door(), Door()
        await odin.heartbeat(Heartbeat(broker_id=1, broker_epoch=epoch, metadata_offset=epoch), right)  # type: ignore[arg-type]
        with pytest.raises(ApiError) as refused:
            await odin.heartbeat(Heartbeat(broker_id=1, broker_epoch=epoch - 1, metadata_offset=epoch), stale)  # type: ignore[arg-type]
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        for door in (stale, right):
            for tell in door.when_lost.values():
                tell()
        assert lost == [(1, epoch)]
        await odin.stop(clean=False)
        await running

    play(story)
