"""Questions about joining and leaving a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from typing import Any

from tests.compat.questions.catalogue import Answers
from tests.compat.questions.odd_names import ODD_GROUPS
from tests.compat.questions.party import NOBODY, Party, group_question, subscription
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer


def _ask_join(ask: Ask, party: Party, member: str, **changed: Any) -> list[Answer]:
    """At the version under test, as often as the broker wants: from v4 on an id is given first (KIP-394)."""
    answers = []
    while True:
        answers.append(ask(**party.joining(member, **changed)))
        party.meet(member, answers[-1]["member_id"])
        if answers[-1]["error_code"] != "member_id_required":
            return answers


@group_question("join_group")
def alone(stage: Stage, ask: Ask, party: Party) -> Answers:
    return _ask_join(ask, party, "A")[-1]


@group_question("join_group")
def first_answer(stage: Stage, ask: Ask, party: Party) -> Answers:
    """From v4 on a new member learns its id before it may join."""
    answer = ask(**party.joining("A"))
    party.meet("A", answer["member_id"])
    return answer


@group_question("join_group")
def again_unchanged(stage: Stage, ask: Ask, party: Party) -> Answers:
    """A leader that joins again starts a new generation: it may have seen new partitions."""
    party.stable()
    return [*_ask_join(ask, party, "A"), *_ask_join(ask, party, "A")]


@group_question("join_group")
def follower_again_unchanged(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable_pair()
    return _ask_join(ask, party, "B")


@group_question("join_group")
def a_second_member(stage: Stage, ask: Ask, party: Party) -> Answers:
    """B waits for A, who hears of it in a heartbeat and joins again."""
    generation = party.rebalancing()
    heard = party.heartbeat("A", generation)
    (joined,) = _ask_join(ask, party, "A")
    return [heard, joined, party.finish_join("B")]


@group_question("join_group")
def with_several_protocols(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Each member votes for the first of its protocols that all have."""
    names = [{"name": name, "metadata": subscription(party.topic)} for name in ("sticky", "roundrobin", "range", "own")]
    generation = party.join("A", protocols=names[:3])["generation_id"]
    party.knock("B", generation, protocols=[names[3], names[1], names[2]])
    joined = _ask_join(ask, party, "A", protocols=names[:3])
    return [*joined, party.finish_join("B")]


def _refused(name: str, first: int | None = None, *, known: bool = False, **changed: Any) -> None:
    """A join by somebody new; `known`: into a group that has a member."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        if known:
            party.stable()
        answer = ask(**party.joining("B", **changed))
        party.meet("B", answer["member_id"])
        return answer

    group_question("join_group", first, name=name)(function)


_refused("session_too_short", session_timeout=10)
_refused("session_too_long", session_timeout=30 * 60_000 + 1)
_refused("negative_session", session_timeout=-1)
_refused("unknown_member", member_id=NOBODY)
_refused("unknown_member_of_a_known_group", known=True, member_id=NOBODY)
_refused("no_protocols", protocols=[])
_refused("no_protocols_in_a_known_group", known=True, protocols=[])
_refused("no_protocol_type", protocol_type="")
_refused("another_protocol_type", known=True, protocol_type="connect")
_refused("no_common_protocol", known=True, protocols=[{"name": "other", "metadata": b""}])
_refused("unknown_static_member", first=5, member_id=NOBODY, group_instance_id="instance")
_refused("any_metadata_of_another_type", protocol_type="connect", protocols=[{"name": "x", "metadata": b"\xff" * 9}])
_refused("empty_instance_id", first=5, group_instance_id="")
_refused("odd_instance_id", first=5, group_instance_id="with space")
_refused("rebalance_at_once", first=1, rebalance_timeout=0)


def _odd(name: str, group: str) -> None:
    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        """Whoever was let in leaves again, so that the next version finds the group empty."""
        party.group = group
        answer = ask(**party.joining("A"))
        party.meet("A", answer["member_id"])
        if answer["member_id"]:
            party.leave("A")
        if answer["generation_id"] > 0:
            answer["generation_id"] = "<generation>"
        return answer

    group_question("join_group", name=f"group_{name}")(function)


for _name, _group in ODD_GROUPS.items():
    _odd(_name, _group)


@group_question("join_group")
def large_metadata(stage: Stage, ask: Ask, party: Party) -> Answers:
    """A hundred kilobytes are handed to the leader."""
    answer = _ask_join(ask, party, "A", protocols=[{"name": "range", "metadata": subscription(*("t" * 200,) * 500)}])[
        -1
    ]
    answer["members"][0]["metadata"] = len(answer["members"][0]["metadata"])
    return answer


@group_question("join_group", first=5)
def a_static_member_comes_back(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Under the same instance id, with a new member id, in the same generation; who had the old id is fenced."""
    generation = party.stable(group_instance_id="one")
    fields = party.joining("A", group_instance_id="one", member_id="")
    joined = ask(**fields)
    party.meet("B", joined["member_id"])
    return [joined, party.heartbeat("B", generation), party.heartbeat("A", generation)]


@group_question("join_group", first=5)
def a_static_member_with_its_old_id(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Fenced, since somebody else has come under its instance id."""
    party.stable(group_instance_id="one")
    fields = party.joining("A", group_instance_id="one")
    party.join("B", group_instance_id="one")
    return ask(**fields)


@group_question("join_group", first=5)
def a_static_member_with_changed_metadata(stage: Stage, ask: Ask, party: Party) -> Answers:
    """It comes back unnoticed as long as the group's protocol would be the same."""
    party.stable(group_instance_id="one")
    protocols = [{"name": "range", "metadata": subscription(party.topic, "another")}]
    joined = ask(**party.joining("A", group_instance_id="one", member_id="", protocols=protocols))
    party.meet("B", joined["member_id"])
    return joined


@group_question("join_group", first=5)
def a_static_member_with_another_protocol(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable(group_instance_id="one")
    protocols = [{"name": "roundrobin", "metadata": subscription(party.topic)}]
    joined = ask(**party.joining("A", group_instance_id="one", member_id="", protocols=protocols))
    party.meet("B", joined["member_id"])
    return joined


@group_question("join_group")
def into_a_consumer_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    """The protocol of the other kind (KIP-848)."""
    party.consumer_alone("A")
    answer = ask(**party.joining("B"))
    party.meet("B", answer["member_id"])
    return answer


@group_question("join_group")
def into_an_empty_consumer_group(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone("A")
    party.beat("A", -1)
    return _ask_join(ask, party, "B")[-1]


@group_question("sync_group")
def by_the_leader(stage: Stage, ask: Ask, party: Party) -> Answers:
    joined = party.join("A")
    fields = party.syncing("A", joined["generation_id"], {"A": [0, 1, 2]})
    return [ask(**fields), ask(**fields)]


@group_question("sync_group")
def leader_and_follower(stage: Stage, ask: Ask, party: Party) -> Answers:
    """The follower asks first and waits for the leader."""
    party.rebalancing()
    generation = int(party.join("A")["generation_id"])
    party.finish_join("B")
    party.wire("B").send("sync_group", ask.version, **party.syncing("B", generation))
    led = ask(**party.syncing("A", generation, {"A": [0], "B": [1, 2]}))
    return [led, party.wire("B").receive("sync_group", ask.version)]


@group_question("sync_group")
def a_member_without_a_share(stage: Stage, ask: Ask, party: Party) -> Answers:
    generation = party.stable_pair()
    party.knock("B", generation, protocols=[{"name": "range", "metadata": subscription("changed")}])
    generation = int(party.join("A")["generation_id"])
    party.finish_join("B")
    party.sync("A", generation, {"A": [0, 1, 2]})
    return ask(**party.syncing("B", generation))


@group_question("sync_group")
def while_rebalancing(stage: Stage, ask: Ask, party: Party) -> Answers:
    return ask(**party.syncing("A", party.rebalancing()))


def _sync(name: str, first: int | None = None, **changed: Any) -> None:
    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        generation = party.stable()
        return ask(**{**party.syncing("A", generation), **changed})

    group_question("sync_group", first, name=name)(function)


_sync("unknown_member", member_id=NOBODY)
_sync("no_member", member_id="")
_sync("older_generation", generation_id=0)
_sync("newer_generation", generation_id=2)
_sync("another_protocol_type", first=5, protocol_type="connect")
_sync("another_protocol", first=5, protocol_name="roundrobin")
_sync("no_protocol_named", first=5, protocol_type=None, protocol_name=None)
_sync("unknown_instance", first=3, group_instance_id="nobody")
_sync("empty_group", group_id="")
_sync("unknown_group", group_id="no-such-group")


@group_question("sync_group")
def more_than_a_record_can_hold(stage: Stage, ask: Ask, party: Party) -> Answers:
    """The assignment is kept in the log, whose batches have a limit; the member is told to join again."""
    joined = party.join("A")
    fields = party.syncing("A", joined["generation_id"])
    fields["assignments"] = [{"member_id": party.ids["A"], "assignment": b"a" * 1_500_000}]
    refused = ask(**fields)
    return [refused, party.heartbeat("A", joined["generation_id"])]


@group_question("heartbeat")
def stable(stage: Stage, ask: Ask, party: Party) -> Answers:
    return ask(group_id=party.group, generation_id=party.stable(), member_id=party.ids["A"])


@group_question("heartbeat")
def before_sync(stage: Stage, ask: Ask, party: Party) -> Answers:
    generation = party.join("A")["generation_id"]
    return ask(group_id=party.group, generation_id=generation, member_id=party.ids["A"])


@group_question("heartbeat")
def rebalancing(stage: Stage, ask: Ask, party: Party) -> Answers:
    return ask(group_id=party.group, generation_id=party.rebalancing(), member_id=party.ids["A"])


@group_question("heartbeat")
def after_leaving(stage: Stage, ask: Ask, party: Party) -> Answers:
    generation = party.stable()
    party.leave("A")
    return ask(group_id=party.group, generation_id=generation, member_id=party.ids["A"])


def _beat(name: str, first: int | None = None, **changed: Any) -> None:
    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        generation = party.stable()
        fields = {"group_id": party.group, "generation_id": generation, "member_id": party.ids["A"]}
        return ask(**{**fields, **changed})

    group_question("heartbeat", first, name=name)(function)


_beat("unknown_member", member_id=NOBODY)
_beat("no_member", member_id="")
_beat("older_generation", generation_id=0)
_beat("newer_generation", generation_id=2)
_beat("no_generation", generation_id=-1)
_beat("unknown_instance", first=3, group_instance_id="nobody")
_beat("empty_group", group_id="")
_beat("unknown_group", group_id="no-such-group")


@group_question("heartbeat")
def by_a_member_of_the_other_kind(stage: Stage, ask: Ask, party: Party) -> Answers:
    epoch = party.consumer_alone()
    return ask(group_id=party.group, generation_id=epoch, member_id=party.ids["A"])


def _leaving(*members: dict[str, Any]) -> dict[str, Any]:
    """Until v2 one member leaves in a request, from v3 on several may."""
    first = members[0]["member_id"] if members else ""
    return {"member_id": first, "members": list(members)}


@group_question("leave_group")
def once_and_again(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable()
    fields = {"group_id": party.group, **_leaving({"member_id": party.ids["A"], "reason": "done"})}
    return [ask(**fields), ask(**fields)]


@group_question("leave_group")
def before_joining(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Somebody who has an id and no more."""
    answer = party.wire("A").ask("join_group", 9, **party.joining("A"))
    party.meet("A", answer["member_id"])
    return ask(group_id=party.group, **_leaving({"member_id": party.ids["A"]}))


@group_question("leave_group", first=3)
def two_of_which_one_is_unknown(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable_pair()
    return ask(group_id=party.group, **_leaving({"member_id": NOBODY}, {"member_id": party.ids["B"]}))


@group_question("leave_group", first=3)
def by_instance(stage: Stage, ask: Ask, party: Party) -> Answers:
    """An operator removes a static member without knowing its id; a wrong id is fenced."""
    party.stable(group_instance_id="one")
    wrong = ask(group_id=party.group, **_leaving({"member_id": NOBODY, "group_instance_id": "one"}))
    gone = ask(group_id=party.group, **_leaving({"member_id": "", "group_instance_id": "one"}))
    never = ask(group_id=party.group, **_leaving({"member_id": "", "group_instance_id": "two"}))
    return [wrong, gone, never]


@group_question("leave_group", first=3)
def nobody_at_all(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable()
    return ask(group_id=party.group, members=[])


def _leave(name: str, **changed: Any) -> None:
    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        party.stable()
        return ask(**{"group_id": party.group, **_leaving({"member_id": NOBODY}), **changed})

    group_question("leave_group", name=name)(function)


_leave("unknown_member")
_leave("unknown_group", group_id="no-such-group")
_leave("empty_group", group_id="")
