"""What must hold in a quorum whatever happens: one pure function for each promise, from facts to an anomaly, or None.

Each is asked at every step that could break it, of exactly that which the step has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bifrost.raft.core.messages import ElectionState
from bifrost.raft.core.quorum import majority
from bifrost.types import NodeId
from tests.sim.anomaly import Anomaly
from tests.unit.raft.members import Entry, ListLog

LEAD = "lead"
"""The text of the record with which a leader begins its epoch."""


def one_leader_an_epoch(led: Mapping[int, NodeId], epoch: int, me: NodeId) -> Anomaly | None:
    """Raft, section 5.2: election safety. Nobody leads an epoch a second time either, not even who led it before."""
    if epoch not in led:
        return None
    return Anomaly("two leaders", f"epoch {epoch}", f"{led[epoch]} led it, and now {me} does")


def one_vote_an_epoch(earlier: NodeId | None, me: NodeId, epoch: int, vote: NodeId) -> Anomaly | None:
    """Raft, section 5.2. `earlier` is what this disk knows, or should know."""
    if earlier in (None, vote):
        return None
    return Anomaly("two votes", f"epoch {epoch}", f"{me} voted for {earlier}, and now for {vote}")


def speaks_of_what_is_kept(stored: ElectionState, state: ElectionState, me: NodeId) -> Anomaly | None:
    """Raft, section 5.2: whatever others may hear of outlives a crash."""
    if stored == state:
        return None
    return Anomaly("not kept", f"node {me}", f"it goes by {state}, its disk has {stored}")


def same_history(committed: Sequence[Entry], offset: int, entries: Sequence[Entry], me: NodeId) -> Anomaly | None:
    """Raft, section 5.4.3: state machine safety. `entries` are what `me` takes for committed, from `offset` on."""
    expected = committed[offset : offset + len(entries)]
    for number, (one, other) in enumerate(zip(expected, entries), start=offset):
        if one != other:
            return Anomaly("history differs", f"offset {number}", f"{one} was committed, {me} has {other}")
    return None


def learnt_from_a_leader(committed: Sequence[Entry], high_watermark: int, me: NodeId) -> Anomaly | None:
    """Followers commit what a leader has committed, never more."""
    if high_watermark <= len(committed):
        return None
    return Anomaly(
        "committed by nobody",
        f"node {me}",
        f"its high watermark is {high_watermark}, no leader's beyond {len(committed)}",
    )


def within_the_log(high_watermark: int, end_offset: int, me: NodeId) -> Anomaly | None:
    """Nobody calls committed what it does not have."""
    if high_watermark <= end_offset:
        return None
    return Anomaly("beyond the log", f"node {me}", f"high watermark {high_watermark}, the log ends at {end_offset}")


def never_back(before: int, after: int, me: NodeId) -> Anomaly | None:
    """While a node runs, its high watermark only grows."""
    if after >= before:
        return None
    return Anomaly("watermark went back", f"node {me}", f"from {before} to {after}")


def never_taken_back(high_watermark: int, truncate_to: int, me: NodeId) -> Anomaly | None:
    """What was committed is not cut off."""
    if truncate_to >= high_watermark:
        return None
    return Anomaly("taken back", f"node {me}", f"its log is cut at {truncate_to}, {high_watermark} was committed")


def complete(committed: Sequence[Entry], needed: int, log: ListLog, me: NodeId) -> Anomaly | None:
    """Raft, section 5.4: leader completeness. `needed` entries were committed in epochs before that of the leader."""
    if log.end_offset < needed:
        lost = committed[log.end_offset]
        return Anomaly("incomplete leader", f"node {me}", f"it lacks {lost} at {log.end_offset}, of {needed} committed")
    for offset in range(log.start_offset, needed):
        if log.entries[offset - log.start_offset] != committed[offset]:
            found = log.entries[offset - log.start_offset]
            return Anomaly("incomplete leader", f"node {me}", f"{found} at {offset}, {committed[offset]} was committed")
    return None


def matches(earlier: tuple[int, str] | None, previous_epoch: int, entry: Entry, offset: int) -> Anomaly | None:
    """Raft, section 5.3: log matching. An epoch has one entry at an offset, and one entry comes before it.

    `earlier` is what some log had there, in the same epoch: the epoch of the entry before, and the text."""
    if earlier is None or earlier == (previous_epoch, entry.text):
        return None
    told = f"{entry} after epoch {previous_epoch}, elsewhere {earlier[1]!r} after epoch {earlier[0]}"
    return Anomaly("logs do not match", f"offset {offset}", told)


def held_by_a_majority(holders: Sequence[NodeId], voters: int, offset: int) -> Anomaly | None:
    """Raft, section 5.3: what is committed would survive if everybody lost power now."""
    if len(holders) >= majority(voters):
        return None
    return Anomaly("minority commit", f"offset {offset}", f"durable on {list(holders)} of {voters} voters only")


def of_its_own_epoch(last: Entry, epoch: int, offset: int) -> Anomaly | None:
    """Raft, section 5.4.2: a leader counts replicas of entries of its own epoch only."""
    if last.epoch == epoch:
        return None
    return Anomaly("old epoch committed", f"offset {offset}", f"{last} was counted in epoch {epoch}")


def heard_by_a_majority(heard_ms: Sequence[float], now_ms: float, patience_ms: float, me: NodeId) -> Anomaly | None:
    """KIP-835: nobody leads for long without a majority. `heard_ms` says when each of the others fetched last."""
    recent = 1 + sum(at_ms >= now_ms - patience_ms for at_ms in heard_ms)
    if recent >= majority(len(heard_ms) + 1):
        return None
    return Anomaly("led alone", f"node {me}", f"heard of the others at {list(heard_ms)} ms, now {now_ms} ms")


def needed_an_election(content: Sequence[NodeId], voters: int, me: NodeId, epoch: int) -> Anomaly | None:
    """KIP-996: no new epoch while a majority hears from the leader. `content` did so since before `me` began to ask."""
    if len(content) < majority(voters):
        return None
    return Anomaly(
        "needless election", f"epoch {epoch}", f"{me} stands, {list(content)} heard from a leader all the time"
    )


def healed(leader: NodeId | None, end_offset: int, watermarks: Mapping[NodeId, int | None]) -> Anomaly | None:
    """When nothing has been wrong for long, somebody leads, and everybody knows all that it has."""
    if leader is None:
        return Anomaly("not healed", "quorum", f"nobody leads; high watermarks {dict(watermarks)}")
    if all(high_watermark == end_offset for high_watermark in watermarks.values()):
        return None
    return Anomaly("not healed", "quorum", f"{leader} leads up to {end_offset}; high watermarks {dict(watermarks)}")


def told_of_it(told: int | None, high_watermark: int, me: NodeId) -> Anomaly | None:
    """The driver learns of every commit: somebody waits for it."""
    if told == high_watermark:
        return None
    return Anomaly("not told", f"node {me}", f"the high watermark is {high_watermark}, the driver was told {told}")


def written_once(texts: Sequence[str]) -> Anomaly | None:
    """What a client sent once is committed once at most."""
    twice = [text for text, times in Counter(texts).items() if times > 1 and text != LEAD]
    return Anomaly("committed twice", "quorum", str(twice)) if twice else None
