"""An idempotent producer on the wire that asks one broker only and keeps five requests under way, whoever leads."""

from __future__ import annotations

import threading
from collections import Counter, deque
from types import TracebackType
from typing import Final, Self

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.producers import InitProducerIdRequest
from bifrost.types import TopicPartition
from tests.integration.wire import Wire, batch
from tests.waiting import PATIENCE_S

IN_FLIGHT: Final = 5
_REPEATED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""What librdkafka and the Java client both repeat a write for."""


class PipelinedWriter:
    """Writes numbers from 0 on, each in a batch whose sequence it is, from a thread, for as long as a `with` block.

    As librdkafka does, it sends nothing more after a failure until all answers are there, and then repeats in order.
    """

    def __init__(self, address: str, tp: TopicPartition) -> None:
        self._wire = Wire(address)
        self._wire.socket.settimeout(PATIENCE_S)
        self._tp = tp
        given = self._wire.call(4, InitProducerIdRequest(transaction_timeout_ms=0))
        assert given.error_code == 0
        self._producer_id, self._producer_epoch = given.producer_id, given.producer_epoch
        self.acknowledged: dict[int, int] = {}
        """Numbers, and the offsets that were told for them."""
        self.refusals: Counter[ErrorCode] = Counter()
        self._written = 0
        self._failure: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._wire.socket.close()
        if self._failure is not None:
            raise self._failure

    def has_written(self, count: int) -> bool:
        """Whether so many are acknowledged; raises what ended the writer, if anything has."""
        if self._failure is not None:
            raise self._failure
        return len(self.acknowledged) >= count

    def verify(self, address: str) -> None:
        """Everything is there, once, in order, and where its acknowledgement said."""
        with Wire(address) as wire:
            found = wire.read(self._tp.topic, partition=self._tp.partition)
        assert [int(record.value or b"") for record in found] == list(range(self._written))
        assert {int(record.value or b""): record.offset for record in found} == self.acknowledged

    def _run(self) -> None:
        try:
            self._write()
        except (AssertionError, OSError) as error:  # told to whoever asks
            self._failure = error

    def _write(self) -> None:
        under_way: deque[int] = deque()
        again: deque[int] = deque()
        failed: list[int] = []
        while under_way or again or not self._stopped.is_set():
            while len(under_way) < IN_FLIGHT and not failed and (again or not self._stopped.is_set()):
                number = again.popleft() if again else self._take_number()
                self._send(number)
                under_way.append(number)
            if under_way and not self._is_acknowledged(number := under_way.popleft()):
                failed.append(number)
            if failed and not under_way:
                again, failed = deque(sorted([*failed, *again])), []

    def _take_number(self) -> int:
        self._written += 1
        return self._written - 1

    def _send(self, number: int) -> None:
        records = batch(
            b"%d" % number,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=number,
        )
        self._wire.send_produce(self._tp.topic, records, partition=self._tp.partition)

    def _is_acknowledged(self, number: int) -> bool:
        """Take the answer to the oldest request."""
        _, response = self._wire.receive_produce()
        (result,) = response.topics[0].partitions
        code = ErrorCode(result.error_code)
        if code is ErrorCode.NONE:
            self.acknowledged[number] = result.base_offset
            return True
        self.refusals[code] += 1
        is_first = all(earlier in self.acknowledged for earlier in range(max(0, number - IN_FLIGHT), number))
        expected = code in _REPEATED or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first)
        assert expected, f"{number} was refused: {code.name} {result.error_message}"
        return False
