"""What a driver of the core has to do, on the machines of a simulation: keep, cut, append, sync, and only then speak.

It fetches from what is durable, takes the answer to a fetch once, and only while that still continues the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bifrost.errors import ErrorCode
from bifrost.raft.core.effects import Effects, Timing
from bifrost.raft.core.messages import Answer, BeginEpoch, FetchVerdict, Message, SnapshotId, Vote
from bifrost.raft.core.node import RaftNode
from bifrost.raft.core.roles import Candidate, Follower, Leader, Prospective, Resigned
from bifrost.types import NodeId
from tests.sim.quorum import invariants
from tests.sim.quorum.host import NEVER, Host
from tests.unit.raft.members import Entry

if TYPE_CHECKING:
    from tests.sim.quorum.world import World

TIMING: Final = Timing()
PATIENCE_MS: Final = 1.5 * TIMING.fetch_timeout_ms
"""For how long somebody leads whom no majority fetches from."""
POLL_MS: Final = 200
SPEAK_MS: Final = 100
_SPEAKING: Final = (Prospective, Candidate, Leader, Resigned)


class Driver:
    """Serves all machines; what belongs to one is in its `Host`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._after = world.after
        self._judge = world.judge

    def start(self, host: Host) -> None:
        world = self._world
        host.life += 1
        host.watermark = host.log.start_offset
        host.core = RaftNode(
            host.me,
            world.voters,
            TIMING,
            host.log,
            host.stored,
            high_watermark=host.watermark,
            random=world.rng.random,
            now_ms=world.now_ms,
        )
        self.run(host, Effects())
        self._poll_in(host, 0)

    def run(self, host: Host, effects: Effects) -> bool:
        """Do what the core asks for. False if the node died of it, before anybody could be told."""
        core = host.core
        assert core is not None
        if effects.persist is not None:
            if host.dies != "before":
                host.stored = effects.persist
            if host.dies is not None:
                self._world.crash(host)
                return False
        if host.stored is not core.state:
            self._judge.check(invariants.speaks_of_what_is_kept(host.stored, core.state, host.me))
        if core.role is not host.role:
            self._turn(host, core)
        if effects.truncate_to is not None:
            self._judge.truncates(host, effects.truncate_to)
            host.log.truncate(effects.truncate_to)
            host.sync_to = min(host.sync_to, effects.truncate_to)
        if core.high_watermark != host.watermark:
            self._judge.commits(host, core.high_watermark, told=effects.high_watermark)
        if effects.begin_epoch is not None:
            self.append(host, [Entry(effects.begin_epoch, invariants.LEAD)])
            self.sync(host)
        self._look(host, core)
        return True

    def append(self, host: Host, entries: list[Entry]) -> None:
        offset = host.log.end_offset
        host.log.entries += entries
        self._judge.writes(host, offset, entries)

    # Time

    def _look(self, host: Host, core: RaftNode) -> None:
        """Whether it is content with its leader, and when it wants to be woken."""
        role = core.role
        if isinstance(role, Leader):
            content = True
        else:
            content = isinstance(role, Follower) and role.has_fetched and not role.is_leader_lost
            if role.deadline_ms < host.tick_at_ms:
                self._tick_at(host, role.deadline_ms)
        if not content:
            host.content_since_ms = NEVER
        elif host.content_since_ms == NEVER:
            host.content_since_ms = self._world.now_ms

    def _turn(self, host: Host, core: RaftNode) -> None:
        """Its role has changed."""
        host.role = role = core.role
        host.content_since_ms = NEVER
        match role:
            case Prospective():
                host.asking_since_ms = self._world.now_ms
            case Candidate():
                self._judge.stands(host, core.epoch)
            case Leader():
                self._judge.leads(host, core.epoch)
                host.heard_ms = dict.fromkeys(host.peers, self._world.now_ms)
                self._tick_at(host, core.deadline_ms())
            case Follower():
                self._poll_in(host, 0)
        if isinstance(role, _SPEAKING):
            self._speak_in(host, 0)
        if self._world.tell is not None:
            end, high_watermark = tuple(core.log_end), core.high_watermark
            self._world.tell(f"{'':11}{host.me} is {role} with {core.state}, log {end}, committed {high_watermark}")

    def _tick_at(self, host: Host, at_ms: float) -> None:
        host.tick_at_ms = at_ms
        if at_ms != NEVER:
            self._after(at_ms - self._world.now_ms, self._tick, host, host.life, at_ms)

    def _tick(self, host: Host, life: int, at_ms: float) -> None:
        core = host.core
        if core is None or host.life != life or host.tick_at_ms != at_ms:
            return
        host.tick_at_ms = NEVER
        now_ms = max(self._world.now_ms, at_ms)  # a difference that is added again may be a little less
        if self.run(host, core.on_tick(now_ms)) and host.tick_at_ms == NEVER:
            self._tick_at(host, core.deadline_ms())

    # Messages

    def _send(self, source: NodeId, target: NodeId, action: Callable[..., None], *args: Any) -> None:
        for delay_ms in self._world.network.delays_ms(source, target):
            self._after(delay_ms, action, *args)

    def _speak_in(self, host: Host, delay_ms: float) -> None:
        host.speech += 1
        self._after(delay_ms, self._speak, host, host.speech)

    def _speak(self, host: Host, speech: int) -> None:
        """It is asked regularly what it has to say to whom: so nothing has to be remembered of what was lost."""
        core, now_ms = host.core, self._world.now_ms
        if core is None or host.speech != speech or not isinstance(core.role, _SPEAKING):
            return
        for peer in host.peers:
            message = core.message_for(peer, now_ms)
            if message is not None:
                self._send(host.me, peer, self._hear, self._world.hosts[peer], host, message)
        if core.leads:
            heard_ms = list(host.heard_ms.values())
            self._judge.check(invariants.heard_by_a_majority(heard_ms, now_ms, PATIENCE_MS + 1, host.me))
        self._speak_in(host, SPEAK_MS)

    def _hear(self, host: Host, sender: Host, message: Message) -> None:
        core, now_ms = host.core, self._world.now_ms
        if core is None:
            self._world.refuse(sender, host)
            return
        if isinstance(message, Vote):
            answer, effects = core.on_vote(message, now_ms)
        elif isinstance(message, BeginEpoch):
            answer, effects = core.on_begin_epoch(message, now_ms)
        else:
            answer, effects = core.on_end_epoch(message, now_ms)
        if self.run(host, effects):
            if answer.granted and isinstance(message, Vote) and not message.is_pre_vote:
                self._judge.votes(host, answer.epoch, message.candidate)
            self._send(host.me, sender.me, self._hear_answer, sender, host.me, message, answer)

    def _hear_answer(self, host: Host, peer: NodeId, message: Message, answer: Answer) -> None:
        """Of any age, and maybe not for the first time: the core has to tell by the epochs whether it is of use."""
        core = host.core
        if core is None:
            return
        if isinstance(message, Vote):
            self.run(host, core.on_vote_answer(peer, message, answer, self._world.now_ms))
        else:
            self.run(host, core.on_told(peer, message, answer, self._world.now_ms))

    # Fetches

    def _poll_in(self, host: Host, delay_ms: float) -> None:
        host.poll += 1
        self._after(delay_ms, self._poll, host, host.poll)

    def _poll(self, host: Host, poll: int) -> None:
        """Fetch what follows that which is durable. An observer that knows no leader asks anybody."""
        core = host.core
        if core is None or host.poll != poll:
            return
        target = core.fetches_from
        if target is None and not core.is_voter:
            target = self._world.rng.choice(self._world.voters)
        if target is not None:
            host.fetch += 1
            asked = (host.life, host.fetch, core.epoch, acknowledged(host), host.log.last_epoch)
            self._send(host.me, target, self._serve, self._world.hosts[target], host, *asked)
        if target is not None or not core.is_voter:
            self._poll_in(host, POLL_MS)

    def _serve(
        self, host: Host, replica: Host, life: int, fetch: int, epoch: int, offset: int, last_epoch: int
    ) -> None:
        core, log = host.core, host.log
        if core is None:
            self._world.refuse(replica, host)
            return
        now_ms = self._world.now_ms
        asked = {"epoch": epoch, "offset": offset, "last_epoch": last_epoch, "life": b"%d" % life}
        verdict, effects = core.on_fetch(replica.me, now_ms=now_ms, **asked)
        if verdict.answer.error is ErrorCode.NONE and replica.me in host.heard_ms:
            host.heard_ms[replica.me] = now_ms
        if not self.run(host, effects):
            return
        entries: list[Entry] = []
        if verdict.is_readable:
            first = offset - log.start_offset
            entries = log.entries[first : first + self._world.fetch_entries_max]
        answered = (life, fetch, offset, verdict, entries, core.high_watermark)
        self._send(host.me, replica.me, self._take, replica, host.me, *answered)

    def _take(
        self,
        host: Host,
        leader: NodeId,
        life: int,
        fetch: int,
        offset: int,
        verdict: FetchVerdict,
        entries: list[Entry],
        high_watermark: int,
    ) -> None:
        core = host.core
        if core is None or host.life != life or host.fetch != fetch:
            return
        host.fetch += 1
        answer = verdict.answer
        if answer.error is ErrorCode.NONE:
            if core.fetches_from != leader or core.epoch != answer.epoch or not continues(host, offset):
                return
            if verdict.snapshot is not None:
                self._load(host, core, verdict.snapshot)
            if entries:
                self.append(host, entries)
        effects = core.on_fetch_answer(leader, answer, verdict.divergence, high_watermark, self._world.now_ms)
        if self.run(host, effects):
            if entries:
                self.sync(host)
            elif answer.error is ErrorCode.NONE and not verdict.is_readable:
                self._poll_in(host, 0)

    def _load(self, host: Host, core: RaftNode, snapshot: SnapshotId) -> None:
        self._judge.loads(host, snapshot)
        log = host.log
        log.entries.clear()
        log.start_offset, log.first_epoch = snapshot.end_offset, snapshot.epoch
        log.durable_offset = host.sync_to = log.start_offset
        self.run(host, core.on_snapshot(snapshot))

    # The disk

    def sync(self, host: Host) -> None:
        """One sync at a time; it brings to the disk what was in the log when it began."""
        if host.is_syncing:
            return
        host.sync_to = host.log.end_offset
        if host.disk_ms:
            host.is_syncing = True
            self._after(self._world.rng.random() * host.disk_ms, self._synced, host, host.life)
        else:
            self._is_durable(host)

    def _synced(self, host: Host, life: int) -> None:
        if host.life == life:
            host.is_syncing = False
            self._is_durable(host)
            if host.log.durable_offset < host.log.end_offset:
                self.sync(host)

    def _is_durable(self, host: Host) -> None:
        """A leader counts itself; a follower says so with its next fetch."""
        core = host.core
        assert core is not None
        host.log.durable_offset = max(host.log.durable_offset, host.sync_to)
        if core.leads:
            self.run(host, core.on_durable())
        else:
            self._poll_in(host, 0)


def acknowledged(host: Host) -> int:
    """From where a replica fetches, which says that it holds all before durably."""
    return host.log.durable_offset


def continues(host: Host, offset: int) -> bool:
    """Whether what was fetched from `offset` belongs behind the log as it is now."""
    return host.log.end_offset == offset
