"""Tells the judge of every change on every node, by looking over the shoulder of the objects that make it.

Production code knows nothing of this: methods are wrapped for the time of a run, around whatever is there by then, be
it a planted bug. Which node it is follows from the simulated process that calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from zlib import crc32

from bifrost.broker.connection import Connection
from bifrost.broker.odin import Odin
from bifrost.controller.broker_watch import BrokerWatch
from bifrost.controller.core.heartbeats import BrokerSessions, Heartbeat
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import encode_change
from bifrost.controller.core.snapshot import image_records
from bifrost.controller.driver import Controller
from bifrost.controller.replica import MetadataReplica
from bifrost.protocol.batch import read_header
from bifrost.raft import storage, wire
from bifrost.raft.core.node import RaftNode
from bifrost.raft.core.roles import Candidate
from bifrost.raft.damage import DamagedMetadataError
from bifrost.raft.driver import QuorumMember
from bifrost.raft.election_file import ELECTION_FILE, decode_election
from bifrost.raft.metadata_log import Entry
from bifrost.raft.serving import QuorumService
from bifrost.raft.snapshot_files import SnapshotFiles
from bifrost.raft.storage import RaftStorage
from bifrost.replication.partition import Partition
from tests.sim.cluster.hooks import Hooks
from tests.sim.cluster.layout import METADATA_LOG
from tests.sim.cluster.watching_copies import WatchingCopies
from tests.sim.cluster.watching_fencing import WatchingFencing
from tests.sim.cluster.world import ClusterMachine, ClusterWorld
from tests.sim.process import CURRENT


class Beat(NamedTuple):
    """The last heartbeat of a broker that a controller has heard."""

    epoch: int
    connection: Connection | None
    at: float


class Watching:
    """The shoulders, one method for each."""

    def __init__(self, world: ClusterWorld) -> None:
        self._judge = world.judge
        self.fencing = WatchingFencing(world)
        self._machines = {machine.name: machine for machine in world.cluster}
        self._voters = {machine.seat.node_id: machine for machine in world.voters}
        self._roles: dict[str, object] = {}
        self._beats: dict[tuple[str, int], Beat] = {}
        self._now = lambda: world.loop.world_time

    @property
    def life(self) -> str:
        process = CURRENT.get()
        assert process is not None, "nodes act in their processes"
        return process.name

    @property
    def machine(self) -> ClusterMachine:
        return self._machines[self.life.rpartition("-")[0]]

    # The quorum

    def began(self, member: QuorumMember, *_: object, **__: object) -> None:
        self._judge.begins(self.life, member.core.high_watermark)

    def ran(self, member: QuorumMember, *_: object) -> None:
        core, life = member.core, self.life
        if core.role is not self._roles.get(life):
            self._roles[life] = core.role
            if isinstance(core.role, Candidate):
                self._vote(core.epoch, core.me)
            if core.leads:
                self._judge.leads(life, core.epoch, core.log_end.offset)
        self._commit(core)

    def voted(self, service: QuorumService, result: Any, request: Any) -> None:
        vote = wire.read_vote(request)
        if result.topics[0].partitions[0].vote_granted and not vote.is_pre_vote:
            self._vote(vote.epoch, vote.candidate)

    def _vote(self, epoch: int, candidate: int) -> None:
        machine = self.machine
        stored = machine.disk.durable_file(f"{METADATA_LOG}/{ELECTION_FILE}")
        state = None if stored is None else decode_election(stored)
        self._judge.votes(machine.seat.node_id, machine.disks_lost, epoch, candidate, state)

    def _commit(self, core: RaftNode) -> None:
        self._judge.commits(self.life, core.high_watermark, core.epoch if core.leads else None, self._is_durable)

    def _is_durable(self, voter: int, batch: bytes) -> bool:
        """Whether a voter has a batch on its disk. One that has lost that had it, as far as anybody can tell."""
        machine = self._voters[voter]
        if machine.disks_lost and machine.is_newborn:
            return True
        names = machine.disk.durable_files(METADATA_LOG)
        logs = [f"{METADATA_LOG}/{name}" for name in names if name.endswith(".log")]
        return any(batch in (machine.disk.durable_file(log) or b"") for log in reversed(logs))

    # The log

    def wrote(self, _: RaftStorage, result: int, batch: bytearray, epoch: int) -> None:
        end = result + read_header(batch).last_offset_delta + 1
        self._judge.writes(self.life, epoch, end, bytes(batch))

    def truncated(self, log: RaftStorage, _: None, offset: int) -> None:
        self._judge.truncates(self.life, offset, log.end_offset)

    def read(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Whoever asks for the next one has applied the one before."""
        for entry in entries:
            yield entry
            self._judge.applies(self.life, entry.offset, repr(entry).encode())
            self.fencing.applied(entry)

    def began_anew(self, _disk: object, _directory: str, damage: DamagedMetadataError, *_: object) -> None:
        self._judge.begins_anew(self.life, str(damage))

    # The image

    def committed(self, replica: MetadataReplica, *_: object) -> None:
        odin = self.machine.odin
        assert odin is not None
        epochs = {broker.broker_id: broker.epoch for broker in replica.image.brokers.values()}
        watermark = odin.member.core.high_watermark
        self._judge.stands_at(self.life, replica.next_offset, watermark, fingerprint(replica.image), epochs)

    def restored(self, replica: MetadataReplica, *_: object) -> None:
        """The high watermark follows when the log has begun anew behind the snapshot."""
        self._judge.restores(self.life, replica.next_offset)
        epochs = {broker.broker_id: broker.epoch for broker in replica.image.brokers.values()}
        self._judge.stands_at(self.life, replica.next_offset, replica.next_offset, fingerprint(replica.image), epochs)

    def took_snapshot(self, *_: object) -> None:
        self._judge.seen["snapshots"] += 1

    # Brokers

    def heard(self, odin: Odin, asked: Heartbeat, connection: Connection | None) -> None:
        """Not of what is repeated: that tells nothing of who lives now."""
        if connection is not None and connection.transport.peer.owner is None:  # type: ignore[attr-defined]
            return
        self._beats[self.life, asked.broker_id] = Beat(asked.broker_epoch, connection, self._now())

    def counts(self, _: BrokerSessions, broker_id: int, epoch: int, *__: object, **___: object) -> None:
        """A heartbeat counts, whether or not its broker lives to hear so."""
        odin = self.machine.odin
        known = None if odin is None else odin.replica.image.brokers.get(broker_id)
        self._judge.accepts(self.life, "heartbeat", broker_id, epoch, None if known is None else known.epoch)

    def fences(self, watch: BrokerWatch, broker_id: int, epoch: int) -> None:
        """One that spoke a moment ago, on a connection that is still there, lives; unless these were its last words."""
        beat = self._beats.get((self.life, broker_id))
        recent_s = self.machine.settings.broker_session_timeout_ms / 1000 / 2
        lives = (
            beat is not None
            and beat.epoch == epoch
            and beat.connection is not None
            and not beat.connection.transport.is_closing()
            and _is_process_behind(beat.connection)
            and self._now() - beat.at < recent_s
        )
        self._judge.fences(self.life, broker_id, lives=lives)

    def appended(self, partition: Partition, *_: object, **__: object) -> None:
        machine = self.machine
        assert machine.odin is not None
        topic = machine.odin.replica.image.topics.get(partition.tp.topic)
        known = None if topic is None else topic.partitions[partition.tp.partition]
        own = machine.seat.node_id, partition.leader.epoch
        told = None if known is None else (known.leader, known.leader_epoch)
        self._judge.appends(self.life, str(partition.tp), own, told)


def _is_process_behind(connection: Connection) -> bool:
    owner = connection.transport.peer.owner  # type: ignore[attr-defined]
    return bool(owner.alive)


def fingerprint(image: MetadataImage) -> int:
    """Two images that differ in anything have another one."""
    result = 0
    for change in image_records(image):
        result = crc32(encode_change(change), result)
    return result


@contextmanager
def watched(world: ClusterWorld) -> Iterator[None]:
    """For as long as this lasts, the judge sees everything."""
    watching = Watching(world)
    with ExitStack() as stack:
        hooks = Hooks(stack)
        WatchingCopies(world).attach(hooks)
        watching.fencing.attach(hooks)
        before, after = hooks.before, hooks.after
        before(Odin, "heartbeat", watching.heard)
        before(BrokerSessions, "on_heartbeat", watching.counts)
        before(BrokerWatch, "_fence", watching.fences)
        after(QuorumMember, "__init__", watching.began)
        after(QuorumMember, "run", watching.ran)
        after(QuorumService, "vote", watching.voted)
        after(RaftStorage, "append_batch", watching.wrote)
        after(RaftStorage, "truncate", watching.truncated)
        after(MetadataReplica, "on_commit", watching.committed)
        after(MetadataReplica, "_install", watching.restored)
        after(SnapshotFiles, "add", watching.took_snapshot)
        after(Partition, "append", watching.appended)
        begin_anew = storage.begin_anew

        def watched_begin(*args: Any) -> None:
            watching.began_anew(*args)
            begin_anew(*args)

        hooks.wrap(storage, "begin_anew", watched_begin)
        entries = RaftStorage.entries
        hooks.wrap(RaftStorage, "entries", lambda self, *args: watching.read(entries(self, *args)))
        for owner, name, what in (
            (Controller, "alter_partitions", "change of ISRs"),
            (Controller, "allocate_producer_ids", "block of producer ids"),
        ):
            hooks.wrap(owner, name, _asked(getattr(owner, name), what, watching))
        yield


def _asked(method: Any, what: str, watching: Watching) -> Any:
    """Watch what a broker asks of the controller: only what was committed before it asked is held against it."""

    async def wrapper(self: Controller, *args: Any, broker_id: int, broker_epoch: int) -> Any:
        known = self.image.brokers.get(broker_id)
        result = await method(self, *args, broker_id=broker_id, broker_epoch=broker_epoch)
        registered = None if known is None else known.epoch
        watching._judge.accepts(watching.life, what, broker_id, broker_epoch, registered)
        return result

    return wrapper
