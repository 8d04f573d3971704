"""What groups leave in `__consumer_offsets`, byte for byte: other people's tools read that topic.

The records are read with an ordinary client and asked about like any answer. Bytes are told as Latin-1 text in which
the ids and times of this run have been replaced; everything else, lengths and versions included, counts.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

from tests.compat.clients.base import LATEST
from tests.compat.clients.confluent import Confluent
from tests.compat.questions.catalogue import Answers
from tests.compat.questions.party import Party, group_question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer

Deed = Callable[[Stage, Ask, Party], None]

OFFSETS_TOPIC = "__consumer_offsets"
_CONSUMER_GROUP_KEY = b"\x00\x03"
_TARGET_KEY = "\x00\x07"
_HASH = slice(9, 17)
"""Where a KIP-848 group's record has the hash of its topics, whose ids are new in every run."""


def coordinator_partition(group: str, partitions: int = 50) -> int:
    """As Kafka finds it: Java's hash of a string without its sign, where the smallest number has none and becomes 0."""
    units = group.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2]):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def written(stage: Stage, group: str) -> Answer:
    """All records about the group, in their order."""
    partition = coordinator_partition(group)
    client = Confluent(stage.bootstrap)
    (end,) = client.offsets(OFFSETS_TOPIC, [partition], LATEST).values()
    assert end is not None
    found = client.consume(OFFSETS_TOPIC, {partition: 0}, end)
    about = [each for each in found if each.key is not None and group.encode() in each.key]
    told = [{"key": _told(stage, each.key), "value": _value(stage, each.key, each.value)} for each in about]
    return {"records": _in_order(told)}


def _in_order(records: list[dict[str, str | None]]) -> list[dict[str, str | None]]:
    """The targets of a group's members are written together, in no order."""
    found = []
    for is_target, run in groupby(records, key=lambda each: str(each["key"]).startswith(_TARGET_KEY)):
        together = list(run)
        found += sorted(together, key=lambda each: str(each["key"])) if is_target else together
    return found


def _value(stage: Stage, key: bytes | None, value: bytes | None) -> str | None:
    if value is not None and len(value) > _HASH.start and key is not None and key.startswith(_CONSUMER_GROUP_KEY):
        value = value[: _HASH.start] + b"<hash>" + value[_HASH.stop :]
    return None if value is None else _told(stage, value)


def _told(stage: Stage, data: bytes | None) -> str | None:
    if data is None:
        return None
    for topic_id, name in stage.topics().items():
        data = data.replace(topic_id.bytes, f"<id of {name}>".encode())
    recent = struct.pack(">q", int(time.time() * 1000))[:4]
    data = re.sub(re.escape(recent) + b".{4}", b"<now>", data, flags=re.DOTALL)
    text = data.decode("latin-1")
    for value, name in stage.aliases.items():
        text = text.replace(value, name)
    return text.replace(stage.prefix, "T")


def _written_by(api: str, name: str, first: int | None = None) -> Callable[[Deed], Deed]:
    """A question about what was written, not about what was answered."""

    def register(function: Deed) -> Deed:
        def asked(stage: Stage, ask: Ask, party: Party) -> Answers:
            function(stage, ask, party)
            return written(stage, party.group)

        group_question(api, first, name=f"writes_{name}")(asked)
        return function

    return register


def _places(stage: Stage) -> list[dict[str, Any]]:
    wheres = [
        {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note", "committed_leader_epoch": 3},
        {"partition_index": 2, "committed_offset": 8, "committed_metadata": None, "committed_leader_epoch": -1},
    ]
    return [{"name": stage.name("filled"), "topic_id": stage.topic_id("filled"), "partitions": wheres}]


@_written_by("offset_commit", "offsets")
def _offsets(stage: Stage, ask: Ask, party: Party) -> None:
    ask(group_id=party.group, generation_id_or_member_epoch=-1, retention_time=-1, topics=_places(stage))


@_written_by("offset_commit", "a_members_offsets")
def _members_offsets(stage: Stage, ask: Ask, party: Party) -> None:
    generation = party.stable()
    member = {"generation_id_or_member_epoch": generation, "member_id": party.ids["A"]}
    ask(group_id=party.group, retention_time=-1, topics=_places(stage), **member)


@_written_by("sync_group", "the_group")
def _group(stage: Stage, ask: Ask, party: Party) -> None:
    generation = party.join("A")["generation_id"]
    ask(**party.syncing("A", generation, {"A": [0, 1, 2]}))


@_written_by("join_group", "a_static_member_anew", first=5)
def _static_member(stage: Stage, ask: Ask, party: Party) -> None:
    party.stable(group_instance_id="one")
    party.meet("B", ask(**party.joining("B", group_instance_id="one"))["member_id"])


@_written_by("leave_group", "the_empty_group")
def _empty_group(stage: Stage, ask: Ask, party: Party) -> None:
    party.stable()
    member = party.ids["A"]
    ask(group_id=party.group, member_id=member, members=[{"member_id": member}])


@_written_by("delete_groups", "tombstones")
def _tombstones(stage: Stage, ask: Ask, party: Party) -> None:
    generation = party.stable()
    party.commit(generation_id_or_member_epoch=generation, member_id=party.ids["A"])
    party.leave("A")
    ask(groups_names=[party.group])


@_written_by("offset_delete", "a_tombstone")
def _tombstone(stage: Stage, ask: Ask, party: Party) -> None:
    party.commit()
    ask(group_id=party.group, topics=[{"name": party.topic, "partitions": [{"partition_index": 0}]}])


@_written_by("consumer_group_heartbeat", "a_group")
def _consumer_group(stage: Stage, ask: Ask, party: Party) -> None:
    """Joined, assigned, owned."""
    joined = ask(**party.beating("A", 0, rack_id="r1"))
    ask(**party.beating("A", joined["member_epoch"], topic_partitions=party.owning(0, 1, 2)))


@_written_by("consumer_group_heartbeat", "a_handover")
def _handover(stage: Stage, ask: Ask, party: Party) -> None:
    """A must give up what B is to get."""
    epoch = party.consumer_alone("A")
    waiting = ask(**party.beating("B", 0))
    told = ask(**party.beating("A", epoch, topic_partitions=party.owning(0, 1, 2)))
    (kept,) = told["assignment"]["topic_partitions"]
    ask(**party.beating("A", epoch, topic_partitions=party.owning(*kept["partitions"])))
    ask(**party.beating("B", waiting["member_epoch"], topic_partitions=[]))


@_written_by("consumer_group_heartbeat", "a_static_member")
def _static_consumer(stage: Stage, ask: Ask, party: Party) -> None:
    """Away, and back under another id."""
    party.beat("A", 0, instance_id="one")
    ask(**party.beating("A", -2, instance_id="one"))
    ask(**party.beating("B", 0, instance_id="one"))


@_written_by("consumer_group_heartbeat", "an_end")
def _end(stage: Stage, ask: Ask, party: Party) -> None:
    party.consumer_alone("A")
    ask(**party.beating("A", -1))
    assert party.wire("admin").ask("delete_groups", 2, groups_names=[party.group])["results"]


@_written_by("consumer_group_heartbeat", "in_place_of_a_classic_group")
def _upgrade(stage: Stage, ask: Ask, party: Party) -> None:
    party.stable()
    party.leave("A")
    ask(**party.beating("B", 0))


@_written_by("join_group", "in_place_of_a_consumer_group", first=4)
def _downgrade(stage: Stage, ask: Ask, party: Party) -> None:
    party.consumer_alone("A")
    party.beat("A", -1)
    party.join("B", ask.version)
