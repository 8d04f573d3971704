"""A whole quorum for tests that say in a few lines what happens to it: who asks whom, who fetches, who is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from bifrost.raft.core.effects import Timing
from bifrost.raft.core.messages import Answer, ElectionState
from bifrost.raft.core.roles import Prospective
from bifrost.types import NodeId
from tests.unit.raft.members import Entry, Fetched, Member, ask, take

TIMING = Timing()


class Quorum:
    """Voters 1, 2, 3 ...: with empty disks, or with logs of entries of these epochs, which they once agreed about."""

    def __init__(self, size: int = 3, logs: Mapping[int, Sequence[int]] | None = None, observer: int = 0) -> None:
        self.now_ms = 0.0
        voters = range(1, size + 1)
        self.members = {
            me: Member(me, voters, TIMING, repeat(0.5).__next__) for me in (*voters, *([observer] * (observer > 0)))
        }
        for me, epochs in (logs or {}).items():
            self.write(me, epochs)
        for member in self.members.values():
            member.start(0)

    def __getitem__(self, me: int) -> Member:
        return self.members[me]

    def write(self, me: int, epochs: Sequence[int], *, latest_epoch: int | None = None) -> None:
        """As if it had lived for a while: two entries of one epoch at one offset are the same."""
        member = self.members[me]
        member.log.entries = [Entry(epoch, f"{epoch}@{offset}") for offset, epoch in enumerate(epochs)]
        member.log.durable_offset = len(epochs)
        member.stored = ElectionState(
            max(epochs, default=0) if latest_epoch is None else latest_epoch, is_newborn=False
        )

    def epochs(self, me: int) -> list[int]:
        return [entry.epoch for entry in self.members[me].log.entries]

    def tick(self, me: int) -> None:
        """Time goes on until this one acts."""
        member = self.members[me]
        self.now_ms = max(self.now_ms, member.alive.deadline_ms())
        member.run(member.alive.on_tick(self.now_ms))

    def send(self, me: int, *peers: int) -> dict[int, Answer]:
        """It says what it has to say to some, or to all who live, and hears their answers."""
        answers = {}
        member = self.members[me]
        chosen = peers or [peer for peer in member.voters if peer != me and self.members[peer].core]
        messages = {peer: member.alive.message_for(NodeId(peer), self.now_ms) for peer in chosen}
        for peer, message in messages.items():
            if message is not None:
                answers[peer] = self.members[peer].answer(message, self.now_ms)
                member.take_answer(NodeId(peer), message, answers[peer], self.now_ms)
        return answers

    def elect(self, me: int, *peers: int) -> None:
        """It campaigns among some, or all, and makes itself known to them."""
        while not isinstance(self[me].alive.role, Prospective):
            self.tick(me)
        for _ in ("pre-votes", "votes", "announcements"):
            self.send(me, *peers)
        assert self[me].alive.leads, f"{me} was not elected: {self[me].alive.role}"

    def fetch(self, me: int, *, sync: bool = True) -> Fetched:
        member = self.members[me]
        leader = member.alive.fetches_from
        assert leader is not None, f"{me} knows no leader"
        fetched = ask(member, self.members[leader], self.now_ms)
        take(member, fetched, self.now_ms, sync=sync)
        return fetched

    def catch_up(self, *followers: int) -> None:
        """They fetch what there is, acknowledge it, and hear what is committed; and those before them do, too."""
        for me in followers * 3:
            self.fetch(me)

    def lead(self, me: int = 1, *followers: int) -> None:
        """It is elected, and everybody has its first record and knows that it is committed."""
        self.elect(me, *followers)
        self.catch_up(*(followers or [peer for peer in self[me].voters if peer != me]))

    def append(self, me: int, *texts: str) -> None:
        for text in texts:
            self[me].append(text)
        self[me].sync()

    def lose(self, me: int, *noticed_by: int) -> None:
        """Its process ends."""
        self[me].crash()
        for other in noticed_by:
            member = self.members[other]
            member.run(member.alive.on_peer_dead(NodeId(me), self.now_ms))

    def restart(self, me: int, *noticed_by: int) -> None:
        self.lose(me, *noticed_by)
        self[me].start(self.now_ms)
