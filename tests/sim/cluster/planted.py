"""Bugs to plant into the nodes of a cluster, so that the simulator can prove that it would find them.

Each breaks one promise of production code, from outside: the code itself has no switch for it. `test_planted.py` names
seeds that find each; when a change moves what seeds do,
`python -m tests.sim.cluster.run --seeds 50 --planted NAME` tells which ones find it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from bifrost.broker.connection import Connection
from bifrost.broker.odin import Odin
from bifrost.controller import broker_watch, snapshots
from bifrost.controller.core import heartbeats
from bifrost.controller.core.brokers import check_registered
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.heartbeats import Heartbeat, HeartbeatAnswer
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import MetadataRecord, TopicDeleted
from bifrost.controller.core.snapshot import image_records
from bifrost.controller.core.state import Broker
from bifrost.controller.replica import MetadataReplica
from bifrost.log.disk import Disk
from bifrost.raft import damage, storage
from bifrost.raft.core.messages import ElectionState
from bifrost.raft.core.quorum import committed_offset
from bifrost.raft.core.roles import Leader
from bifrost.raft.driver import QuorumMember
from bifrost.raft.election_file import ELECTION_FILE, encode_election
from bifrost.raft.metadata_log import Entry
from bifrost.raft.storage import RaftStorage
from bifrost.replication.partition import Partition
from tests.sim.cluster import planted_copies as copies

Plant = AbstractContextManager[Any]
_POWER = ("lose_power", "lose_power_everywhere")
_LATE = ("leave_words_behind",)
_COPIES = ("kill", "pause", "isolate", "slow_disk")
_SPLIT = ("isolate", "part_in_halves", "kill")


class Planted(NamedTuple):
    plant: Callable[[], Plant]
    shown_by: tuple[str, ...]
    """Anomalies of which one is seen: whichever comes first."""
    faults: tuple[str, ...]
    layout: str = "apart"
    about: str = "metadata"


# Votes and logs


def vote_in_memory() -> Plant:
    """A vote is written and not synced before it is given."""

    def store_election(self: RaftStorage, state: ElectionState) -> None:
        self._disk.write_atomic(f"{self.name}/{ELECTION_FILE}", encode_election(state), sync=False)
        self.election = state

    return patch.object(RaftStorage, "store_election", store_election)


def acknowledge_memory() -> Plant:
    """What was written counts as durable: a follower acknowledges it, a leader counts itself."""
    return patch.object(RaftStorage, "durable_offset", property(lambda self: self.end_offset))


def count_old_epochs() -> Plant:
    """A leader commits what a majority holds, of whatever epoch it is (Raft, 5.4.2)."""

    def safe_offset(self: Leader, own_durable_offset: int) -> int:
        return committed_offset([own_durable_offset, *(one.end_offset for one in self.followers.values())])

    return patch.object(Leader, "safe_offset", safe_offset)


def keep_diverging_records() -> Plant:
    """A follower that is told where its log parts from the leader's does not cut it."""
    return patch.object(RaftStorage, "truncate", lambda self, offset: None)


def call_torn_damaged() -> Plant:
    """A start does not ask how far the log was synced: who lost an end of it that nobody relied on begins anew, and
    has no vote. When the power fails everywhere, that may be a majority."""
    refuse_damage = damage.refuse_damage

    def suspicious(disk: Disk, directory: str, **known: Any) -> None:
        refuse_damage(disk, directory, **{**known, "synced_to": None})

    return patch.object(storage, "refuse_damage", suspicious)


# Images


def apply_too_early() -> Plant:
    """The image shows what is in the log, whether it is committed or not."""
    on_commit = MetadataReplica.on_commit

    def eager(self: MetadataReplica, end_offset: int, bytes_max: int | None = None) -> int:
        return on_commit(self, self._log.end_offset, bytes_max)  # type: ignore[attr-defined]

    return patch.object(MetadataReplica, "on_commit", eager)


def skip_a_record() -> Plant:
    """Who catches up with many changes at once misses the last of them."""
    entries = RaftStorage.entries

    def hasty(self: RaftStorage, start: int, end: int) -> Iterator[Entry]:
        found = list(entries(self, start, end))
        return iter(found[:-1] if len(found) > 3 else found)

    return patch.object(RaftStorage, "entries", hasty)


def answer_before_commit() -> Plant:
    """The controller waits for a majority, but not for long."""
    append = QuorumMember.append

    async def hasty(self: QuorumMember, values: Sequence[bytes], epoch: int) -> int:
        expected = self.end_offset
        try:
            return await asyncio.wait_for(append(self, values, epoch), 0.05)
        except TimeoutError:
            return expected

    return patch.object(QuorumMember, "append", hasty)


def lose_a_topic() -> Plant:
    """A snapshot leaves out the last topic, if there are several."""

    def records(image: MetadataImage, **options: Any) -> Iterator[list[MetadataRecord]]:
        copy = image.copy()
        if len(copy.topics) > 3:
            last = list(copy.topics)[-1]
            copy.apply(TopicDeleted(copy.topics[last].topic_id), copy.offset, Delta())
        return image_records(copy, **options)

    return patch.object(snapshots, "image_records", records)


# Brokers


@contextmanager
def any_broker_epoch() -> Iterator[None]:
    """A heartbeat of an earlier start of a broker is as good as one of the present one."""

    def check(image: Any, *, broker_id: int, broker_epoch: int) -> Broker:
        known = image.brokers.get(broker_id)
        return check_registered(image, broker_id=broker_id, broker_epoch=known.epoch if known else broker_epoch)

    with (
        patch.object(broker_watch, "check_registered", check),
        patch.object(heartbeats, "check_registered", check),
    ):
        yield


def serve_while_fenced() -> Plant:
    """A broker that learns that it leads a partition no more goes on as before."""
    return patch.object(Partition, "resign", lambda self: None)


def fence_by_any_connection() -> Plant:
    """A connection that a broker gave up for another is taken for the broker's end."""

    def on_silence(self: Odin, connection: object, broker_id: int, broker_epoch: int) -> None:
        self._watch.on_connection_lost(broker_id, broker_epoch)

    return patch.object(Odin, "_on_silence", on_silence)


def believe_late_words() -> Plant:
    """Where a broker was last heard is where it is, though it may have left that connection for another long ago."""
    heartbeat = Odin.heartbeat

    def credulous(self: Odin, asked: Heartbeat, connection: Connection | None) -> Awaitable[HeartbeatAnswer]:
        self._beats.pop(asked.broker_id, None)
        return heartbeat(self, asked, connection)

    return patch.object(Odin, "heartbeat", credulous)


def lead_for_ever() -> Plant:
    """A controller that does not lead the quorum any more goes on answering."""
    on_change = Odin._on_change

    def stubborn(self: Odin) -> None:
        deactivate, self.controller.deactivate = self.controller.deactivate, lambda: None  # type: ignore[method-assign]
        try:
            on_change(self)
        finally:
            self.controller.deactivate = deactivate  # type: ignore[method-assign]

    return patch.object(Odin, "_on_change", stubborn)


def _of_copies(plant: Callable[[], Plant], *shown_by: str) -> Planted:
    return Planted(plant, shown_by, _COPIES, "apart", "copies")


PLANTED = {
    "vote-in-memory": Planted(vote_in_memory, ("vote not kept", "two votes", "two leaders"), _POWER),
    "acknowledge-memory": Planted(acknowledge_memory, ("minority commit", "incomplete leader"), _POWER),
    "count-old-epochs": Planted(count_old_epochs, ("old epoch committed",), _SPLIT),
    "keep-diverging-records": Planted(keep_diverging_records, ("not cut",), _SPLIT),
    "call-torn-damaged": Planted(call_torn_damaged, ("sound disk given up",), (*_POWER, "slow_disk")),
    "apply-too-early": Planted(apply_too_early, ("shown too early", "history differs"), _SPLIT),
    "skip-a-record": Planted(skip_a_record, ("history differs", "image differs"), ("kill", "restart")),
    "lose-a-topic": Planted(lose_a_topic, ("image differs", "lost change"), ("kill", "lose_metadata")),
    "answer-before-commit": Planted(answer_before_commit, ("lost change",), ("isolate", "part_in_halves")),
    "any-broker-epoch": Planted(any_broker_epoch, ("stale broker epoch accepted",), _LATE),
    "serve-while-fenced": Planted(serve_while_fenced, ("served while fenced",), ("pause",)),
    "fence-by-any-connection": Planted(fence_by_any_connection, ("needless fence",), ("cut_one_way", "isolate")),
    "lead-for-ever": Planted(lead_for_ever, ("stuck",), _SPLIT),
    "fetch-before-sync": _of_copies(copies.fetch_before_sync, "not on every disk"),
    "count-unsynced": _of_copies(copies.count_unsynced, "not on every disk"),
    "keep-diverging-copies": _of_copies(copies.keep_diverging_copies, "copies differ", "not on every disk"),
    "shrink-before-agreed": _of_copies(copies.shrink_before_agreed, "not on every disk", "leader lacks committed"),
    "truncate-to-high-watermark": _of_copies(
        copies.truncate_to_high_watermark, "leader lacks committed", "not on every disk"
    ),
    "relay-before-committed": _of_copies(copies.relay_before_committed, "acknowledged too early"),
    "elect-anybody": _of_copies(copies.elect_anybody, "two partition leaders", "leader lacks committed"),
    "tell-unknown-end": _of_copies(copies.tell_unknown_end, "watermark went back"),
    "show-everything": _of_copies(copies.show_everything, "read too early"),
    "promise-when-deposed": _of_copies(copies.promise_when_deposed, "acknowledged, not kept", "acknowledged too early"),
    "agree-with-anybody": Planted(
        copies.agree_with_anybody, ("granted to a fenced broker",), ("pause",), about="copies"
    ),
    "believe-late-words": Planted(believe_late_words, ("needless fence",), ("repeat_requests", "cut_links")),
    "take-old-isrs": Planted(
        copies.take_old_isrs, ("granted to a fenced broker",), ("repeat_requests", "cut_one_way"), about="copies"
    ),
}
