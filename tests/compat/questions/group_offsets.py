"""Questions about what groups commit: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import uuid
from typing import Any

from tests.compat.questions.catalogue import Answers
from tests.compat.questions.odd_names import ODD_GROUPS
from tests.compat.questions.party import NOBODY, Party, group_question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer

NO_TOPIC = uuid.UUID(int=0xBAD)


def _place(stage: Stage, topic: str, **fields: Any) -> dict[str, Any]:
    """A topic by name and, for v10 on, by id."""
    topic_id = NO_TOPIC if topic == "missing" else stage.topic_id(topic)
    return {"name": stage.name(topic), "topic_id": topic_id, **fields}


def _where(partition: int = 0, offset: int = 7, metadata: str | None = "note", epoch: int = -1) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": metadata,
        "committed_leader_epoch": epoch,
        "commit_timestamp": -1,
    }


def _committing(stage: Stage, party: Party, **changed: Any) -> dict[str, Any]:
    topics = [_place(stage, "filled", partitions=[_where()])]
    outside = {"generation_id_or_member_epoch": -1, "member_id": "", "retention_time": -1}
    return {"group_id": party.group, "topics": topics, **outside, **changed}


def _fetched(party: Party) -> Answer:
    """All that the group has, which has no order."""
    asked = {"group_id": party.group, "topics": None}
    return _in_order(party.wire("outside").ask("offset_fetch", 9, groups=[asked]))


def _in_order(answer: Answer) -> Answer:
    """Topics by name or, where they have only ids, the known ones first."""
    for group in answer.get("groups", [answer]):
        group["topics"].sort(key=lambda each: (each.get("name", ""), str(each["partitions"][:1])))
        for topic in group["topics"]:
            topic["partitions"].sort(key=lambda each: int(each["partition_index"]))
    return answer


def _commit(name: str, *topics: tuple[str, list[dict[str, Any]]], first: int | None = None, **changed: Any) -> None:
    """A commit from outside any group, and what is then there."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        places = [_place(stage, topic, partitions=partitions) for topic, partitions in topics]
        return [ask(**_committing(stage, party, topics=places, **changed)), _fetched(party)]

    group_question("offset_commit", first, name=name)(function)


_commit("simple", ("filled", [_where()]))
_commit("two_partitions_of_two_topics", ("filled", [_where(2), _where(0)]), ("empty", [_where()]))
_commit("the_same_partition_twice", ("filled", [_where(offset=7), _where(offset=3)]))
_commit("with_a_leader_epoch", ("filled", [_where(epoch=3)]), first=6)
_commit("without_metadata", ("filled", [_where(metadata=None)]))
_commit("with_empty_metadata", ("filled", [_where(metadata="")]))
_commit("with_the_longest_metadata", ("filled", [_where(metadata="m" * 4096)]))
_commit("with_too_long_metadata", ("filled", [_where(metadata="m" * 4097)]))
_commit("with_too_long_metadata_beside_good", ("filled", [_where(0, metadata="m" * 4097), _where(1)]))
_commit("with_too_many_bytes_of_metadata", ("filled", [_where(metadata="ü" * 4000)]))
_commit("a_negative_offset", ("filled", [_where(offset=-5)]))
_commit("an_offset_past_the_end", ("filled", [_where(offset=2**62)]))
_commit("an_unknown_partition", ("filled", [_where(9), _where(0)]))
_commit("a_negative_partition", ("filled", [_where(-1)]))
_commit("an_unknown_topic", ("missing", [_where()]), ("filled", [_where()]))
_commit("no_topics")
_commit("no_partitions", ("filled", []))
_commit("with_a_generation_only", ("filled", [_where()]), generation_id_or_member_epoch=3)
_commit("as_an_unknown_member", ("filled", [_where()]), generation_id_or_member_epoch=1, member_id=NOBODY)
_commit("as_a_member_without_generation", ("filled", [_where()]), member_id=NOBODY)
_commit("of_a_static_member_unknown", ("filled", [_where()]), first=7, member_id=NOBODY, group_instance_id="x")
_commit("with_a_retention_of_its_own", ("filled", [_where()]), retention_time=1)


@group_question("offset_commit")
def more_than_a_batch_can_hold(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Three hundred times the longest metadata: all of it is refused, and nothing is kept."""
    topics = [_place(stage, "filled", partitions=[_where(index % 3, metadata="m" * 4096) for index in range(300)])]
    answer = ask(**_committing(stage, party, topics=topics))
    codes = {each["error_code"] for each in answer["topics"][0]["partitions"]}
    return [{"error_codes": sorted(codes)}, _fetched(party)]


def _odd(name: str, group: str) -> None:
    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        """Of a topic of its own: even the empty name keeps what is committed under it."""
        party.group = group
        topics = [_place(stage, "empty", partitions=[_where()])]
        committed = ask(**_committing(stage, party, topics=topics))
        asked = {"group_id": group, "topics": [{"name": stage.name("empty"), "partition_indexes": [0]}]}
        return [committed, party.wire("outside").ask("offset_fetch", 9, groups=[asked])]

    group_question("offset_commit", name=f"group_{name}")(function)


for _name, _group in ODD_GROUPS.items():
    if len(_group) <= 249:
        _odd(_name, _group)


@group_question("offset_commit")
def by_a_member(stage: Stage, ask: Ask, party: Party) -> Answers:
    """In its generation, in an older one, in one that is yet to come, and under another's name."""
    generation = party.stable()
    member = party.ids["A"]
    tries = [(generation, member), (generation - 1, member), (generation + 1, member), (generation, NOBODY), (-1, "")]
    return [
        ask(**_committing(stage, party, generation_id_or_member_epoch=number, member_id=who)) for number, who in tries
    ]


@group_question("offset_commit")
def while_rebalancing(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Allowed while members still join, refused until they have synced."""
    generation = party.rebalancing()
    member = {"member_id": party.ids["A"]}
    before = ask(**_committing(stage, party, generation_id_or_member_epoch=generation, **member))
    generation = int(party.join("A")["generation_id"])
    after = ask(**_committing(stage, party, generation_id_or_member_epoch=generation, **member))
    return [before, after]


@group_question("offset_commit")
def after_the_last_member_left(stage: Stage, ask: Ask, party: Party) -> Answers:
    """By the one that left, and from outside."""
    generation = party.stable()
    party.leave("A")
    late = _committing(stage, party, generation_id_or_member_epoch=generation, member_id=party.ids["A"])
    return [ask(**late), ask(**_committing(stage, party))]


@group_question("offset_commit", first=7)
def by_a_static_member(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Then by the one that came before it under that name."""
    generation = party.stable(group_instance_id="one")
    fields = _committing(stage, party, generation_id_or_member_epoch=generation, member_id=party.ids["A"])
    first = ask(**fields, group_instance_id="one")
    party.join("B", group_instance_id="one")
    return [first, ask(**fields, group_instance_id="one")]


@group_question("offset_commit")
def by_a_consumer_member(stage: Stage, ask: Ask, party: Party) -> Answers:
    """KIP-848: from v9 on, with the member's epoch."""
    epoch = party.consumer_alone()
    member = party.ids["A"]
    tries = [(epoch, member), (epoch + 1, member), (epoch - 1, member), (epoch, NOBODY), (-1, "")]
    return [
        ask(**_committing(stage, party, generation_id_or_member_epoch=number, member_id=who)) for number, who in tries
    ]


def _fetching(stage: Stage, party: Party, topics: list[dict[str, Any]] | None, **changed: Any) -> dict[str, Any]:
    """One group until v7, a list of them from v8 on."""
    group = {"group_id": party.group, "topics": topics, "member_id": None, "member_epoch": -1, **changed}
    return {"group_id": group["group_id"], "topics": topics, "groups": [group]}


def _fetch(name: str, *topics: tuple[str, list[int]], first: int | None = None, **changed: Any) -> None:
    """After a commit of one partition of `filled`."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        party.commit(5)
        asked = [_place(stage, topic, partition_indexes=partitions) for topic, partitions in topics]
        return _in_order(ask(**_fetching(stage, party, asked, **changed)))

    group_question("offset_fetch", first, name=name)(function)


_fetch("one", ("filled", [0]))
_fetch("not_committed", ("filled", [1, 0, 2]))
_fetch("unknown_partition", ("filled", [9]))
_fetch("unknown_topic", ("missing", [0]))
_fetch("unknown_beside_known", ("missing", [0]), ("filled", [0]))
_fetch("the_same_twice", ("filled", [0, 0]))
_fetch("no_topics")
_fetch("no_partitions", ("filled", []))
_fetch("unknown_group", ("filled", [0]), group_id="no-such-group")
_fetch("empty_group", ("filled", [0]), group_id="")
_fetch("as_a_stranger", ("filled", [0]), first=9, member_id=NOBODY, member_epoch=1)
_fetch("with_an_epoch_only", ("filled", [0]), first=9, member_epoch=1)


@group_question("offset_fetch", first=2)
def all_of_a_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit(5, partition=2)
    party.commit(6, partition=0)
    return _in_order(ask(**_fetching(stage, party, None)))


@group_question("offset_fetch", first=2)
def all_of_an_unknown_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    return ask(**_fetching(stage, party, None))


@group_question("offset_fetch", first=7)
def stable_ones_only(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit(5)
    asked = [_place(stage, "filled", partition_indexes=[0])]
    return ask(**_fetching(stage, party, asked), require_stable=True)


@group_question("offset_fetch", first=8)
def of_several_groups(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit(5)
    known = {"group_id": party.group, "topics": [_place(stage, "filled", partition_indexes=[0])], "member_epoch": -1}
    return ask(groups=[known, {**known, "group_id": "no-such-group"}, {**known, "group_id": ""}])


@group_question("offset_fetch", first=8)
def of_one_group_twice(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit(5)
    party.commit(6, partition=1)
    groups = [
        {"group_id": party.group, "topics": [_place(stage, "filled", partition_indexes=[index])], "member_epoch": -1}
        for index in (0, 1)
    ]
    answer = ask(groups=groups)
    answer["groups"].sort(key=lambda each: int(each["topics"][0]["partitions"][0]["partition_index"]))
    return answer


@group_question("offset_fetch", first=8)
def of_no_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    return ask(groups=[])


@group_question("offset_fetch", first=8)
def by_a_consumer_member_of_offsets(stage: Stage, ask: Ask, party: Party) -> Answers:
    """KIP-848: from v9 on a member may say who it is, and is told when it is behind."""
    epoch = party.consumer_alone()
    party.commit(5, generation_id_or_member_epoch=epoch, member_id=party.ids["A"])
    asked = [_place(stage, "filled", partition_indexes=[0])]
    member: str | None = party.ids["A"]
    tries = [(member, epoch), (member, epoch + 1), (member, epoch - 1), (NOBODY, epoch)]
    tries += [(None, -1), ("", epoch)] if ask.version >= 9 else []
    return [ask(**_fetching(stage, party, asked, member_id=who, member_epoch=number)) for who, number in tries]


@group_question("offset_fetch")
def by_whoever_while_members_are_in(stage: Stage, ask: Ask, party: Party) -> Answers:
    generation = party.stable()
    party.commit(5, generation_id_or_member_epoch=generation, member_id=party.ids["A"])
    return ask(**_fetching(stage, party, [_place(stage, "filled", partition_indexes=[0])]))


def _deleting(party: Party, topic: str, *partitions: int) -> dict[str, Any]:
    places = [{"partition_index": partition} for partition in partitions]
    return {"group_id": party.group, "topics": [{"name": topic, "partitions": places}]}


@group_question("offset_delete")
def of_a_simple_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    """What was committed, what was not, what does not exist; then again."""
    party.commit(5)
    party.commit(6, partition=1)
    fields = _deleting(party, party.topic, 0, 2, 9)
    return [_in_order(ask(**fields)), _in_order(ask(**fields)), _fetched(party)]


@group_question("offset_delete")
def the_last_offset_of_a_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    """A group that has neither members nor offsets is no more."""
    party.commit(5)
    deleted = ask(**_deleting(party, party.topic, 0))
    return [deleted, party.wire("admin").ask("describe_groups", 6, groups=[party.group])]


@group_question("offset_delete")
def of_a_subscribed_topic(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Refused while a consumer is subscribed; other topics, and the same after it left, may go."""
    generation = party.stable()
    party.commit(5, generation_id_or_member_epoch=generation, member_id=party.ids["A"])
    refused = ask(**_deleting(party, party.topic, 0))
    other = ask(**_deleting(party, stage.name("empty"), 0))
    party.leave("A")
    return [refused, other, ask(**_deleting(party, party.topic, 0))]


@group_question("offset_delete")
def of_another_protocol_type(stage: Stage, ask: Ask, party: Party) -> Answers:
    """What such a group is subscribed to is not known, so nothing may go while it has members."""
    party.join("A", protocol_type="connect")
    return ask(**_deleting(party, party.topic, 0))


@group_question("offset_delete")
def of_a_consumer_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    epoch = party.consumer_alone()
    party.commit(5, generation_id_or_member_epoch=epoch, member_id=party.ids["A"])
    refused = ask(**_deleting(party, party.topic, 0))
    party.beat("A", -1)
    return [refused, ask(**_deleting(party, party.topic, 0))]


@group_question("offset_delete")
def of_strange_things(stage: Stage, ask: Ask, party: Party) -> Answers:
    unknown = ask(**_deleting(party, party.topic, 0))
    party.commit(5)
    missing = ask(**_deleting(party, stage.name("missing"), 0))
    nothing = ask(group_id=party.group, topics=[])
    no_partition = ask(**_deleting(party, party.topic))
    party.group = ""
    return [unknown, missing, nothing, no_partition, ask(**_deleting(party, party.topic, 0))]
