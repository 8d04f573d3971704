"""librdkafka's queue of outgoing messages, and the thread that hears what became of them.

All delivery reports are served by that one thread. So callbacks never run inside the user's code, an interrupt
(Ctrl-C strikes the main thread) never cuts an account in two, and nobody needs to poll.

The price is a dispute over the interpreter: librdkafka asks for it once per report, and a program that sends in a tight
loop lets go of it every 5 ms. So senders give way: as soon as a report is being served they wait until all that
are ready have been (`busy`, `take_turn`, `give_way`), which is one switch for thousands of reports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as RdKafka

from bifrost.client.changes import Changes
from bifrost.client.errors import (
    BifrostError,
    InvalidRequestError,
    MessageTooLargeError,
    UnreachableError,
    from_kafka,
)
from bifrost.client.trouble import Trouble, unreachable

if TYPE_CHECKING:
    from bifrost.client.delivery import Delivery, DeliveryCallback
    from bifrost.client.ledger import Ledger

_POLL_S: Final = 0.05
_GIVE_WAY_S: Final = 0.05
_CAUSES_MAX: Final = 10
_SILENT: Final = frozenset({"_TIMED_OUT", "_TRANSPORT"})

Encoded = tuple[bytes | None, bytes | None, int, int, list[tuple[str, str | bytes | None]] | None]
"""Value, key, partition (-1: librdkafka chooses), timestamp in ms (0: now) and headers."""


class Outbox:
    """Takes messages as long as there is room, and tells when there is."""

    def __init__(self, options: Mapping[str, Any], bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.changed = Changes()
        self.busy = False
        self.closed = False
        self.failures = 0
        """Messages that were given up and of which no flush has told yet."""
        self.causes: dict[str, BifrostError] = {}
        self.callback_error: BaseException | None = None
        self._trouble = Trouble()
        self._own_error_cb = options.get("error_cb")
        self._waiting = 0
        self._flushing = 0
        try:
            self._rd = RdKafka({**options, "error_cb": self._on_error})
        except (KafkaException, TypeError, ValueError) as error:
            raise _refused(error) from error
        self._produce = self._rd.produce
        self._thread = threading.Thread(target=self._serve, name="bifrost-producer", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Messages that are neither acknowledged nor given up, and what else librdkafka has to tell."""
        return len(self._rd)

    def offer(self, ledger: Ledger, on_delivery: Callable[..., None], message: Encoded) -> bool:
        """Hand one message over; False if there is no room for it now."""
        value, key, partition, timestamp_ms, headers = message
        try:
            if headers is None:
                self._produce(ledger.topic, value, key, partition, on_delivery, None, timestamp_ms)
            else:
                self._produce(ledger.topic, value, key, partition, on_delivery, None, timestamp_ms, headers)
            ledger.sent += 1  # one step of the interpreter's: threads do not lose each other's counts
        except BufferError:
            return False
        except KafkaException as error:
            raise from_kafka(error, topic=ledger.topic, partition=partition, bootstrap=self.bootstrap) from error
        except BaseException:
            ledger.uncertain = True
            raise
        return True

    def put(self, ledger: Ledger, on_delivery: Callable[..., None], message: Encoded) -> None:
        """Hand one message over, as soon as there is room for it."""
        while not self.offer(ledger, on_delivery, message):
            length = len(self._rd)
            if length > 0:
                self.wait_for(lambda: self.is_shorter(length))  # noqa: B023  # called within this turn of the loop
            elif self.offer(ledger, on_delivery, message):
                return
            else:
                raise larger_than_queue(message)

    def is_shorter(self, length: int) -> bool:
        """Whether the queue has shrunk so much since it was full at that length that it is worth to go on."""
        return len(self._rd) <= length * 3 // 4

    def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait until deliveries have made the condition true; False if they have not in time."""
        self._refuse_to_wait_in_callbacks()
        with self.changed.lock:
            self._waiting += 1
            try:
                return self.changed.wait_for(condition, timeout_s)
            finally:
                self._waiting -= 1

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until every message is acknowledged or given up, without waiting for batches to fill."""
        self._flushing += 1
        try:
            return self.wait_for(lambda: len(self._rd) == 0, timeout_s)
        finally:
            self._flushing -= 1

    def close(self, timeout_s: float | None = None) -> None:
        """Drain, give up what is left after `timeout_s`, and end the thread."""
        if self.closed:
            return
        try:
            if threading.current_thread() is not self._thread and not self.drain(timeout_s):
                self._rd.purge()
                self.drain()
        finally:
            self.closed = True
        if threading.current_thread() is not self._thread:
            self._thread.join()
            self.busy = True  # from now on senders have to look

    def take_turn(self) -> None:
        """Delivery reports are being served from here on, until none is ready any more."""
        self.busy = True

    def give_way(self) -> None:
        """Let the reports that are ready be served. Not forever: a callback may wait for the one who waits here."""
        if self.closed:
            raise InvalidRequestError("the producer is closed", "Send inside its with block, or make another one.")
        if threading.current_thread() is not self._thread:
            self.wait_for(lambda: not self.busy, _GIVE_WAY_S)

    def note_failure(self, error: KafkaError, topic: str, partition: int) -> None:
        self.failures += 1
        if len(self.causes) < _CAUSES_MAX:
            made = from_kafka(error, topic=topic, partition=partition, bootstrap=self.bootstrap)
            self.causes.setdefault(str(made), made)

    def take_failures(self) -> tuple[int, list[BifrostError]]:
        """What has failed since this was asked last."""
        count, causes = self.failures, list(self.causes.values())
        self.failures, self.causes = 0, {}
        return count, causes

    def run_callback(self, callback: DeliveryCallback, delivery: Delivery) -> None:
        """The user's code: what it raises is kept for the next flush, because nobody could catch it here."""
        try:
            callback(delivery)
        except BaseException as error:  # also SystemExit: it would end the thread, and everybody would wait forever
            self._keep(error)

    def _keep(self, error: BaseException) -> None:
        if self.callback_error is None:
            error.add_note(f"raised by a callback of the producer for {self.bootstrap}")
            self.callback_error = error

    def partition_count(self, topic: str, timeout_s: float) -> int:
        """Ask the cluster, which may create the topic now. KafkaException and UnreachableError: no answer in time."""
        try:
            found = self._rd.list_topics(topic, timeout=timeout_s).topics[topic]
        except KafkaException as error:
            raise self._silence(error) from error
        if found.error is not None:
            raise from_kafka(found.error, topic=topic, bootstrap=self.bootstrap)
        self._trouble.clear()
        return len(found.partitions)

    def _silence(self, error: KafkaException) -> BifrostError:
        """Why nobody answers: what happened to the connections says more than that time ran out."""
        code = error.args[0].name()
        told = self._trouble.error
        made = from_kafka(error if told is None or code not in _SILENT else told, bootstrap=self.bootstrap)
        if isinstance(made, UnreachableError):
            return unreachable(self.bootstrap, self._trouble.reason, code=made.code)
        return made

    @property
    def is_cut_off(self) -> bool:
        """Whether no broker can be reached."""
        return bool(self._trouble.reason)

    def _on_error(self, error: KafkaError) -> None:
        self._trouble.on_error(error)
        if self._own_error_cb is not None:
            self._own_error_cb(error)

    def _serve(self) -> None:
        while not (self.closed and len(self._rd) == 0):
            try:
                self._rd.flush(_POLL_S) if self._flushing else self._rd.poll(_POLL_S)
            except BaseException as error:  # of a callback in config=, such as stats_cb
                self._keep(error)
            self.busy = False
            if self._waiting:
                with self.changed.lock:
                    self.changed.notify_all()

    def _refuse_to_wait_in_callbacks(self) -> None:
        if threading.current_thread() is self._thread:
            problem = "a delivery callback cannot wait for deliveries"
            raise InvalidRequestError(problem, "Nothing is delivered while it runs; wait in another thread.")


def larger_than_queue(message: Encoded) -> MessageTooLargeError:
    """Room for such a message would be waited for in vain."""
    size = len(message[0] or b"") + len(message[1] or b"")
    hint = "Raise max_queued_bytes, or send it in parts."
    return MessageTooLargeError(f"a message of {size:,} bytes is larger than the queue", hint)


def _refused(error: Exception) -> BifrostError:
    if isinstance(error, KafkaException):
        return from_kafka(error)
    return InvalidRequestError(f"librdkafka refuses its settings: {error}", "Check config=.")
