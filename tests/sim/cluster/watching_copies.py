"""Tells the judge of copies what every replica writes, cuts and calls committed, and what clients are told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bifrost.log.names import LOG
from bifrost.log.slices import AppendResult
from bifrost.protocol.batch import CorruptBatchError, iter_headers, read_header
from bifrost.replication.partition import Partition
from tests.sim.cluster.copies import Batch, Key
from tests.sim.cluster.hooks import Hooks
from tests.sim.cluster.layout import DATA
from tests.sim.cluster.world import ClusterMachine, ClusterWorld
from tests.sim.history import Acknowledged, History, Leading, OutOfRange, Place, Polled
from tests.sim.process import CURRENT


class WatchingCopies:
    """The shoulders, one method for each."""

    def __init__(self, world: ClusterWorld) -> None:
        self._judge = world.copies
        self._machines = {machine.name: machine for machine in world.cluster}
        self._brokers = {machine.seat.node_id: machine for machine in world.brokers}
        self._now = lambda: world.loop.world_time
        self._watermarks: dict[tuple[str, Key], int] = {}
        self._history = world.history
        self._is_alive = world.is_alive
        self._leading: dict[Place, dict[str, bool]] = {}  # by life: whether it knows how far others had committed

    def attach(self, hooks: Hooks) -> None:
        hooks.after(Partition, "__init__", self.opened)
        hooks.after(Partition, "append", self.appended)
        hooks.around(Partition, "append_fetched", _end_of, self.fetched)
        hooks.around(Partition, "truncate_to", _end_of, self.cut)
        hooks.around(Partition, "restart_at", _end_of, self.cut)
        hooks.before(Partition, "lead", self.leads)
        hooks.before(Partition, "resign", self.resigns)
        hooks.after(Partition, "lead", self.changed)
        hooks.after(Partition, "resign", self.changed)
        hooks.after(Partition, "_run", self.moved)
        hooks.after(Partition, "believe", self.moved)
        hooks.before(History, "add", self.told)

    @property
    def _life(self) -> str:
        process = CURRENT.get()
        assert process is not None, "nodes act in their processes"
        return process.name

    # Replicas

    def opened(self, partition: Partition, *_: object, **__: object) -> None:
        machine = self._machines[self._life.rpartition("-")[0]]
        batches = stored_batches(machine, str(partition.tp))
        self._watermarks[self._life, _key(partition)] = partition.high_watermark
        self._judge.opens(self._life, _key(partition), batches, partition.high_watermark)

    def appended(self, partition: Partition, result: AppendResult, records: memoryview, **_: object) -> None:
        if not result.duplicate:
            data = bytes(records[: read_header(records).size_bytes])
            self._judge.writes(self._life, _key(partition), [Batch(result.base_offset, result.last_offset + 1, data)])

    def fetched(self, partition: Partition, end_before: int, batches: memoryview, *_: object) -> None:
        """As many of the batches as found room."""
        end = partition.log.log_end_offset
        if end > end_before:
            stored = [one for one in batches_in(batches) if one.end_offset <= end]
            self._judge.writes(self._life, _key(partition), stored)

    def cut(self, partition: Partition, end_before: int, *_: object) -> None:
        if partition.log.log_end_offset < end_before:
            self._judge.cuts(self._life, _key(partition), partition.log.log_end_offset)

    def leads(self, partition: Partition, epoch: int, *_: object) -> None:
        if partition.leading is None or partition.leading.epoch != epoch:
            self._judge.leads(self._life, _key(partition), epoch, self._now())

    def resigns(self, partition: Partition) -> None:
        if partition.is_leader:
            self._judge.resigns(self._life, _key(partition), self._now())

    def changed(self, partition: Partition, *_: object) -> None:
        """Who leads, or what the leader knows."""
        place = Place(partition.tp.topic, *_key(partition))
        leading = self._leading.setdefault(place, {})
        before = dict(leading)
        leader = partition.leading
        leading.pop(self._life, None)
        if leader is not None:
            leading[self._life] = leader.high_watermark >= leader.epoch_start
        for life in [one for one in leading if not self._is_alive(one)]:
            del leading[life]
        if leading != before:
            machines = tuple(life.rpartition("-")[0] for life in leading)
            knows_end = list(leading.values()) == [True]
            self._history.add(Leading(self._now(), place, machines, knows_end))

    def moved(self, partition: Partition, *_: object) -> None:
        """The high watermark may have."""
        self.changed(partition)
        life, key, now = self._life, _key(partition), partition.high_watermark
        known = self._watermarks.get((life, key), 0)
        if now == known:
            return
        self._watermarks[life, key] = now
        self._judge.shows(life, key, now)
        if partition.is_leader:
            needed = self._in_sync(partition)
            logs = {broker: self._durable_logs(broker, str(partition.tp)) for broker in needed}

            def holders(data: bytes) -> list[int]:
                return [broker for broker, parts in logs.items() if any(data in part for part in parts)]

            self._judge.commits(life, key, known, holders, needed)

    def _in_sync(self, partition: Partition) -> set[int]:
        """From whom the next leader may come: as the newest committed metadata has it, of which this leader may not
        have heard yet."""
        odins = [machine.odin for machine in self._machines.values() if machine.odin is not None]
        newest = max(odins, key=lambda odin: odin.replica.next_offset).replica.image
        topic = newest.topics.get(partition.tp.topic)
        return set() if topic is None else set(topic.partitions[partition.tp.partition].isr)

    def _durable_logs(self, broker: int, name: str) -> list[bytes]:
        disk, directory = self._brokers[broker].disk, f"{DATA}/{name}"
        names = [one for one in disk.durable_files(directory) if one.endswith(LOG)]
        return [disk.durable_file(f"{directory}/{one}") or b"" for one in reversed(names)]

    # Clients

    def told(self, _: History, event: object) -> None:
        if isinstance(event, Acknowledged):
            self._judge.acknowledges(_key_of(event.place), event.base_offset + len(event.values))
        elif isinstance(event, Polled):
            ends = [event.high_watermark, *(offset + 1 for offset, _ in event.records)]
            self._judge.is_read(_key_of(event.place), max(ends))
        elif isinstance(event, OutOfRange):
            self._judge.is_out_of_range(_key_of(event.place), event.fetch_offset, event.asked_at, event.at)


def stored_batches(machine: ClusterMachine, name: str) -> Iterator[Batch]:
    """What the files of a replica hold."""
    directory = f"{DATA}/{name}"
    names = sorted(getattr(machine.disk.find(directory), "entries", ()))
    for path in (f"{directory}/{one}" for one in names if one.endswith(LOG)):
        yield from batches_in(memoryview(bytes(getattr(machine.disk.find(path), "content", b""))))


def batches_in(data: memoryview) -> Iterable[Batch]:
    try:
        for position, header in iter_headers(data):
            end = position + header.size_bytes
            if end > len(data):
                return
            yield Batch(header.base_offset, header.last_offset + 1, bytes(data[position:end]))
    except CorruptBatchError:
        return  # a torn end


def _end_of(partition: Partition) -> int:
    return partition.log.log_end_offset


def _key(partition: Partition) -> Key:
    return partition.topic_id.hex(), partition.tp.partition


def _key_of(place: Place) -> Key:
    return place.topic_id, place.partition
