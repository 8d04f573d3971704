"""Makes sure that this member still leads, by asking the others: what a leader must do before it may say what is so.

A leader that was cut off does not know that others have elected somebody else. Its log is then behind theirs, and what
it reads there is of the past. So it asks every other voter whether the epoch is still its own (the announcement that a
new leader makes is that question, and may be repeated), and a majority has to say yes. Nobody can have been elected by
then, because that takes a majority of voters in a later epoch. Everything that was committed before the question came
is below the high watermark that it knows (Raft, section 6.4; Ongaro's ReadIndex).

A voter has one question at a time. Whoever wants to know while one is under way shares the next: the answer to this one
may be from before.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.peers.names import node_name
from bifrost.peers.transport import Transport
from bifrost.protocol.messages.quorum import BeginQuorumEpochResponse
from bifrost.raft import wire
from bifrost.raft.core.messages import BeginEpoch
from bifrost.raft.core.quorum import majority
from bifrost.raft.core.roles import Leader
from bifrost.raft.driver import QuorumMember
from bifrost.raft.links import Links
from bifrost.types import NodeId

_MS: Final = 1000.0
_NO_EPOCH: Final = -1


class LeadershipCheck:
    """Of one member. Connections of its own: what the quorum itself has to say must not wait for this."""

    def __init__(self, member: QuorumMember, transport: Transport) -> None:
        self._member = member
        self._timeout_s = member.settings.request_timeout_ms / _MS
        links = Links(transport, member.settings.voters, node_name(member.me, "check"), timeout_s=self._timeout_s)
        self._links = links
        self._others = [_Voter(member, links, voter) for voter in member.core.voters if voter != member.me]

    async def confirm(self) -> int:
        """The high watermark, below which is everything that anybody knew to be committed when this was called.

        ApiError(NOT_CONTROLLER): this member does not lead, or cannot find out.
        """
        core = self._member.core
        role, epoch = core.role, core.epoch
        if not isinstance(role, Leader) or core.high_watermark <= role.epoch_start:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum")
        confirmed = await self._ask_others(epoch)
        if not confirmed or not core.leads or core.epoch != epoch:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no majority of the quorum confirms that this node still leads")
        return core.high_watermark

    def close(self) -> None:
        for voter in self._others:
            voter.close()
        self._links.close()

    async def _ask_others(self, epoch: int) -> bool:
        """Whether a majority, this member included, is still in the epoch."""
        needed, silent = majority(len(self._others) + 1) - 1, len(self._others)
        if needed == 0:
            return True
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def count(answer: asyncio.Task[int]) -> None:
            nonlocal needed, silent
            silent -= 1
            needed -= not answer.cancelled() and answer.result() == epoch
            if not outcome.done() and (needed <= 0 or needed > silent):
                outcome.set_result(needed <= 0)

        for voter in self._others:
            voter.ask().add_done_callback(count)
        try:
            return await asyncio.wait_for(outcome, self._timeout_s)
        except TimeoutError:
            return False


class _Voter:
    """Another voter, and the questions to it: at most one under way, and one that waits for that to be answered."""

    def __init__(self, member: QuorumMember, links: Links, voter: NodeId) -> None:
        self._member = member
        self._links = links
        self._voter = voter
        self._running: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    def ask(self) -> asyncio.Task[int]:
        """The epoch of which it says that this member leads it, in an answer to a question that is still to be sent."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._running), name=f"leadership check {self._voter}")
        return self._next

    def close(self) -> None:
        for task in (self._running, self._next):
            if task is not None:
                task.cancel()

    async def _ask_after(self, earlier: asyncio.Task[int] | None) -> int:
        if earlier is not None:
            await asyncio.gather(earlier, return_exceptions=True)
        self._running, self._next = self._next, None
        member = self._member
        request = wire.begin_request(BeginEpoch(member.core.epoch, member.me), self._voter, member.cluster_id)
        timeout_s = member.settings.request_timeout_ms / _MS
        if not member.core.leads:  # since a moment ago: nobody may be told otherwise
            return _NO_EPOCH
        try:
            link = await self._links.to(self._voter)
            answer = wire.read_epoch_answer(await link.ask(request, BeginQuorumEpochResponse, timeout_s=timeout_s))
        except (PeerError, ApiError):
            return _NO_EPOCH
        return answer.epoch if answer.error is ErrorCode.NONE else _NO_EPOCH
