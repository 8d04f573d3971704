"""Nobody acts on an epoch that is over, as seen from outside: by the metadata that the quorum has committed, and not by
what the broker in question has heard of it.

A leader that was fenced and does not know it may go on for a while. What it acknowledges in that time must all the same
be held by whoever leads after it, and the controllers must agree to nothing that it asks for. Knows only what it was
told (`watching_fencing.py`), says which promise was broken and by what, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import MetadataRecord, PartitionChanged
from tests.sim.cluster.copies import Batch, Key


class Asked(NamedTuple):
    """Who asked for a change of ISRs, and which state of each partition it knew: leader epoch and partition epoch."""

    broker: int
    broker_epoch: int
    known: dict[Key, tuple[int, int]]


class Promise(NamedTuple):
    """A batch that was acknowledged to a client who wants it kept by all in sync."""

    batch: Batch
    by: str
    epoch: int


class FencingJudge:
    def __init__(self, on_broken: Callable[[str, str], None], held: Callable[[str, Key], Sequence[Batch]]) -> None:
        """`held` tells what a replica has in one life of its node."""
        self.seen: Counter[str] = Counter()
        """What happened how often: a run in which nothing happens proves nothing."""
        self._on_broken = on_broken
        self._held = held
        self._committed = MetadataImage()
        self._next_offset = 0
        self._asked: dict[bytes, list[Asked]] = {}  # by the change that was decided
        self._leaders: dict[Key, dict[int, str]] = {}  # by leader epoch: who
        self._promises: dict[Key, list[Promise]] = {}
        self._promised_to: dict[tuple[str, Key], int] = {}  # by life

    # The metadata, from the log alone

    def asks(self, change: bytes, asked: Asked) -> None:
        """A controller has decided this change for a broker; it is not in the log yet, and may never be."""
        self._asked.setdefault(change, []).append(asked)

    def commits(self, offset: int, value: bytes, records: Sequence[MetadataRecord]) -> None:
        """Somebody has applied what is committed at this offset; who is first tells the news."""
        if offset != self._next_offset:
            return
        self._next_offset += 1
        askers = self._asked.pop(value, [])
        if askers:
            self.seen["ISRs changed"] += 1
            problems = [self._problem(asked, records) for asked in askers]
            if all(problems):
                self._on_broken("granted to a fenced broker", f"at offset {offset}: {problems[0]}")
        delta = Delta()
        for record in records:
            self._committed.apply(record, offset, delta)

    def _problem(self, asked: Asked, records: Sequence[MetadataRecord]) -> str:
        """What stands against it in the log before it; nothing, if nothing does."""
        broker = self._committed.brokers.get(asked.broker)
        if broker is None or broker.fenced or broker.epoch != asked.broker_epoch:
            return f"broker {asked.broker} asks with epoch {asked.broker_epoch}, registered is {broker}"
        for record in records:
            if isinstance(record, PartitionChanged):
                key = (record.topic_id.hex(), record.partition)
                state = self._committed.topics_by_id[record.topic_id].partitions[record.partition]
                known = asked.known.get(key)
                if state.leader != asked.broker or (state.leader_epoch, state.partition_epoch) != known:
                    return f"broker {asked.broker} asks as the leader of {known}, {key} is {state}"
        return ""

    def is_superseded(self, key: Key, epoch: int) -> bool:
        """Whether the quorum has given the partition to somebody else by now, or to nobody."""
        topic = self._committed.topics_by_id.get(bytes.fromhex(key[0]))
        return topic is not None and topic.partitions[key[1]].leader_epoch > epoch

    # What brokers do

    def leads(self, life: str, key: Key, epoch: int) -> None:
        """Whoever leads has what anybody acknowledged in an epoch before."""
        self._leaders.setdefault(key, {})[epoch] = life
        own = set(self._held(life, key))
        for promise in self._promises.get(key, ()):
            if promise.epoch < epoch:
                self._check(promise, life, key, epoch, own)

    def acknowledges(self, life: str, key: Key, epoch: int, end_offset: int) -> None:
        """A leader of this epoch calls everything below the offset safe: whoever leads later has it, too."""
        if self.is_superseded(key, epoch):
            self.seen["acknowledged when superseded"] += 1
        done, self._promised_to[life, key] = self._promised_to.get((life, key), 0), end_offset
        new = [one for one in self._held(life, key) if done < one.end_offset <= end_offset]
        promises = [Promise(batch, life, epoch) for batch in new]
        self._promises.setdefault(key, []).extend(promises)
        for later, leader in self._leaders.get(key, {}).items():
            if later > epoch:
                own = set(self._held(leader, key))
                for promise in promises:
                    self._check(promise, leader, key, later, own)

    def _check(self, promise: Promise, leader: str, key: Key, epoch: int, own: set[Batch]) -> None:
        if promise.batch not in own:
            self._on_broken(
                "acknowledged, not kept",
                f"{promise.by} acknowledged {promise.batch[:2]} of {key} in epoch {promise.epoch},"
                f" {leader} leads epoch {epoch} without it",
            )
