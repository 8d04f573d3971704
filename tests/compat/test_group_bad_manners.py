"""Members that misbehave: the group gets over them, and nobody outside it notices.

What a single bad request is answered is asked in `questions`; here are those whose harm would come later.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator

import pytest

from tests.compat import wire
from tests.compat.questions.catalogue import Bound
from tests.compat.questions.party import Party
from tests.compat.questions.stage import Stage
from tests.compat.servers import Server

PATIENCE_MS = 1_000
"""The session and rebalance timeouts of those whose end is waited for."""


@pytest.fixture(scope="module")
def stage(broker: Server, coordinators: None) -> Stage:
    made = Stage(broker.bootstrap, f"manners{uuid.uuid4().hex[:10]}", has_coordinators=True)
    made.create("filled", 3)
    return made


@pytest.fixture
def party(stage: Stage) -> Iterator[Party]:
    with wire.Wire(stage.bootstrap) as connection:
        made = Party(stage, Bound("join_group", 9, connection), uuid.uuid4().hex[:8])
        yield made
        made.close()


def _bystander_is_served(stage: Stage) -> None:
    """A group of its own forms, commits and ends at once."""
    with wire.Wire(stage.bootstrap) as connection:
        other = Party(stage, Bound("join_group", 9, connection), uuid.uuid4().hex[:8])
        started = time.monotonic()
        generation = other.stable()
        other.commit(generation_id_or_member_epoch=generation, member_id=other.ids["A"])
        other.leave("A")
        other.close()
    assert time.monotonic() - started < PATIENCE_MS / 1000


def _until_rebalance(party: Party, member: str, generation: int) -> float:
    """How long it takes until the member hears that the group wants it to join again."""
    started = time.monotonic()
    while (error := party.heartbeat(member, generation)["error_code"]) == "none":
        assert time.monotonic() - started < 10
        time.sleep(0.02)
    assert error == "rebalance_in_progress"
    return time.monotonic() - started


def test_who_joins_and_never_syncs_is_dropped(stage: Stage, party: Party) -> None:
    """When its rebalance timeout is over the others start again without it."""
    short = {"rebalance_timeout": PATIENCE_MS}
    generation = party.stable(**short)
    party.knock("B", generation, **short)
    generation = int(party.join("A", **short)["generation_id"])
    party.finish_join("B")
    assert party.sync("A", generation, {"A": [0, 1], "B": [2]})["error_code"] == "none"
    _bystander_is_served(stage)
    waited = _until_rebalance(party, "A", generation)
    assert waited >= PATIENCE_MS / 1000 / 2
    again = party.join("A", **short)
    assert [party.ids["A"]] == [member["member_id"] for member in again["members"]]
    assert party.heartbeat("B", generation)["error_code"] == "unknown_member_id"


def test_who_takes_an_id_and_never_joins_is_forgotten(stage: Stage, party: Party) -> None:
    """Until then the others wait for it, since it counts as a member that is to join."""
    answer = party.wire("B").ask("join_group", 9, **party.joining("B", session_timeout=PATIENCE_MS))
    assert answer["error_code"] == "member_id_required"
    started = time.monotonic()
    joined = party.join("A")
    assert time.monotonic() - started < 10
    assert joined["error_code"] == "none"
    assert [member["member_id"] for member in joined["members"]] == [party.ids["A"]]


def test_a_leader_that_never_assigns_is_replaced(stage: Stage, party: Party) -> None:
    """The follower waits in its sync, is told to join again, and leads."""
    short = {"rebalance_timeout": PATIENCE_MS, "session_timeout": PATIENCE_MS}
    generation = party.stable(**short)
    party.knock("B", generation, **short)
    generation = int(party.join("A", **short)["generation_id"])
    assert party.finish_join("B")["leader"] == party.ids["A"]
    party.wire("B").send("sync_group", 5, **party.syncing("B", generation))
    _bystander_is_served(stage)
    assert party.wire("B").receive("sync_group", 5)["error_code"] == "rebalance_in_progress"
    again = party.join("B", **short)
    assert (again["error_code"], again["leader"]) == ("none", party.ids["B"])


@pytest.mark.parametrize("metadata", [b"", b"\xff" * 9, b"m" * 1000, struct.pack(">hi", 0, 2**31 - 1)])
def test_a_subscription_that_cannot_be_read_harms_nobody(
    metadata: bytes, broker: Server, stage: Stage, party: Party
) -> None:
    """The broker hands it on unread. Kafka reads it after all, stumbles, and never answers; so it is not asked."""
    if broker.name == "kafka":
        pytest.skip("Kafka leaves such a join without an answer")
    protocols = [{"name": "range", "metadata": metadata}]
    joined = party.join("A", protocols=protocols)
    assert (joined["error_code"], joined["members"][0]["metadata"]) == ("none", metadata)
    assert party.sync("A", joined["generation_id"], {"A": [0]})["error_code"] == "none"
    _bystander_is_served(stage)


def test_an_assignment_that_cannot_be_read_harms_nobody(stage: Stage, party: Party) -> None:
    generation = party.join("A")["generation_id"]
    fields = party.syncing("A", generation)
    fields["assignments"] = [{"member_id": party.ids["A"], "assignment": b"\xff" * 9}]
    assert party.wire("A").ask("sync_group", 5, **fields)["assignment"] == b"\xff" * 9
    described = party.wire("outside").ask("describe_groups", 5, groups=[party.group])["groups"][0]
    assert described["members"][0]["member_assignment"] == b"\xff" * 9
    _bystander_is_served(stage)


def test_members_that_hang_up_while_they_wait_are_missed(stage: Stage, party: Party) -> None:
    """Their connection is gone; the group finds out when their session is over, and goes on."""
    short = {"session_timeout": PATIENCE_MS, "rebalance_timeout": PATIENCE_MS}
    generation = party.stable(**short)
    with wire.Wire(stage.bootstrap) as connection:
        ghost = Party(stage, Bound("join_group", 9, connection), "ghost")
        ghost.group = party.group
        ghost.start_join("B", **short)
        ghost.close()
    _until_rebalance(party, "A", generation)
    started = time.monotonic()
    joined = party.join("A", **short)
    assert joined["error_code"] == "none"
    assert time.monotonic() - started < 10
    _bystander_is_served(stage)
