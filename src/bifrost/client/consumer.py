"""The consumer: reads topics message by message or batch by batch, alone or as a member of a group.

This file is what applications see; `reader.py` does the reading, `ownership.py` the rebalances, `committer.py` commits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from bifrost.client import clusters, consumer_options
from bifrost.client.committer import Commit, Committer
from bifrost.client.consumer_options import BadMessage, Delivery, GroupProtocol, Rebalanced
from bifrost.client.decoding import Decoder
from bifrost.client.discovery import Discovery, group_pattern
from bifrost.client.errors import InvalidRequestError, TimedOutError
from bifrost.client.inbox import Inbox
from bifrost.client.lookups import Lookups
from bifrost.client.message import Message
from bifrost.client.navigation import Name, Navigator, Partitions, Place, named
from bifrost.client.options import names_of
from bifrost.client.ownership import Callback, Callbacks, Ownership
from bifrost.client.positions import OffsetTable
from bifrost.client.progress import Mark, Progress
from bifrost.client.reader import SLICE_S, Reader
from bifrost.client.serialization import Format
from bifrost.client.trouble import Trouble
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 10.0
Handled = Message[Any, Any] | Mapping[tuple[str, int], int] | None
"""What to commit: up to and including a message, up to offsets per partition, or None: all that was given out."""


class Consumer:
    """Reads messages.

    >>> for message in Consumer("readings", value="json", from_beginning=True, until_end=True):
    ...     print(message.key, message.value["celsius"])
    b'garden' 21.5
    b'cellar' 12.0

    With a group the work is shared, and what was handled is committed: whoever reads on for the group, reads on there.

    >>> with Consumer("readings", group="alarms", value="json", from_beginning=True, timeout_s=5) as consumer:
    ...     for message in consumer:
    ...         if message.value["celsius"] < 15:
    ...             print("cold:", message.key)
    ...             break
    cold: b'cellar'

    At the end of the `with` block, what was handled is committed and the group is left. If the block ends in an
    exception, the message it failed with is not committed: it is given out again, here or at another member. The same
    holds for `close()`, which cannot know how far the application got with the last message; `commit()` says so.

    A broker that goes away costs no code: reading goes on when it, or another one, is there. Not for use by several
    threads at a time.

    topics
        What to read; or call `subscribe()` or `assign()` later.
    bootstrap, cluster
        Where: see `bifrost.client.clusters` for what is used when neither is given.
    group
        The group to join. Without one, all partitions are read, and nothing is committed.
    pattern
        A regular expression for whole names, instead of topics. Topics that match later are read too.
    from_beginning
        Start with the first message where the group has committed nothing (or there is no group); else with new ones.
    until_end
        Iteration ends when every partition has been read to its end; a partition that grows meanwhile ends once, too.
    timeout_s
        Iteration ends when no message has come for so many seconds.
    key, value
        "bytes", "str", "json", "msgpack", or a function that takes bytes. None stays None.
    on_bad_message
        Called with a message (as bytes) whose key or value cannot be read, and the error, instead of raising it.
    delivery
        "at_least_once": committed after a message was handled; a crash repeats some. "at_most_once": committed before
        it is given out; a crash loses some (about a twentieth of a second's worth), and none is ever repeated.
    auto_commit, commit_interval_s
        Commit what was handled from time to time. With False, only `commit()` and `commit_async()` do.
    group_protocol
        "classic", or "consumer" (KIP-848), which the cluster has to know.
    instance_id
        Makes the member static: when it comes back in time, no rebalance takes place.
    on_assigned, on_revoked, on_lost
        Called with the consumer and a list of partitions when they come and go. `seek()` and `pause()` work in the
        first, `commit()` in the second. Without `on_lost`, `on_revoked` is called for partitions that were taken away.
    request_timeout_s
        How long the cluster may take to answer a question before it counts as unreachable.
    config
        More settings of librdkafka, by its names.
    """

    def __init__(
        self,
        *topics: str | Sequence[str],
        bootstrap: str | Sequence[str] | None = None,
        cluster: str | None = None,
        group: str | None = None,
        pattern: str | None = None,
        from_beginning: bool = False,
        until_end: bool = False,
        timeout_s: float | None = None,
        key: Format | Callable[[bytes], Any] = "bytes",
        value: Format | Callable[[bytes], Any] = "bytes",
        on_bad_message: BadMessage | None = None,
        delivery: Delivery = "at_least_once",
        auto_commit: bool = True,
        commit_interval_s: float = 5.0,
        group_protocol: GroupProtocol = "classic",
        instance_id: str | None = None,
        on_assigned: Rebalanced | None = None,
        on_revoked: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
        request_timeout_s: float = 10.0,
        config: Mapping[str, object] | None = None,
    ) -> None:
        consumer_options.check(
            group=group, delivery=delivery, auto_commit=auto_commit, group_protocol=group_protocol, config=config
        )
        connection = clusters.resolve(bootstrap, cluster=cluster)
        options = consumer_options.librdkafka_options(
            connection, group=group, from_beginning=from_beginning, until_end=until_end,
            group_protocol=group_protocol, instance_id=instance_id, config=config,
        )  # fmt: skip
        decoder = Decoder(key, value, on_bad_message)
        self._closed = False
        self._bootstrap = connection.bootstrap
        self._group = group
        self._from_beginning = from_beginning
        self._timeout_s = timeout_s
        self._at_most_once = delivery == "at_most_once"
        self._source = "nothing"
        told: list[KafkaError] = []
        trouble = Trouble()

        def on_error(error: KafkaError) -> None:
            told.append(error)
            trouble.on_error(error)

        self._raw = consumer_options.open_raw(options | {"error_cb": on_error}, self._bootstrap)
        self._lookups = Lookups(self._raw, self._bootstrap, request_timeout_s, trouble)
        self._committer = Committer(self._raw, group or consumer_options.NO_GROUP, self._bootstrap)
        inbox = Inbox()
        self._progress = Progress(self._raw, inbox)
        self._owner = Ownership(
            self._raw, inbox, self._progress, self._committer,
            Callbacks(self._bound(on_assigned), self._bound(on_revoked), self._bound(on_lost)),
            settles=group is not None and auto_commit,
            cooperative=consumer_options.is_cooperative(group_protocol, config),
        )  # fmt: skip
        self._reader = Reader(
            self._raw, inbox, self._progress, self._committer, self._owner, decoder,
            at_most_once=self._at_most_once,
            commit_interval_s=commit_interval_s if group and auto_commit and not self._at_most_once else None,
            until_end=until_end, bootstrap=self._bootstrap, group=group, told=told,
        )  # fmt: skip
        self._navigator = Navigator(self._raw, self._lookups, self._owner, self._reader, inbox, self._progress)
        if topics or pattern is not None:
            self._start(topics, pattern)

    def subscribe(self, *topics: str | Sequence[str], pattern: str | None = None) -> None:
        """Read these topics, or those whose whole name matches the pattern, instead of what was read before.

        Topics that begin to match later are found within some seconds. A list of names is as good as the names.
        UnknownTopicError if one of them does not exist, UnreachableError if nobody is there to say.
        """
        self._check_open()
        if bool(topics) == (pattern is not None):
            raise InvalidRequestError("subscribe() needs topics or a pattern", "Give one of both.")
        names = [name for given in topics for name in names_of(given)]
        wanted = [group_pattern(pattern)] if pattern is not None else sorted(set(names))
        self._reader.reset()
        if self._group is None:
            discovery = Discovery(self._lookups, self._owner, names, pattern, from_beginning=self._from_beginning)
            discovery.begin()
            self._reader.chores.append(discovery.look)
        else:
            self._lookups.partitions(names) if names else self._lookups.all_topics()
            self._owner.subscribe(wanted)
        self._source = f"pattern={pattern!r}" if pattern is not None else f"topics={','.join(wanted)}"

    def assign(self, partitions: tuple[str, int] | Iterable[tuple[str, int]] | Mapping[tuple[str, int], Place]) -> None:
        """Read exactly these partitions; nobody else's business, also in a group.

        A mapping says where to start: at an offset, at the "beginning" or the "end"; None is what the group has
        committed, or without a group the place that `from_beginning` says.

        >>> consumer = Consumer()
        >>> consumer.assign({("readings", 0): 1})
        >>> consumer.poll(timeout=10).offset
        1
        >>> consumer.close()
        """
        self._check_open()
        if isinstance(partitions, Mapping):
            places = {TopicPartition(*partition): place for partition, place in partitions.items()}
        else:
            places = dict.fromkeys(named(partitions))
        self._reader.reset()
        usual: Name = "beginning" if self._from_beginning else "end"
        self._navigator.assign(places, usual if self._group is None else None)
        self._source = f"partitions={','.join(map(str, places))}"

    def seek(
        self,
        partitions: Partitions = None,
        *,
        offset: int | None = None,
        timestamp: datetime | int | None = None,
        to: Name | None = None,
    ) -> None:
        """Go on at an offset, at the first message of a time (a datetime, or milliseconds since 1970), or at an end.

        For all assigned partitions unless some are named. InvalidRequestError if there is no such offset.

        >>> with Consumer("readings") as consumer:
        ...     consumer.seek(to="beginning")
        ...     consumer.poll(timeout=10).key
        b'garden'
        """
        self._check_open()
        self._navigator.seek(partitions, offset=offset, timestamp=timestamp, to=to)

    def pause(self, partitions: Partitions = None) -> None:
        """Give out nothing of these partitions, or of all, until `resume()`; the group notices nothing."""
        self._check_open()
        self._navigator.pause(partitions)

    def resume(self, partitions: Partitions = None) -> None:
        """Go on where `pause()` stopped."""
        self._check_open()
        self._navigator.resume(partitions)

    def poll(self, timeout: float | None = None) -> Message[Any, Any] | None:
        """The next message, or None if there is none within `timeout` seconds (None: for ever; 0: do not wait)."""
        self._check_open()
        ready = self._reader.ready_now() or self._make_ready(timeout)
        return self._reader.take() if ready else None

    def batch(self, max_messages: int = 500, timeout: float = 1.0) -> list[Message[Any, Any]]:
        """Up to so many messages: as many as come within `timeout` seconds, perhaps none.

        The batch counts as handled as a whole, when the application comes back for more.
        """
        return self._reader.take_batch(max_messages) if self._make_ready(timeout, max_messages) else []

    def batches(self, max_messages: int = 500, timeout: float = 1.0) -> Iterator[list[Message[Any, Any]]]:
        """Batches without end, or to the end that `until_end` or `timeout_s` sets; never an empty one."""
        quiet_since = monotonic()
        while True:
            messages = self.batch(max_messages, timeout)
            if messages:
                yield messages
                quiet_since = monotonic()
            elif self._is_over(quiet_since):
                return

    def commit(self, handled: Handled = None, *, timeout: float = 60.0) -> dict[TopicPartition, int]:
        """Commit now, and wait for it: everything given out so far (it counts as handled), or what is named.

        Returns what was committed. CommitError says why it was not, and what that means.

        >>> with Consumer("readings", group="by-hand", auto_commit=False, from_beginning=True) as consumer:
        ...     message = consumer.poll(timeout=30)
        ...     consumer.commit(message)
        {TopicPartition(topic='readings', partition=0): 1}
        """
        commit = self.commit_async(handled)
        try:
            return commit.result(timeout)
        except TimeoutError as error:
            raise TimedOutError(
                f"no answer to a commit of group {self._group} in {timeout} seconds",
                "It may still succeed; until then the messages may be read again.",
            ) from error

    def commit_async(self, handled: Handled = None) -> Commit:
        """As `commit()`, without waiting: a future of what was committed. Commits keep the order of the calls."""
        self._check_open()
        while not self._committer.is_idle(SLICE_S):
            pass  # one at a time
        if self._group is None:
            raise InvalidRequestError("there is no group to commit for", "Give the consumer a group=.")
        if handled is None:
            if not self._owner.calling_back:  # there, what is in hand may be what failed
                self._progress.release()
            return self._committer.submit(self._progress.handled(self._owner.assigned))
        if isinstance(handled, Message):
            marks = {handled.topic_partition: Mark(handled.offset + 1, handled.leader_epoch)}
        else:
            marks = {TopicPartition(*each): Mark(offset) for each, offset in handled.items()}
        self._progress.settle(marks)
        return self._committer.submit(marks)

    def offsets(self) -> OffsetTable:
        """How far this consumer is: position, committed offset, end and lag of every partition it has.

        >>> consumer = Consumer("readings", from_beginning=True)
        >>> print(consumer.offsets())
        topic     partition  position  committed  end  lag
        readings          0         0          -    2    2
        >>> consumer.close()
        """
        self._check_open()
        return self._navigator.offsets(grouped=self._group is not None)

    def position(self, topic: str, partition: int) -> int | None:
        """The offset of the next message of this partition; None as long as the group has not said where to start."""
        self._check_open()
        return self._navigator.position(self._navigator.select((topic, partition))[0])

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer has now."""
        return sorted(self._owner.assigned)

    def close(self) -> None:
        """Commit what was handled (unless `auto_commit=False`) and leave the group. Can be called again."""
        if self._closed:
            return
        if self._at_most_once:
            self._progress.release()  # given out is given out: it must never come again
        self._reader.reset()
        try:
            self._owner.release_all()
        finally:
            self._closed = True
        if self._committer.close(CLOSE_TIMEOUT_S):
            self._raw.close()
        else:
            # librdkafka would wait for the coordinator for as long as a session lasts.
            logger.warning("closed before the last commit was answered, messages may be repeated group=%s", self._group)
            threading.Thread(target=self._raw.close, daemon=True).start()
        self._owner.raise_failure()

    def __iter__(self) -> Iterator[Message[Any, Any]]:
        self._check_open()
        return self._reader.messages(lambda: self._make_ready(self._timeout_s))

    def __next__(self) -> Message[Any, Any]:
        message = self.poll(self._timeout_s)
        if message is None:
            raise StopIteration
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._progress.release()
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"assigned={','.join(map(str, self.assignment)) or 'none'}"
        group = f" group={self._group}" if self._group is not None else ""
        return f"<Consumer {self._source}{group} {state} at {self._bootstrap}>"

    def _make_ready(self, timeout: float | None, want: int = 1) -> bool:
        """Whether messages can be taken, now or after a while; what was taken before is handled."""
        self._check_open()
        self._progress.release()
        return self._reader.make_ready(timeout, want)

    def _is_over(self, quiet_since: float) -> bool:
        late = self._timeout_s is not None and monotonic() - quiet_since >= self._timeout_s
        return late or self._reader.at_end()

    def _start(self, topics: Sequence[str | Sequence[str]], pattern: str | None) -> None:
        try:
            self.subscribe(*topics, pattern=pattern)
        except BaseException:
            self.close()
            raise

    def _bound(self, callback: Rebalanced | None) -> Callback:
        return None if callback is None else lambda partitions: callback(self, partitions)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidRequestError("this consumer is closed", "Make a new one.")
