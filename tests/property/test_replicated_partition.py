"""A leader, two followers and a controller, in any order of events: whoever may be elected holds what is committed.

The controller's answers are lost, late or overtaken by metadata, and followers are fenced and start again without what
they had not synced. The invariant is judged by what the controller has, of which the leader may not have heard.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bifrost.errors import ApiError
from bifrost.replication.core.leader import Effects, Member, PartitionLeader
from bifrost.types import NodeId

ME = NodeId(1)
OTHERS = (NodeId(2), NodeId(3))
ALL = (ME, *OTHERS)
LAG_MS = 100.0

follower = st.sampled_from(OTHERS)


class ReplicatedPartition(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.epochs = {broker: 10 + broker for broker in ALL}
        self.ends = dict.fromkeys(ALL, 0)
        # What the controller has committed, and what the leader has heard of it.
        self.isr = frozenset(ALL)
        self.partition_epoch = 0
        self.fenced: set[NodeId] = set()
        self.live = dict(self.epochs)
        self.proposal: tuple[int, tuple[Member, ...]] | None = None
        self.answer: tuple[int, frozenset[NodeId]] | None = None
        self.high_watermark = 0
        self.leader = PartitionLeader(
            ME,
            epoch=1,
            partition_epoch=0,
            replicas=ALL,
            isr=self.isr,
            live=self.live,
            high_watermark=0,
            log_end_offset=0,
            durable_offset=0,
        )

    def run(self, effects: Effects) -> None:
        if effects.propose_isr is not None:
            self.proposal = (self.leader.partition_epoch, effects.propose_isr)

    @rule(count=st.integers(1, 5), synced=st.booleans())
    def append(self, count: int, synced: bool) -> None:
        self.ends[ME] += count
        self.run(self.leader.on_append(self.ends[ME], self.ends[ME] if synced else self.leader.durable_offset))

    @rule()
    def sync(self) -> None:
        self.run(self.leader.on_durable(self.ends[ME]))

    @rule(broker=follower, behind=st.integers(0, 3), ms=st.floats(0, 60))
    def fetch(self, broker: NodeId, behind: int, ms: float) -> None:
        """The follower stores some of what there is, then asks for what follows."""
        self.now_ms += ms
        self.ends[broker] = max(self.ends[broker], self.ends[ME] - behind)
        try:
            self.run(self.leader.on_fetch(broker, self.epochs[broker], self.ends[broker], self.now_ms))
        except ApiError:
            raise AssertionError("a replica was refused") from None

    @rule(ms=st.floats(0, 150))
    def time_passes(self, ms: float) -> None:
        self.now_ms += ms
        self.run(self.leader.on_tick(self.now_ms, LAG_MS))

    @rule()
    @precondition(lambda self: self.proposal is not None)
    def controller_decides(self) -> None:
        assert self.proposal is not None
        epoch, isr = self.proposal
        known = {broker: -1 if broker == ME else self.epochs[broker] for broker in ALL if broker not in self.fenced}
        if epoch == self.partition_epoch and all(known.get(one.broker_id) == one.broker_epoch for one in isr):
            self.isr = frozenset(one.broker_id for one in isr)
            self.partition_epoch += 1
            self.answer = (self.partition_epoch, self.isr)
            self.proposal = None
        elif epoch == self.partition_epoch:
            self.leader.on_proposal_refused()
            self.proposal = None
        # Else the controller knows a later state, and the leader waits for the metadata.

    @rule()
    @precondition(lambda self: self.answer is not None)
    def answer_arrives(self) -> None:
        assert self.answer is not None
        epoch, isr = self.answer
        self.run(self.leader.on_partition(ALL, isr, epoch))
        self.answer = None

    @rule()
    def answer_is_lost(self) -> None:
        self.answer = None

    @rule()
    def metadata_arrives(self) -> None:
        self.live.clear()
        self.live.update({broker: epoch for broker, epoch in self.epochs.items() if broker not in self.fenced})
        self.run(self.leader.on_partition(ALL, self.isr, self.partition_epoch))
        self.run(self.leader.on_brokers_changed())

    @rule(broker=follower, lost=st.integers(0, 3))
    def dies_and_comes_back(self, broker: NodeId, lost: int) -> None:
        """Fenced, out of the ISR, started again; perhaps without the last that it had written."""
        self.fenced.discard(broker)
        if broker in self.isr:
            self.isr -= {broker}
            self.partition_epoch += 1
        self.epochs[broker] += 10
        self.ends[broker] = max(0, self.ends[broker] - lost)

    @rule(broker=follower)
    def is_fenced(self, broker: NodeId) -> None:
        self.fenced.add(broker)
        if broker in self.isr:
            self.isr -= {broker}
            self.partition_epoch += 1

    @rule(broker=follower)
    def is_unfenced(self, broker: NodeId) -> None:
        self.fenced.discard(broker)

    @invariant()
    def whoever_may_be_elected_holds_what_is_committed(self) -> None:
        for broker in self.isr - {ME}:
            assert self.ends[broker] >= self.leader.high_watermark, (
                f"{broker} may be elected and lacks what was acknowledged"
            )

    @invariant()
    def the_high_watermark_never_goes_back_or_past_the_disk(self) -> None:
        assert self.high_watermark <= self.leader.high_watermark <= max(self.leader.durable_offset, self.high_watermark)
        self.high_watermark = self.leader.high_watermark


TestReplicatedPartition = ReplicatedPartition.TestCase
TestReplicatedPartition.settings = settings(max_examples=300, stateful_step_count=40)
