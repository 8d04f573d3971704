"""What must hold in a cluster at every step, whatever happens to its machines. Knows only what it was told of them.

`watching.py` tells it of every change on every node, as it happens. It says of what it finds which promise was broken
and by what, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

from bifrost.raft.core.messages import ElectionState
from bifrost.raft.core.quorum import majority


class Follower(NamedTuple):
    """Where one life of a node stands with what it has applied."""

    next_offset: int = 0
    chain: int = 0
    """Over every record that it applied, in order."""


class Judge:
    def __init__(self, voters: Iterable[int], on_broken: Callable[[str, str], None]) -> None:
        self.seen: Counter[str] = Counter()
        """What happened how often: a run in which nothing happens proves nothing."""
        self._voters = tuple(voters)
        self._on_broken = on_broken
        self._led: dict[int, str] = {}
        self._votes: dict[tuple[int, int, int], int] = {}  # by voter, disk and epoch
        self._written: dict[tuple[int, int], tuple[str, bytes]] = {}  # by end offset and epoch: by whom, and what
        self._committed_to: dict[int, int] = {}  # by epoch: how far its leader has committed
        self._values: dict[int, tuple[str, bytes]] = {}  # by offset: who applied it first, and what
        self._chains: dict[int, tuple[str, int]] = {}  # by next offset
        self._images: dict[int, tuple[str, int]] = {}  # by next offset
        self._watermarks: dict[str, int] = {}  # by life
        self._followers: dict[str, Follower] = {}  # by life
        self._broker_epochs: dict[tuple[str, int], int] = {}  # by life and broker

    def _check(self, holds: bool, kind: str, detail: str) -> None:
        if not holds:
            self._on_broken(kind, detail)

    # Elections

    def leads(self, life: str, epoch: int, end_offset: int) -> None:
        """Raft, 5.2: one leader in an epoch, and never again. Raft, 5.4: it has what was committed before."""
        known = self._led.setdefault(epoch, life)
        self._check(known == life, "two leaders", f"{known} and {life} lead epoch {epoch}")
        self.seen["leaders"] += 1
        committed = max((end for led, end in self._committed_to.items() if led < epoch), default=0)
        self._check(
            end_offset >= committed,
            "incomplete leader",
            f"{life} leads epoch {epoch} with a log up to {end_offset}, {committed} was committed",
        )

    def votes(self, voter: int, disk: int, epoch: int, candidate: int, stored: ElectionState | None) -> None:
        """Raft, 5.2: one vote in an epoch, which a loss of power does not undo."""
        known = self._votes.setdefault((voter, disk, epoch), candidate)
        self._check(known == candidate, "two votes", f"{voter} voted for {known} and {candidate} in epoch {epoch}")
        kept = stored is not None and (stored.epoch > epoch or (stored.epoch, stored.voted_for) == (epoch, candidate))
        self._check(kept, "vote not kept", f"{voter} votes for {candidate} in epoch {epoch}, its disk has {stored}")

    # The log

    def writes(self, life: str, epoch: int, end_offset: int, batch: bytes) -> None:
        """Raft, 5.3: an epoch has one leader, who writes each offset once."""
        author, known = self._written.setdefault((end_offset, epoch), (life, batch))
        self._check(
            known == batch, "logs do not match", f"{author} and {life} wrote up to {end_offset} in epoch {epoch}"
        )

    def begins(self, life: str, high_watermark: int) -> None:
        """A node starts; all that it takes for committed is what its snapshot holds."""
        self._watermarks[life] = high_watermark

    def commits(self, life: str, high_watermark: int, epoch: int | None, durable: Callable[[int, bytes], bool]) -> None:
        """Its high watermark is this by now. `epoch` is given by who leads it; `durable` tells of a voter's disk."""
        before = self._watermarks.get(life, 0)
        self._watermarks[life] = high_watermark
        self._check(high_watermark >= before, "watermark went back", f"of {life}, from {before} to {high_watermark}")
        if high_watermark <= before:
            return
        if epoch is None:
            known = max(self._committed_to.values(), default=0)
            self._check(
                high_watermark <= known,
                "committed by nobody",
                f"{life} takes {high_watermark} for committed, leaders have {known}",
            )
            return
        self._committed_to[epoch] = high_watermark
        last = self._written.get((high_watermark, epoch))
        self._check(last is not None, "old epoch committed", f"{life} commits {high_watermark} in epoch {epoch}")
        if last is not None:
            holders = [voter for voter in self._voters if durable(voter, last[1])]
            self._check(
                len(holders) >= majority(len(self._voters)),
                "minority commit",
                f"{life} commits {high_watermark}, which only {holders} hold durably",
            )

    def truncates(self, life: str, offset: int, end_offset: int) -> None:
        """What was committed is not cut off; all that is not the leader's is."""
        self.seen["truncations"] += 1
        known = self._watermarks.get(life, 0)
        self._check(offset >= known, "taken back", f"{life} cuts its log at {offset}, {known} was committed")
        self._check(
            end_offset <= offset, "not cut", f"the log of {life} reaches to {end_offset}, and should to {offset}"
        )

    def begins_anew(self, life: str, reason: str) -> None:
        """A member gives up its log. Disks here lose what was not synced, and nothing else: there is no reason to."""
        self._check(False, "sound disk given up", f"{life}: {reason}")

    # Images

    def applies(self, life: str, offset: int, value: bytes) -> None:
        """State machine safety: what anybody applied at an offset is what everybody applies there, for ever."""
        who, known = self._values.setdefault(offset, (life, value))
        self._check(known == value, "history differs", f"{who} and {life} applied different changes at {offset}")
        follower = self._followers.get(life, Follower())
        self._followers[life] = follower._replace(chain=crc32(value, crc32(offset.to_bytes(8, "big"), follower.chain)))

    def restores(self, life: str, next_offset: int) -> None:
        """It began with a snapshot, which stands for what somebody has applied up to there."""
        self.seen["snapshots restored"] += 1
        known = self._chains.get(next_offset)
        self._check(known is not None, "snapshot of nobody", f"{life} begins at {next_offset}, where nobody has stood")
        if known is not None:
            self._followers[life] = Follower(next_offset, known[1])

    def stands_at(
        self, life: str, next_offset: int, high_watermark: int, image: int, broker_epochs: Mapping[int, int]
    ) -> None:
        """Equal offsets are equal images, and nobody shows what is not committed."""
        self.seen["images"] += 1
        follower = self._followers.get(life, Follower())
        self._followers[life] = follower._replace(next_offset=next_offset)
        self._check(
            next_offset <= high_watermark,
            "shown too early",
            f"{life} has applied up to {next_offset}, {high_watermark} is committed",
        )
        for kind, table, mine in (("history", self._chains, follower.chain), ("image", self._images, image)):
            who, known = table.setdefault(next_offset, (life, mine))
            self._check(known == mine, f"{kind} differs", f"between {who} and {life} at offset {next_offset}")
        for broker, epoch in broker_epochs.items():
            before = self._broker_epochs.get((life, broker), -1)
            self._check(epoch >= before, "broker epoch went back", f"of {broker} on {life}, from {before} to {epoch}")
            self._broker_epochs[life, broker] = epoch

    # Brokers

    def accepts(self, life: str, what: str, broker: int, asked_epoch: int, registered_epoch: int | None) -> None:
        """A controller has said yes to a broker; `registered_epoch` was committed when it was asked."""
        self.seen[what] += 1
        self._check(
            registered_epoch is None or asked_epoch >= registered_epoch,
            "stale broker epoch accepted",
            f"{life} took a {what} of broker {broker} with epoch {asked_epoch}, registered was {registered_epoch}",
        )

    def fences(self, life: str, broker: int, *, lives: bool) -> None:
        """A controller takes a broker for dead."""
        self.seen["fences"] += 1
        self._check(not lives, "needless fence", f"{life} fences {broker}, which is there and has just said so")

    def appends(self, life: str, partition: str, own: tuple[int, int], image: tuple[int, int] | None) -> None:
        """A broker has stored a write as (broker, leader epoch); its own image says who leads."""
        self.seen["appends"] += 1
        self._check(own == image, "served while fenced", f"{life} wrote to {partition} as {own}, its image has {image}")
