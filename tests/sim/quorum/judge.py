"""Keeps the facts that the invariants are asked about, and stops a run at the first that does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bifrost.raft.core.messages import SnapshotId
from bifrost.types import NodeId
from tests.sim.anomaly import Anomaly
from tests.sim.quorum import invariants
from tests.sim.quorum.host import Host
from tests.sim.quorum.network import LATE_MS
from tests.unit.raft.members import Entry


class Broken(Exception):
    """A promise was not kept."""

    def __init__(self, anomaly: Anomaly) -> None:
        super().__init__(str(anomaly))
        self.anomaly = anomaly


class Judge:
    def __init__(self, hosts: Mapping[NodeId, Host], voters: tuple[NodeId, ...], only: str | None) -> None:
        self.committed: list[Entry] = []
        self.seen: Counter[str] = Counter()
        """What happened how often: a run in which nothing happens proves nothing."""
        self._hosts = hosts
        self._voters = voters
        self._only = only
        self._committed_in: list[int] = []  # the epoch in which each entry was first called committed
        self._led: dict[int, NodeId] = {}
        self._votes: dict[tuple[NodeId, int, int], NodeId] = {}  # by node, disk and epoch
        self._written: dict[
            tuple[int, int], tuple[int, str]
        ] = {}  # by offset and epoch: the epoch before, and the text

    def check(self, anomaly: Anomaly | None) -> None:
        if anomaly is not None and self._only in (None, anomaly.kind):
            raise Broken(anomaly)

    def votes(self, host: Host, epoch: int, candidate: NodeId) -> None:
        """A vote is given; what was given on a disk that is lost is not remembered by anybody."""
        earlier = self._votes.setdefault((host.me, host.disk, epoch), candidate)
        self.check(invariants.one_vote_an_epoch(earlier, host.me, epoch, candidate))

    def stands(self, host: Host, epoch: int) -> None:
        """A pre-vote that was granted may have been under way for a while before it was counted."""
        self.seen["candidates"] += 1
        self.votes(host, epoch, host.me)
        since_ms = host.asking_since_ms - LATE_MS
        content = [
            other.me
            for other in (self._hosts[voter] for voter in self._voters)
            if other.core is not None and other.core.epoch == epoch - 1 and other.content_since_ms < since_ms
        ]
        self.check(invariants.needed_an_election(content, len(self._voters), host.me, epoch))

    def leads(self, host: Host, epoch: int) -> None:
        self.seen["leaders"] += 1
        self.check(invariants.one_leader_an_epoch(self._led, epoch, host.me))
        self._led[epoch] = host.me
        needed = len(self.committed)
        while needed and self._committed_in[needed - 1] >= epoch:
            needed -= 1
        self.check(invariants.complete(self.committed, needed, host.log, host.me))

    def writes(self, host: Host, offset: int, entries: list[Entry]) -> None:
        """Entries are now at the end of this log, from `offset` on."""
        log = host.log
        index = offset - log.start_offset
        previous = log.entries[index - 1].epoch if index else log.first_epoch
        for number, entry in enumerate(entries, start=offset):
            earlier = self._written.setdefault((number, entry.epoch), (previous, entry.text))
            self.check(invariants.matches(earlier, previous, entry, number))
            previous = entry.epoch

    def truncates(self, host: Host, offset: int) -> None:
        self.seen["entries cut"] += host.log.end_offset - offset
        self.check(invariants.never_taken_back(host.watermark, offset, host.me))

    def loads(self, host: Host, snapshot: SnapshotId) -> None:
        """A snapshot stands for everything that was committed before its end."""
        self.seen["snapshots sent"] += 1
        last = self.committed[snapshot.end_offset - 1]
        found = Entry(snapshot.epoch, last.text)
        self.check(invariants.same_history(self.committed, snapshot.end_offset - 1, [found], host.me))

    def commits(self, host: Host, high_watermark: int, *, told: int | None) -> None:
        """Its high watermark has changed; `told` is what its driver was told of it."""
        log, me, before = host.log, host.me, host.watermark
        host.watermark = high_watermark
        self.check(invariants.never_back(before, high_watermark, me))
        self.check(invariants.within_the_log(high_watermark, log.end_offset, me))
        self.check(invariants.told_of_it(told, high_watermark, me))
        first = max(before, log.start_offset)
        entries = log.entries[first - log.start_offset : high_watermark - log.start_offset]
        if host.core is not None and host.core.leads:
            self._counts(host, host.core.epoch, high_watermark)
        else:
            self.check(invariants.learnt_from_a_leader(self.committed, high_watermark, me))
        self.check(invariants.same_history(self.committed, first, entries, me))

    def _counts(self, host: Host, epoch: int, high_watermark: int) -> None:
        """A leader calls committed what it thinks a majority has."""
        log = host.log
        last = log.entries[high_watermark - 1 - log.start_offset]
        holders = [voter for voter in self._voters if _holds(self._hosts[voter], high_watermark, last)]
        self.check(invariants.held_by_a_majority(holders, len(self._voters), high_watermark))
        self.check(invariants.of_its_own_epoch(last, epoch, high_watermark - 1))
        known = len(self.committed)
        if high_watermark > known:
            self.committed += log.entries[known - log.start_offset : high_watermark - log.start_offset]
            self._committed_in += [epoch] * (len(self.committed) - known)

    def ends(self) -> None:
        """All is quiet: everything is compared once more."""
        for host in self._hosts.values():
            log = host.log
            entries = log.entries[: host.watermark - log.start_offset]
            self.check(invariants.same_history(self.committed, log.start_offset, entries, host.me))
        self.check(invariants.written_once([entry.text for entry in self.committed]))


def _holds(host: Host, end_offset: int, last: Entry) -> bool:
    """Whether a disk has everything below `end_offset`; one that was replaced had it, as far as anybody can tell."""
    log = host.log
    if log.durable_offset < end_offset:
        return host.stored.is_newborn and host.disk > 0
    return log.start_offset >= end_offset or log.entries[end_offset - 1 - log.start_offset] == last
