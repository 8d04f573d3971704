"""Questions about groups whose broker assigns (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from __future__ import annotations

import uuid
from typing import Any

from tests.compat.questions.catalogue import Answers
from tests.compat.questions.odd_names import ODD_GROUPS
from tests.compat.questions.party import NOBODY, Party, group_question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer

NO_TOPIC = uuid.UUID(int=0xBAD)


@group_question("consumer_group_heartbeat")
def a_life(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Joins, is given all, owns it, says nothing new, subscribes to more, leaves."""
    joined = ask(**party.beating("A", 0))
    epoch = joined["member_epoch"]
    owned = ask(**party.beating("A", epoch, topic_partitions=party.owning(0, 1, 2)))
    quiet = ask(**party.beating("A", epoch))
    more = ask(**party.beating("A", epoch, subscribed_topic_names=[party.topic, stage.name("empty")]))
    left = ask(**party.beating("A", -1))
    return [joined, owned, quiet, more, left]


@group_question("consumer_group_heartbeat")
def two_members(stage: Stage, ask: Ask, party: Party) -> Answers:
    """A is told to give up what B is to get; B is given it when A has said so, and not before."""
    epoch = party.consumer_alone("A")
    waiting = ask(**party.beating("B", 0))
    told = ask(**party.beating("A", epoch, topic_partitions=party.owning(0, 1, 2)))
    (kept,) = told["assignment"]["topic_partitions"]
    still = ask(**party.beating("B", waiting["member_epoch"], topic_partitions=[]))
    released = ask(**party.beating("A", epoch, topic_partitions=party.owning(*kept["partitions"])))
    given = ask(**party.beating("B", waiting["member_epoch"], topic_partitions=[]))
    return [waiting, told, still, released, given]


@group_question("consumer_group_heartbeat")
def a_silent_member_does_not_revoke(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Partitions left out of a heartbeat (null) are not thereby given up."""
    epoch = party.consumer_alone("A")
    waiting = ask(**party.beating("B", 0))
    told = ask(**party.beating("A", epoch))
    still = ask(**party.beating("B", waiting["member_epoch"], topic_partitions=[]))
    return [waiting, told, still]


@group_question("consumer_group_heartbeat")
def joins_again(stage: Stage, ask: Ask, party: Party) -> Answers:
    """With the id it has: its place is kept."""
    party.consumer_alone("A")
    return ask(**party.beating("A", 0))


@group_question("consumer_group_heartbeat")
def an_epoch_behind(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Taken for a repetition if it owns no more than it was given, for the answer may have been lost."""
    epoch = party.consumer_alone("A")
    changed = [party.topic, stage.name("empty")]
    moved = party.beat("A", epoch, subscribed_topic_names=changed, topic_partitions=party.owning(0, 1, 2))
    assert moved["member_epoch"] > epoch, moved
    lost = ask(**party.beating("A", epoch, topic_partitions=party.owning(0, 1, 2)))
    older = ask(**party.beating("A", epoch - 1, topic_partitions=party.owning(0, 1, 2)))
    return [lost, older]


def _beat(name: str, first: int | None = None, *, ahead: int = 0, **changed: Any) -> None:
    """By the only member of a group, in its epoch or `ahead` of it."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        epoch = party.consumer_alone("A")
        return ask(**{**party.beating("A", epoch + ahead), **changed})

    group_question("consumer_group_heartbeat", first, name=name)(function)


_beat("an_epoch_ahead", ahead=1)
_beat("unknown_member", member_id=NOBODY)
_beat("no_member", member_id="")
_beat("strange_epoch", member_epoch=-3)
_beat("owning_what_it_was_not_given", topic_partitions=[{"topic_id": NO_TOPIC, "partitions": [0]}])
_beat("another_assignor", server_assignor="range")
_beat("unknown_assignor", server_assignor="best")
_beat("empty_assignor", server_assignor="")
_beat("invalid_regex", first=1, subscribed_topic_regex="(")
_beat("no_regex", first=1, subscribed_topic_regex="")
_beat("no_subscription_at_all", subscribed_topic_names=[])
_beat("another_instance", instance_id="other")
_beat("empty_group", group_id="")
_beat("unknown_group", group_id="no-such-group")
_beat("leaves_and_is_unknown", member_epoch=-1, member_id=NOBODY)
_beat("leaves_as_static_and_is_not", member_epoch=-2)
_beat("leaves_an_unknown_group", member_epoch=-1, group_id="no-such-group")


def _join(name: str, first: int | None = None, **changed: Any) -> None:
    """By somebody new, into a group that is new."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        return ask(**party.beating("A", 0, **changed))

    group_question("consumer_group_heartbeat", first, name=f"join_{name}")(function)


_join("without_timeout", rebalance_timeout=-1)
_join("with_no_time", rebalance_timeout=0)
_join("without_list_of_owned", topic_partitions=None)
_join("owning_something", topic_partitions=[{"topic_id": NO_TOPIC, "partitions": [0]}])
_join("without_topics", subscribed_topic_names=None)
_join("with_no_topics", subscribed_topic_names=[])
_join("with_an_unknown_topic", subscribed_topic_names=["no-such-topic"])
_join("with_an_invalid_topic", subscribed_topic_names=["with space"])
_join("with_an_unknown_assignor", server_assignor="best")
_join("with_an_empty_assignor", server_assignor="")
_join("with_range", server_assignor="range")
_join("with_an_invalid_regex", first=1, subscribed_topic_names=None, subscribed_topic_regex="(")
_join("with_an_empty_regex", first=1, subscribed_topic_names=None, subscribed_topic_regex="")
_join("with_names_and_regex", first=1, subscribed_topic_regex="nothing-matches-this")
_join("with_an_empty_instance", instance_id="")
_join("with_an_empty_rack", rack_id="")
_join("with_a_rack", rack_id="r1")
_join("under_an_odd_id", member_id="odd id \u2603")


@group_question("consumer_group_heartbeat")
def join_without_an_id(stage: Stage, ask: Ask, party: Party) -> Answers:
    """The broker makes one in v0; from v1 on the client must."""
    answer = ask(**party.beating("A", 0, member_id=""))
    party.meet("A", answer["member_id"])
    return answer


def _odd(name: str, group: str) -> None:
    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        """Joined, and left again, so that the next version finds the group empty."""
        party.group = group
        party.ids["A"] = "3d0f5b0e-0000-4000-8000-000000000001"
        answer = ask(**party.beating("A", 0))
        if answer["error_code"] == "none":
            party.beat("A", -1)
        if answer["member_epoch"] > 0:
            answer["member_epoch"] = "<epoch>"
        return answer

    group_question("consumer_group_heartbeat", name=f"group_{name}")(function)


for _name, _group in ODD_GROUPS.items():
    _odd(_name, _group)


@group_question("consumer_group_heartbeat", first=1)
def by_regex(stage: Stage, ask: Ask, party: Party) -> Answers:
    """The topics that match are found a moment later."""
    pattern = stage.name("fill.*").replace(".f", r"\.f")
    answer = ask(**party.beating("A", 0, subscribed_topic_names=None, subscribed_topic_regex=pattern))
    first = dict(answer)
    while not (answer["assignment"] or {}).get("topic_partitions"):
        answer = ask(**party.beating("A", answer["member_epoch"], topic_partitions=[]))
    answer["member_epoch"] = "<epoch>"
    return [first, answer]


@group_question("consumer_group_heartbeat")
def a_static_member(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Says that it will be back, comes back under another id with the same instance, and finds its partitions.

    A third that takes the name while it is in use is refused.
    """
    joined = ask(**party.beating("A", 0, instance_id="one"))
    epoch = joined["member_epoch"]
    ask(**party.beating("A", epoch, instance_id="one", topic_partitions=party.owning(0, 1, 2)))
    refused = ask(**party.beating("C", 0, instance_id="one"))
    away = ask(**party.beating("A", -2, instance_id="one"))
    back = ask(**party.beating("B", 0, instance_id="one"))
    fenced = ask(**party.beating("A", epoch, instance_id="one"))
    wrong = ask(**party.beating("B", back["member_epoch"], instance_id="two"))
    left = ask(**party.beating("B", -1, instance_id="one"))
    return [joined, refused, away, back, fenced, wrong, left]


@group_question("consumer_group_heartbeat")
def into_a_classic_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    """The protocol of the other kind."""
    party.stable()
    return ask(**party.beating("B", 0))


@group_question("consumer_group_heartbeat")
def into_an_empty_classic_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Takes it over, offsets included."""
    generation = party.stable()
    party.commit(5, generation_id_or_member_epoch=generation, member_id=party.ids["A"])
    party.leave("A")
    joined = ask(**party.beating("B", 0))
    fetched = party.wire("outside").ask("offset_fetch", 9, groups=[{"group_id": party.group, "topics": None}])
    return [joined, fetched]


@group_question("consumer_group_heartbeat")
def as_a_classic_member(stage: Stage, ask: Ask, party: Party) -> Answers:
    generation = party.stable()
    return ask(**party.beating("A", generation))


def _describe(ask: Ask, *groups: str, **more: Any) -> Answer:
    return ask(group_ids=list(groups), **more)


@group_question("consumer_group_describe")
def one(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone()
    return _describe(ask, party.group)


@group_question("consumer_group_describe")
def two_reconciling(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone("A")
    party.beat("B", 0)
    return _describe(ask, party.group)


@group_question("consumer_group_describe")
def with_all_that_a_member_can_say(stage: Stage, ask: Ask, party: Party) -> Answers:
    said: dict[str, Any] = {"instance_id": "one", "rack_id": "r1", "server_assignor": "range"}
    party.beat("A", 0, subscribed_topic_regex="nothing-matches-this", **said)
    return _describe(ask, party.group)


@group_question("consumer_group_describe")
def away_for_a_while(stage: Stage, ask: Ask, party: Party) -> Answers:
    """A static member that will be back."""
    party.beat("A", 0, instance_id="one")
    party.beat("A", -2, instance_id="one")
    return _describe(ask, party.group)


@group_question("consumer_group_describe")
def empty(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone()
    party.beat("A", -1)
    return _describe(ask, party.group)


@group_question("consumer_group_describe")
def of_the_other_kind(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable()
    return _describe(ask, party.group)


@group_question("consumer_group_describe")
def strange_ones(stage: Stage, ask: Ask, party: Party) -> Answers:
    return [_describe(ask, "no-such-group"), _describe(ask, ""), _describe(ask), _describe(ask, "x", "x")]


@group_question("consumer_group_describe")
def operations(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone()
    return _describe(ask, party.group, include_authorized_operations=True)
