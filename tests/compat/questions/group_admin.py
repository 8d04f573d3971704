"""Questions about groups from outside: FindCoordinator, DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from typing import Any

from tests.compat.questions.catalogue import Answers
from tests.compat.questions.odd_names import ODD_GROUPS
from tests.compat.questions.party import Party, group_question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer
from tests.waiting import eventually


def _find(name: str, *keys: str, first: int | None = None, last: int | None = None, key_type: int = 0) -> None:
    """One key until v3, any number from v4 on."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        return ask(key=keys[0] if keys else "", key_type=key_type, coordinator_keys=list(keys))

    group_question("find_coordinator", first, last, name=name)(function)


_find("one", "some-group")
_find("two", "some-group", "other-group", first=4)
_find("the_same_twice", "some-group", "some-group", first=4)
_find("none", first=4)
_find("of_an_unknown_kind", "some-group", first=1, key_type=9)
_find("of_a_negative_kind", "some-group", first=1, key_type=-1)
_find("of_a_share_group", "some-group", first=1, last=5, key_type=2)
_find("of_a_malformed_share_key", "some-group", first=6, key_type=2)
for _name, _group in ODD_GROUPS.items():
    if len(_group) <= 249:
        _find(f"group_{_name}", _group)


def _describe(ask: Ask, *groups: str, **more: Any) -> Answer:
    return ask(groups=list(groups), **more)


@group_question("describe_groups")
def stable(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable()
    return _describe(ask, party.group)


@group_question("describe_groups")
def stable_pair(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable_pair()
    return _describe(ask, party.group)


@group_question("describe_groups")
def static(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable(group_instance_id="one")
    return _describe(ask, party.group)


@group_question("describe_groups")
def between_join_and_sync(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.join("A")
    return _describe(ask, party.group)


@group_question("describe_groups")
def rebalancing(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.rebalancing()
    return _describe(ask, party.group)


@group_question("describe_groups")
def with_an_id_given_and_nobody_in(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.wire("A").ask("join_group", 9, **party.joining("A"))
    _await_pending(party)
    return _describe(ask, party.group)


@group_question("describe_groups")
def empty(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable()
    party.leave("A")
    return _describe(ask, party.group)


@group_question("describe_groups")
def with_offsets_only(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit()
    return _describe(ask, party.group)


@group_question("describe_groups")
def of_the_other_kind(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone()
    return _describe(ask, party.group)


@group_question("describe_groups")
def deleted(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit()
    party.wire("admin").ask("delete_groups", 2, groups_names=[party.group])
    return _describe(ask, party.group)


@group_question("describe_groups")
def unknown_twice_and_none(stage: Stage, ask: Ask, party: Party) -> Answers:
    return [_describe(ask, party.group), _describe(ask, party.group, party.group), _describe(ask)]


@group_question("describe_groups", first=3)
def operations(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit()
    return _describe(ask, party.group, "no-such-group", include_authorized_operations=True)


@group_question("describe_groups")
def without_a_name(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Nobody can join it, but offsets can be committed under it."""
    party.commit(group_id="", topic="empty")
    return _describe(ask, "")


def _await_pending(party: Party) -> None:
    """Kafka shows a group without members once all is committed that was written before it, for other groups too."""

    def is_there() -> bool:
        (group,) = party.wire("admin").ask("describe_groups", 5, groups=[party.group])["groups"]
        return bool(group["group_state"] == "Empty")

    eventually(is_there, "the group is there")


def _own(answer: Answer, *groups: str) -> Answer:
    """The groups of this question alone, in its order: a broker lists all it has."""
    found = {each["group_id"]: each for each in answer["groups"]}
    return {**answer, "groups": [found[group] for group in groups if group in found]}


def _list(name: str, first: int | None = None, **filters: Any) -> None:
    """Of a stable, an empty and a simple group, and one of the other kind."""

    def function(stage: Stage, ask: Ask, party: Party) -> Answers:
        party.stable()
        left = Party(stage, ask, f"list_groups-{name}-left")
        left.stable()
        left.leave("A")
        simple = party.another(f"list_groups-{name}-simple")
        party.commit(group_id=simple)
        modern = Party(stage, ask, f"list_groups-{name}-modern")
        modern.consumer_alone()
        answer = _own(ask(**filters), party.group, left.group, simple, modern.group)
        left.close()
        modern.close()
        return answer

    group_question("list_groups", first, name=name)(function)


_list("all")
_list("stable", first=4, states_filter=["Stable"])
_list("stable_or_empty", first=4, states_filter=["Empty", "Stable"])
_list("in_lower_case", first=4, states_filter=["empty"])
_list("in_no_such_state", first=4, states_filter=["Asleep"])
_list("classic", first=5, types_filter=["classic"])
_list("consumer", first=5, types_filter=["Consumer"])
_list("of_no_such_type", first=5, types_filter=["other"])
_list("empty_consumer", first=5, types_filter=["consumer"], states_filter=["Empty"])


@group_question("list_groups")
def with_a_pending_member_only(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.wire("A").ask("join_group", 9, **party.joining("A"))
    _await_pending(party)
    return _own(ask(), party.group)


@group_question("delete_groups")
def with_a_member_and_without(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.stable()
    refused = ask(groups_names=[party.group])
    party.leave("A")
    return [refused, ask(groups_names=[party.group]), ask(groups_names=[party.group])]


@group_question("delete_groups")
def with_offsets_only_to_delete(stage: Stage, ask: Ask, party: Party) -> Answers:
    """Its offsets go with it."""
    party.commit()
    deleted = ask(groups_names=[party.group])
    asked = {"group_id": party.group, "topics": None}
    return [deleted, party.wire("outside").ask("offset_fetch", 8, groups=[asked])]


@group_question("delete_groups")
def of_the_other_kind_to_delete(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.consumer_alone()
    refused = ask(groups_names=[party.group])
    party.beat("A", -1)
    return [refused, ask(groups_names=[party.group]), ask(groups_names=[party.group])]


@group_question("delete_groups")
def unknown_empty_and_twice(stage: Stage, ask: Ask, party: Party) -> Answers:
    party.commit()
    party.commit(group_id="", topic="empty")
    return [
        ask(groups_names=["no-such-group"]),
        ask(groups_names=[""]),
        ask(groups_names=[]),
        ask(groups_names=[party.group, party.group]),
    ]
