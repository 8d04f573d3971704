"""Produced batches that somebody has to look into first, and what follows when that is done.

The connection starts nothing else meanwhile: what it has sent stays in order, whichever partition it is for, and a
client that sends large batches has one of its requests in memory and the rest in its socket.

Must never: answer for a partition before its batch is appended or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bifrost.broker.appending import Unopened, append_opened
from bifrost.broker.connection import Connection
from bifrost.broker.context import Broker
from bifrost.broker.produce_answer import LED_ELSEWHERE, PendingProduce, Write, copy_result
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.frame import RequestHeader
from bifrost.protocol.produce import PartitionProduceResult, ProduceRequest

_HELD: Final = "batches to be looked into"


class UnopenedWrite(NamedTuple):
    """A part of a request, and the place for its answer."""

    unopened: Unopened
    result: PartitionProduceResult
    write: Write


def append_when_opened(
    broker: Broker,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    writes: Sequence[UnopenedWrite],
    pending: PendingProduce | None,
) -> None:
    """Begin with it. Without a pending answer (acks=0) a failure ends the connection."""
    slots = [-1 if pending is None else pending.take_slot(one.result, one.write) for one in writes]
    connection.hold(_HELD)

    async def work() -> None:
        waiting = dict(zip(slots, writes)) if pending is not None else {}
        try:
            for slot, one in zip(slots, writes):
                await _append(broker, connection, header, request, one, pending, slot)
                waiting.pop(slot, None)
        finally:
            if pending is not None and waiting:  # this node stops, or has a bug: nobody may wait for an answer
                for one in waiting.values():
                    one.result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
                pending.settle(waiting)
            connection.release(_HELD)

    broker.forwarding.spawn(connection, work())


async def _append(
    broker: Broker,
    connection: Connection,
    header: RequestHeader,
    request: ProduceRequest,
    one: UnopenedWrite,
    pending: PendingProduce | None,
    slot: int,
) -> None:
    (name, index), batch = one.write.tp, one.unopened.batch
    told = await broker.inspector.inspect(batch, one.unopened.rules)
    now_ms = broker.clock.now_ms()
    outcome = append_opened(broker, request, name, index, batch, told, now_ms)
    if isinstance(outcome, PartitionProduceResult):
        copy_result(outcome, one.result)
        if outcome.error_code in LED_ELSEWHERE:
            broker.forwarding.hold_back(connection, header.client_id, *one.write)
        if pending is None:
            connection.fail(ApiError(ErrorCode.NETWORK_EXCEPTION, "an unacknowledged write failed"))
    else:
        partition, appended = outcome
        result = one.result
        result.base_offset, result.log_append_time_ms = appended.base_offset, appended.append_time_ms
        result.log_start_offset = partition.log.log_start_offset
        if pending is not None and not partition.is_acknowledged(appended.last_offset + 1, request.acks):
            pending.park(partition, appended.last_offset + 1, slot)
            return
    if pending is not None:
        pending.settle([slot])
