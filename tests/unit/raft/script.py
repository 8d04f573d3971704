"""Runs a script of what happens to a quorum, and writes below each line what came of it.

A script is a text with lines that start with `> `; what stands below one is what it printed. Run the tests with
`REWRITE=1` to write anew what the scripts print, and read the difference.

    > voters 1 2 3          three voters, none of them started
    > start 1 2 3           start them; they know what is on their disks
    > observer 9            a node that follows and does not vote
    > tick 1                move time to node 1's deadline, and let it notice
    > after 2500            move time, and let everybody notice whose deadline has passed
    > send 1 [2 3]          what node 1 has to tell each of the others arrives, and the answers too
    > ask 1 [2 3]           the same, but the answers are lost
    > fetch 2 [from 1]      node 2 fetches once, from the leader it knows of
    > append 1 a b          the leader appends, without a sync; `sync 1` makes it durable
    > compact 1 4           a snapshot replaces what lies below offset 4
    > crash 1, notice 2 1   node 1 is gone; node 2 sees that nobody listens there any more
    > wipe 1                its disk is empty
    > resign 1              it stops in good order
    > show 1                all of its state
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat

from bifrost.raft.core.effects import Timing
from bifrost.raft.core.messages import Answer, BeginEpoch, ElectionState, EndEpoch, Message, Vote
from bifrost.types import NodeId
from tests.unit.raft.members import ListLog, Member, ask, take


class Script:
    """One quorum. `run` carries out a line and returns what is to be printed below it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.members: dict[NodeId, Member] = {}
        self._printed: list[str] = []
        self._seen: dict[NodeId, str] = {}
        self._random = chain((0.0, 0.5, 0.9), repeat(0.5)).__next__

    def play(self, text: str) -> str:
        """The script again, with what it prints now."""
        lines = []
        for line in text.splitlines():
            if line.startswith("> "):
                lines.append(line)
                lines += [f"  {printed}" for printed in self.run(line[2:])]
            elif not line.startswith("  "):
                lines.append(line)
        return "\n".join(lines) + "\n"

    def run(self, line: str) -> list[str]:
        self._printed = []
        verb, *words = line.split()
        command: Callable[..., None] = getattr(self, f"do_{verb}")
        command(*words)
        for me, member in self.members.items():
            state = _described(member)
            if self._seen.get(me) != state:
                self._seen[me] = state
                self._printed.append(f"{me}: {state}")
        return self._printed

    def do_voters(self, *ids: str) -> None:
        for me in ids:
            self._add(int(me), [int(one) for one in ids])

    def do_observer(self, me: str) -> None:
        self._add(int(me), list(self.members))
        self.do_start(me)

    def do_start(self, *ids: str) -> None:
        for me in ids:
            self._member(me).start(self.now_ms)

    def do_tick(self, me: str) -> None:
        member = self._member(me)
        self.now_ms = max(self.now_ms, member.alive.deadline_ms())
        member.run(member.alive.on_tick(self.now_ms))

    def do_after(self, ms: str) -> None:
        self.now_ms += float(ms)
        for member in self.members.values():
            if member.core is not None:
                member.run(member.core.on_tick(self.now_ms))

    def do_send(self, me: str, *peers: str) -> None:
        for peer, message in self._messages(me, peers):
            answer = self._deliver(me, peer, message)
            if answer is not None:
                self._member(me).take_answer(peer, message, answer, self.now_ms)

    def do_ask(self, me: str, *peers: str) -> None:
        for peer, message in self._messages(me, peers):
            self._deliver(me, peer, message)

    def do_fetch(self, me: str, _from: str = "", peer: str = "") -> None:
        follower = self._member(me)
        target = NodeId(int(peer)) if peer else follower.alive.fetches_from
        assert target is not None, f"{me} knows no leader"
        fetched = ask(follower, self.members[target], self.now_ms)
        answer = fetched.answer
        told = f"{me} -> {target} fetch epoch={follower.alive.epoch} offset={fetched.offset}: {_answer(answer)}"
        if fetched.divergence is not None:
            told += f" diverging={fetched.divergence.epoch}@{fetched.divergence.end_offset}"
        if fetched.snapshot is not None:
            told += f" snapshot={fetched.snapshot.first_epoch}@{fetched.snapshot.start_offset}"
        if fetched.entries:
            told += f" records={len(fetched.entries)}"
        self._printed.append(told)
        take(follower, fetched, self.now_ms)

    def do_append(self, me: str, *texts: str) -> None:
        for text in texts:
            self._member(me).append(text)

    def do_sync(self, me: str) -> None:
        self._member(me).sync()

    def do_compact(self, me: str, offset: str) -> None:
        self._member(me).log.compact(int(offset))

    def do_crash(self, *ids: str) -> None:
        for me in ids:
            self._member(me).crash()

    def do_wipe(self, me: str) -> None:
        member = self._member(me)
        member.crash()
        member.log, member.stored = ListLog(), ElectionState()

    def do_notice(self, me: str, *peers: str) -> None:
        member = self._member(me)
        for peer in peers:
            member.run(member.alive.on_peer_dead(NodeId(int(peer)), self.now_ms))

    def do_resign(self, me: str) -> None:
        member = self._member(me)
        member.run(member.alive.resign(self.now_ms))

    def do_show(self, me: str) -> None:
        member = self._member(me)
        entries = " ".join(f"{entry.epoch}:{entry.text}" for entry in member.log.entries)
        self._printed.append(f"{me} log from {member.log.start_offset}: {entries}")
        stored = member.stored
        self._printed.append(f"{me} disk: epoch={stored.epoch} voted={stored.voted_for} leader={stored.leader}")

    def _add(self, me: int, voters: list[int]) -> None:
        self.members[NodeId(me)] = Member(me, voters, Timing(), self._random)
        self._seen[NodeId(me)] = "down"

    def _member(self, me: str) -> Member:
        return self.members[NodeId(int(me))]

    def _messages(self, me: str, peers: tuple[str, ...]) -> list[tuple[NodeId, Message]]:
        """What it has to say to each of them; what comes of the first may change what the next is told."""
        core = self._member(me).alive
        chosen = [NodeId(int(peer)) for peer in peers] or [peer for peer in core.voters if peer != core.me]
        told = [(peer, core.message_for(peer, self.now_ms)) for peer in chosen]
        return [(peer, message) for peer, message in told if message is not None]

    def _deliver(self, me: str, peer: NodeId, message: Message) -> Answer | None:
        if self.members[peer].core is None:
            self._printed.append(f"{me} -> {peer} {_message(message)}: nobody there")
            return None
        answer = self.members[peer].answer(message, self.now_ms)
        self._printed.append(f"{me} -> {peer} {_message(message)}: {_answer(answer)}")
        return answer


def _message(message: Message) -> str:
    match message:
        case Vote(epoch, _, end, is_pre_vote):
            return f"{'pre-vote' if is_pre_vote else 'vote'} epoch={epoch} log={end.epoch}@{end.offset}"
        case BeginEpoch(epoch):
            return f"begin epoch={epoch}"
        case EndEpoch(epoch, _, successors):
            return f"end epoch={epoch} successors={','.join(map(str, successors))}"


def _answer(answer: Answer) -> str:
    words = [f"epoch={answer.epoch}", f"leader={answer.leader}"]
    if answer.error:
        words.append(answer.error.name)
    if answer.granted:
        words.append("granted")
    return " ".join(words)


def _described(member: Member) -> str:
    core = member.core
    if core is None:
        return "down"
    role = type(core.role).__name__
    end = core.log_end
    return f"{role} epoch={core.epoch} leader={core.leader} log={end.epoch}@{end.offset} hw={core.high_watermark}"
