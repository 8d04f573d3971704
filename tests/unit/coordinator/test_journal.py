"""No answer leaves before what it tells is as safe as an acks=all write, and every request gets one."""

from __future__ import annotations

import asyncio

import pytest

from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.journal import Answer, Journal
from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.log.config import FlushPolicy
from bifrost.protocol.batch import read_header
from bifrost.protocol.compression import Codec
from bifrost.types import NodeId
from tests.unit.broker.stand_ins import on_loop, turns, until
from tests.unit.coordinator.led_partition import ME, FixedClock, LedPartition

RECORDS = [LogRecord(b"k1", b"v1"), LogRecord(b"k2", None)]


def journal_of(
    led: LedPartition, *, codec: Codec = Codec.NONE, timeout_ms: int = 5_000, failures: list[StorageError] | None = None
) -> Journal:
    return Journal(
        led.partition,
        led.waiters,
        loop=asyncio.get_running_loop(),
        clock=FixedClock(),
        codec=codec,
        timeout_ms=timeout_ms,
        on_storage_error=(failures if failures is not None else []).append,
    )


def outcome(answer: Answer[str]) -> str | ErrorCode | None:
    if not answer.outcome.done():
        return None
    error = answer.outcome.exception()
    return error.code if isinstance(error, ApiError) else answer.outcome.result()


@on_loop
async def test_records_are_one_batch_in_the_current_leader_epoch() -> None:
    led = LedPartition()
    led.lead()
    journal_of(led, codec=Codec.ZSTD).append(RECORDS)
    assert led.records() == RECORDS
    header = read_header(bytes(led.log.segments[-1].file.read_at(100, 0)))
    assert (header.record_count, header.leader_epoch, header.codec) == (2, 1, Codec.ZSTD)


@on_loop
async def test_an_answer_waits_until_all_that_was_appended_before_it_is_safe() -> None:
    led = LedPartition()
    journal = journal_of(led)
    first, second, question = Answer[str](journal), Answer[str](journal), Answer[str](journal)
    journal.append(RECORDS)
    first("first")
    led.sync()
    assert outcome(first) == "first"
    journal.append(RECORDS)
    second("second")
    question("nothing appended, but it may tell of what was")
    assert (outcome(second), outcome(question)) == (None, None)
    led.sync()
    assert (outcome(second), outcome(question)) == ("second", "nothing appended, but it may tell of what was")
    assert len(led.waiters) == 0


@on_loop
async def test_an_answer_leaves_at_once_when_all_is_safe() -> None:
    journal = journal_of(LedPartition())
    answer = Answer[str](journal)
    answer("here")
    assert outcome(answer) == "here"


@on_loop
async def test_what_waits_on_the_partition_is_woken_soon_but_not_in_the_midst_of_a_decision() -> None:
    led = LedPartition(policy=FlushPolicy.OS)
    journal = journal_of(led)
    woken = []

    class Reader:
        def on_progress(self, _partition: object) -> None:
            woken.append(True)

    led.waiters.park_fetch(led.partition.tp, Reader())
    journal.append(RECORDS)
    assert woken == []
    await turns()
    assert woken == [True]


@on_loop
async def test_who_waits_too_long_is_told_to_try_again() -> None:
    led = LedPartition()
    journal = journal_of(led, timeout_ms=1)
    answer = Answer[str](journal)
    journal.append(RECORDS)
    answer("too late")
    await until(answer.outcome.done)
    assert outcome(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    led.sync()
    assert len(led.waiters) == 0


@on_loop
async def test_when_the_leadership_is_lost_what_waits_is_not_told_as_true() -> None:
    led = LedPartition()
    journal = journal_of(led)
    answer = Answer[str](journal)
    journal.append(RECORDS)
    answer("maybe lost")
    led.partition.resign()
    assert outcome(answer) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ApiError) as refused:
        journal.append(RECORDS)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


@on_loop
async def test_another_epoch_of_the_same_node_is_another_leadership() -> None:
    led = LedPartition()
    journal = journal_of(led)
    answer, later = Answer[str](journal), Answer[str](journal)
    journal.append(RECORDS)
    answer("of the old epoch")
    led.lead()
    led.sync()
    assert outcome(answer) is ErrorCode.NOT_COORDINATOR
    later("of the old epoch")
    assert outcome(later) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ApiError):
        journal.append(RECORDS)


@on_loop
async def test_closing_answers_everybody_and_lets_the_last_words_through() -> None:
    led = LedPartition()
    journal = journal_of(led)
    waiting, parked = Answer[str](journal), Answer[str](journal)
    journal.append(RECORDS)
    waiting("never known to be safe")
    journal.close()
    assert outcome(waiting) is ErrorCode.NOT_COORDINATOR
    parked("ask somebody else")
    assert outcome(parked) == "ask somebody else"


@on_loop
async def test_an_answer_for_a_client_that_is_gone_is_dropped() -> None:
    led = LedPartition()
    journal = journal_of(led)
    parked, held = Answer[str](journal), Answer[str](journal)
    journal.append(RECORDS)
    held("held")
    for answer in (parked, held):
        answer.outcome.cancel()
    parked("nobody listens")
    led.sync()
    assert len(led.waiters) == 0


@on_loop
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageError("/d", "broken"), ErrorCode.NOT_COORDINATOR),
        (DiskFullError("/d", "full"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_disk_that_fails_is_told_as_clients_of_groups_understand_it(
    error: StorageError, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    led = LedPartition()
    failures: list[StorageError] = []
    journal = journal_of(led, failures=failures)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(led.log), "append", fail)
    with pytest.raises(ApiError) as refused:
        journal.append(RECORDS)
    assert refused.value.code is code
    assert failures == [error]


@on_loop
async def test_too_few_replicas_in_sync_is_told_as_clients_of_groups_understand_it() -> None:
    led = LedPartition()
    journal = journal_of(led)
    led.partition.lead(led.epoch, (ME, NodeId(2)), frozenset({ME}), led.epoch + 1)
    led.partition.min_insync_replicas = 2
    with pytest.raises(ApiError) as refused:
        journal.append(RECORDS)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert led.records() == []
