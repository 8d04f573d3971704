"""Somebody who writes all the time, and knows what was acknowledged: what a cluster does meanwhile must not be seen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.waiting import PATIENCE_S

_EMPTY = 400
_AT_ONCE = 200


class SteadyWriter:
    """Writes numbers, each once, with acks=all and idempotence, from a thread, for as long as a `with` block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0, "what was written is not acknowledged"

    def verify(self) -> None:
        """Everything that was acknowledged can be read, once."""
        assert not self.failed, self.failed[:3]
        assert self.acknowledged
        counts = Counter(self._read())
        missing = self.acknowledged - counts.keys()
        doubled = [number for number, times in counts.items() if times > 1]
        assert not missing, f"{len(missing)} lost, such as {sorted(missing)[:5]}"
        assert not doubled, f"{len(doubled)} doubled, such as {doubled[:5]}"

    def _write(self) -> None:
        number = 0
        while not self._stopped.wait(0.01):
            for _ in range(_AT_ONCE):
                try:
                    self._producer.produce(
                        self._topic, str(number).encode().ljust(_EMPTY), on_delivery=self._note(number)
                    )
                    number += 1
                except BufferError:
                    break
            self._producer.poll(0)

    def _note(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.failed.append(str(error))

        return note

    def _read(self) -> list[int]:
        """All partitions, each to the end that it has now."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
        )
        try:
            known = consumer.list_topics(self._topic, timeout=PATIENCE_S).topics[self._topic].partitions
            ends = {
                each: consumer.get_watermark_offsets(TopicPartition(self._topic, each), timeout=PATIENCE_S)[1]
                for each in known
            }
            consumer.assign([TopicPartition(self._topic, each, 0) for each in known])
            found: list[int] = []
            while any(ends.values()):
                message = consumer.poll(PATIENCE_S)
                assert message is not None, "the end was not reached"
                assert message.error() is None, message.error()
                found.append(int(message.value() or b""))
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if offset + 1 >= ends[partition]:
                    ends[partition] = 0
            return found
        finally:
            consumer.close()
