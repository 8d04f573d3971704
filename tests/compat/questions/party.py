"""Raw members for questions about groups: each has a connection of its own, and a group belongs to one question.

Decides how a member that only sets the scene joins and syncs, at versions that never change; the question itself is
asked at the version under test. Group and member ids are given names on the stage, so that answers read the same on
every broker.
"""

from __future__ import annotations

import contextlib
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.compat.questions.catalogue import Answers, question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer, Wire

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = 9, 5, 4, 5, 9
SESSION_MS, REBALANCE_MS = 30_000, 30_000
CONSUMER_HEARTBEAT = 1
NOBODY = f"nobody-{uuid.UUID(int=0xBAD)}"
"""The id of a member that no group has."""

PartyFunction = Callable[[Stage, Ask, "Party"], Answers]


def subscription(*topics: str) -> bytes:
    """What a consumer tells its group's leader: version 0, topics, no user data."""
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def assignment(partitions: Mapping[str, list[int]]) -> bytes:
    """What the leader tells a consumer: version 0, partitions by topic, no user data."""
    parts = b"".join(
        struct.pack(f">h{len(topic)}si{len(each)}i", len(topic), topic.encode(), len(each), *each)
        for topic, each in partitions.items()
    )
    return struct.pack(">hi", 0, len(partitions)) + parts + struct.pack(">i", -1)


def await_coordinators(bootstrap: str) -> None:
    """Asking for a coordinator creates the topic it keeps its groups in; each of its partitions must be led and loaded.

    Some hundred names hit every one of the fifty partitions.
    """
    names = [f"probe-{number}" for number in range(500)]
    with Wire(bootstrap) as connection:

        def ready(answers: list[Answer]) -> bool:
            return all(each["error_code"] == "none" for each in answers)

        while not ready(connection.ask("find_coordinator", 4, coordinator_keys=names[:1])["coordinators"]):
            time.sleep(0.02)
        while not ready(connection.ask("describe_groups", 5, groups=names)["groups"]):
            time.sleep(0.02)


class Party:
    """The members of one group, by a letter each."""

    def __init__(self, stage: Stage, ask: Ask, name: str) -> None:
        self._stage = stage
        self._ask = ask
        if not stage.has_coordinators:
            await_coordinators(stage.bootstrap)
            stage.has_coordinators = True
        self._connections = contextlib.ExitStack()
        self._wires: dict[str, Wire] = {}
        self.ids: dict[str, str] = {}
        self.group = self.another(name)
        self.topic = stage.name("filled")

    def another(self, name: str) -> str:
        """A group id that no other question and no other version uses."""
        group = self._stage.name(f"{name}-v{self._ask.version}")
        self._stage.aliases[group] = f"<{name}>"
        return group

    def close(self) -> None:
        self._connections.close()

    def wire(self, member: str) -> Wire:
        if member not in self._wires:
            self._wires[member] = self._connections.enter_context(Wire(self._stage.bootstrap))
        return self._wires[member]

    def meet(self, member: str, member_id: str | None) -> None:
        """From now on answers call that id by the member's letter."""
        if member_id and member_id != NOBODY:
            self._stage.aliases[member_id] = f"<{member}>"
            self.ids[member] = member_id

    def joining(self, member: str, **changed: Any) -> dict[str, Any]:
        """The fields of a JoinGroup request by a consumer of the stage's topic."""
        return {
            "group_id": self.group,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "member_id": self.ids.get(member, ""),
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(self.topic)}],
            **changed,
        }

    def join(self, member: str, version: int = JOIN, **changed: Any) -> Answer:
        """Joins as a client does: once more with the id if the broker wants that; waits until the group has joined."""
        self.start_join(member, version, **changed)
        return self.finish_join(member, version)

    def start_join(self, member: str, version: int = JOIN, **changed: Any) -> None:
        if version >= 4 and member not in self.ids and "group_instance_id" not in changed:
            answer = self.wire(member).ask("join_group", version, **self.joining(member, **changed))
            assert answer["error_code"] == "member_id_required", answer
            self.meet(member, answer["member_id"])
        self.wire(member).send("join_group", version, **self.joining(member, **changed))

    def finish_join(self, member: str, version: int = JOIN) -> Answer:
        answer = self.wire(member).receive("join_group", version)
        self.meet(member, answer["member_id"])
        return answer

    def syncing(self, member: str, generation: int, shares: Mapping[str, list[int]] | None = None) -> dict[str, Any]:
        """The fields of a SyncGroup request; only a leader has `shares`, partitions of the stage's topic by member."""
        return {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": self.ids.get(member, ""),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": self.ids[each], "assignment": assignment({self.topic: share})}
                for each, share in (shares or {}).items()
            ],
        }

    def sync(self, member: str, generation: int, shares: Mapping[str, list[int]] | None = None) -> Answer:
        return self.wire(member).ask("sync_group", SYNC, **self.syncing(member, generation, shares))

    def stable(self, **changed: Any) -> int:
        """A joins, leads and owns all three partitions; returns the generation."""
        joined = self.join("A", **changed)
        assert joined["error_code"] == "none", joined
        synced = self.sync("A", joined["generation_id"], {"A": [0, 1, 2]})
        assert synced["error_code"] == "none", synced
        return int(joined["generation_id"])

    def stable_pair(self) -> int:
        """A leads and owns two partitions, B follows and owns one; returns the generation."""
        self.rebalancing()
        generation = int(self.join("A")["generation_id"])
        assert self.finish_join("B")["generation_id"] == generation
        self.sync("A", generation, {"A": [0, 1], "B": [2]})
        self.sync("B", generation)
        return generation

    def rebalancing(self) -> int:
        """A was stable, B wants to join and waits for A; returns the generation A still has."""
        generation = self.stable()
        self.knock("B", generation)
        return generation

    def knock(self, member: str, generation: int, **changed: Any) -> None:
        """A new member begins to join; returns when A, who is of that generation, could know."""
        self.start_join(member, **changed)
        while self.heartbeat("A", generation)["error_code"] == "none":
            pass

    def heartbeat(self, member: str, generation: int) -> Answer:
        fields = {"group_id": self.group, "generation_id": generation, "member_id": self.ids[member]}
        return self.wire(member).ask("heartbeat", HEARTBEAT, **fields)

    def leave(self, member: str) -> Answer:
        identity = {"member_id": self.ids[member]}
        return self.wire(member).ask("leave_group", LEAVE, group_id=self.group, members=[identity])

    def commit(self, offset: int = 5, *, partition: int = 0, topic: str = "filled", **changed: Any) -> Answer:
        """A commit from outside the group, unless the fields of a member are given."""
        where = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "note"}
        topics = [{"name": self._stage.name(topic), "partitions": [where]}]
        fields = {"group_id": self.group, "topics": topics, "generation_id_or_member_epoch": -1, **changed}
        answer = self.wire("outside").ask("offset_commit", COMMIT, **fields)
        assert answer["topics"][0]["partitions"][0]["error_code"] == "none", answer
        return answer

    def beating(self, member: str, epoch: int, **changed: Any) -> dict[str, Any]:
        """The fields of a ConsumerGroupHeartbeat (KIP-848); an epoch of 0 joins, with ids that the client made."""
        fields: dict[str, Any] = {"group_id": self.group, "member_epoch": epoch, "rebalance_timeout": -1}
        if member not in self.ids:
            self.meet(member, str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.group}{member}")))
        fields |= {"member_id": self.ids[member], "topic_partitions": None}
        if epoch == 0:
            fields |= {"rebalance_timeout": REBALANCE_MS, "topic_partitions": []}
            fields |= {"subscribed_topic_names": [self.topic]}
        return {**fields, **changed}

    def beat(self, member: str, epoch: int, **changed: Any) -> Answer:
        fields = self.beating(member, epoch, **changed)
        return self.wire(member).ask("consumer_group_heartbeat", CONSUMER_HEARTBEAT, **fields)

    def owning(self, *partitions: int) -> list[dict[str, Any]]:
        return [{"topic_id": self._stage.topic_id("filled"), "partitions": list(partitions)}] if partitions else []

    def consumer_alone(self, member: str = "A") -> int:
        """A member of a KIP-848 group that owns all three partitions; returns its epoch."""
        answer = self.beat(member, 0)
        while not (answer["assignment"] or {}).get("topic_partitions"):
            answer = self.beat(member, int(answer["member_epoch"]), topic_partitions=[])
        epoch = int(answer["member_epoch"])
        assert self.beat(member, epoch, topic_partitions=self.owning(0, 1, 2))["error_code"] == "none"
        return epoch


def group_question(
    api: str, first: int | None = None, last: int | None = None, name: str = ""
) -> Callable[[PartyFunction], PartyFunction]:
    """A question with a party of its own, whose connections end with it."""

    def register(function: PartyFunction) -> PartyFunction:
        label = name or function.__name__

        def asked(stage: Stage, ask: Ask) -> Answers:
            party = Party(stage, ask, f"{api}-{label}")
            try:
                return function(stage, ask, party)
            finally:
                party.close()

        asked.__name__ = label
        question(api, first, last)(asked)
        return function

    return register
