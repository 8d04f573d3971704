"""Questions that change configs, of topics, of the broker and of all brokers. What a question changes it takes back."""

from __future__ import annotations

import time
from typing import Any

from tests.compat.questions.catalogue import Answers, fixed, named, question
from tests.compat.questions.configs import BROKER, BROKER_LOGGER, GROUP, TOPIC
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer
from tests.waiting import PATIENCE_S

CLIENT_METRICS = 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
LEVEL = "compression.gzip.level"
"""A config that no other test looks at: the broker is shared."""

REPLICAS = "leader.replication.throttled.replicas"
LONGEST = ",".join(f"{number:05}:7" for number in range(4096))
"""32,767 characters: more does not fit into a request, but items may be added to a list."""
SESSION = "consumer.session.timeout.ms"

Op = tuple[str, int, str | None]


def _resource(kind: int, name: str, *ops: Op) -> dict[str, Any]:
    configs = [{"name": config, "config_operation": op, "value": value} for config, op, value in ops]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def _try(name: str, kind: int, resource: str, *ops: Op) -> None:
    """Asked both ways; the older API knows of nothing but values to set."""
    wanted = [_resource(kind, resource, *ops)]
    fixed("incremental_alter_configs", name, resources=wanted, validate_only=True)
    if all(op == SET for _, op, _ in ops):
        fixed("alter_configs", name, resources=wanted, validate_only=True)


_try("topic_set", TOPIC, "@empty", ("retention.ms", SET, "1000"))
_try("topic_set_several", TOPIC, "@empty", ("retention.ms", SET, "1000"), ("segment.ms", SET, "5000"))
_try("topic_set_with_blanks", TOPIC, "@empty", ("cleanup.policy", SET, " compact , delete "))
_try("topic_nothing", TOPIC, "@empty")
_try("topic_unknown_name", TOPIC, "@empty", ("no.such.config", SET, "1"))
_try("topic_empty_name", TOPIC, "@empty", ("", SET, "1"))
_try("topic_broker_name", TOPIC, "@empty", ("log.retention.ms", SET, "1"))
_try("topic_wrong_type", TOPIC, "@empty", ("retention.ms", SET, "soon"))
_try("topic_empty_number", TOPIC, "@empty", ("retention.ms", SET, ""))
_try("topic_out_of_range", TOPIC, "@empty", ("segment.bytes", SET, "1"))
_try("topic_not_a_choice", TOPIC, "@empty", ("cleanup.policy", SET, "burn"))
_try("topic_empty_list", TOPIC, "@empty", ("cleanup.policy", SET, ""))
_try("topic_item_twice", TOPIC, "@empty", ("cleanup.policy", SET, "delete,delete"))
_try("topic_greatest_length", TOPIC, "@empty", (REPLICAS, SET, LONGEST))
_try("topic_null", TOPIC, "@empty", ("retention.ms", SET, None))
_try("topic_lags_crossed", TOPIC, "@empty", ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8"))
_try("topic_good_beside_bad", TOPIC, "@empty", ("retention.ms", SET, "1000"), ("segment.ms", SET, "x"))
_try("topic_same_name_twice", TOPIC, "@empty", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
_try("topic_set_and_delete_of_one_name", TOPIC, "@empty", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
_try("topic_delete", TOPIC, "@empty", ("retention.ms", DELETE, None))
_try("topic_delete_with_value", TOPIC, "@empty", ("retention.ms", DELETE, "7"))
_try("topic_delete_what_is_not_set", TOPIC, "@empty", ("segment.ms", DELETE, None))
_try("topic_delete_unknown_name", TOPIC, "@empty", ("no.such.config", DELETE, None))
_try("topic_append", TOPIC, "@empty", ("cleanup.policy", APPEND, "compact"))
_try("topic_append_what_is_there", TOPIC, "@empty", ("cleanup.policy", APPEND, "delete"))
_try("topic_append_not_a_choice", TOPIC, "@empty", ("cleanup.policy", APPEND, "burn"))
_try("topic_append_nothing", TOPIC, "@empty", ("cleanup.policy", APPEND, ""))
_try("topic_append_null", TOPIC, "@empty", ("cleanup.policy", APPEND, None))
_try("topic_append_to_number", TOPIC, "@empty", ("retention.ms", APPEND, "1"))
_try("topic_append_to_unknown_name", TOPIC, "@empty", ("no.such.config", APPEND, "1"))
_try("topic_subtract_all", TOPIC, "@empty", ("cleanup.policy", SUBTRACT, "delete"))
_try("topic_subtract_what_is_not_there", TOPIC, "@empty", ("cleanup.policy", SUBTRACT, "compact"))
_try("topic_subtract_from_number", TOPIC, "@empty", ("retention.ms", SUBTRACT, "1"))
_try("topic_subtract_null", TOPIC, "@empty", ("cleanup.policy", SUBTRACT, None))
_try("topic_unknown_operation", TOPIC, "@empty", ("retention.ms", 9, "1"))
_try("unknown_topic", TOPIC, "@missing", ("retention.ms", SET, "1"))
_try("unknown_topic_and_nothing", TOPIC, "@missing")
_try("unknown_topic_and_wrong_type", TOPIC, "@missing", ("retention.ms", SET, "soon"))
_try("invalid_topic", TOPIC, "with space", ("retention.ms", SET, "1"))
_try("invalid_topic_and_wrong_type", TOPIC, "with space", ("retention.ms", SET, "soon"))
_try("nameless_topic", TOPIC, "", ("retention.ms", SET, "1"))
_try("unknown_type", 99, "x", ("retention.ms", SET, "1"))
_try("no_type", 0, "x", ("retention.ms", SET, "1"))
_try("unknown_type_and_nothing", 99, "x")
_try("group_wrong_name", GROUP, "g", ("no.such.config", SET, "1"))
_try("group_set", GROUP, "g", (SESSION, SET, "6000"))
_try("group_wrong_type", GROUP, "g", (SESSION, SET, "long"))
_try("group_below_the_least", GROUP, "g", (SESSION, SET, "999"))
_try("group_above_the_most", GROUP, "g", (SESSION, SET, "60001"))
_try("group_not_positive", GROUP, "g", (SESSION, SET, "0"))
_try("group_heartbeats_too_rare", GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "15001"))
_try("group_heartbeats_as_rare_as_sessions", GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "5000"))
_try("group_both", GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "5000"), (SESSION, SET, "5001"))
_try("group_assignments", GROUP, "g", ("consumer.assignment.interval.ms", SET, "15000"))
_try("group_assignments_too_rare", GROUP, "g", ("consumer.assignment.interval.ms", SET, "15001"))
_try("group_null", GROUP, "g", (SESSION, SET, None))
_try("group_nothing", GROUP, "g")
_try("group_delete", GROUP, "g", (SESSION, DELETE, None))
_try("group_delete_unknown_name", GROUP, "g", ("no.such.config", DELETE, None))
_try("group_append", GROUP, "g", (SESSION, APPEND, "1"))
_try("nameless_group", GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))
_try("unknown_logger", BROKER_LOGGER, "@node", ("no.such.logger", SET, "DEBUG"))
_try("nameless_logger", BROKER_LOGGER, "", ("kafka", SET, "DEBUG"))
_try("client_metrics_wrong_name", CLIENT_METRICS, "m", ("no.such.config", SET, "1"))

for _level, _name in (("broker", "@node"), ("every_broker", "")):
    _try(f"{_level}_set", BROKER, _name, (LEVEL, SET, "5"))
    _try(f"{_level}_nothing", BROKER, _name)
    _try(f"{_level}_wrong_type", BROKER, _name, (LEVEL, SET, "high"))
    _try(f"{_level}_out_of_range", BROKER, _name, (LEVEL, SET, "77"))
    _try(f"{_level}_not_a_choice", BROKER, _name, ("compression.type", SET, "rar"))
    _try(f"{_level}_null", BROKER, _name, (LEVEL, SET, None))
    _try(f"{_level}_same_name_twice", BROKER, _name, (LEVEL, SET, "1"), (LEVEL, SET, "2"))
    _try(f"{_level}_read_only", BROKER, _name, ("num.partitions", SET, "2"))
    _try(f"{_level}_read_only_in_hours", BROKER, _name, ("log.retention.hours", SET, "2"))
    _try(f"{_level}_read_only_delete", BROKER, _name, ("num.partitions", DELETE, None))
    _try(f"{_level}_read_only_beside_good", BROKER, _name, (LEVEL, SET, "5"), ("node.id", SET, "2"))
    _try(f"{_level}_topic_name", BROKER, _name, ("retention.ms", SET, "1000"))
    _try(f"{_level}_unknown_name", BROKER, _name, ("no.such.config", SET, "1"))
    _try(f"{_level}_delete", BROKER, _name, (LEVEL, DELETE, None))
    _try(f"{_level}_delete_unknown_name", BROKER, _name, ("no.such.config", DELETE, None))
    _try(f"{_level}_append", BROKER, _name, ("log.cleanup.policy", APPEND, "compact"))
    _try(f"{_level}_append_not_a_choice", BROKER, _name, ("log.cleanup.policy", APPEND, "burn"))
    _try(f"{_level}_append_to_number", BROKER, _name, (LEVEL, APPEND, "1"))
    _try(f"{_level}_append_to_unknown_name", BROKER, _name, ("no.such.config", APPEND, "1"))
    _try(f"{_level}_subtract_all", BROKER, _name, ("log.cleanup.policy", SUBTRACT, "delete"))
    _try(f"{_level}_subtract_from_number", BROKER, _name, (LEVEL, SUBTRACT, "1"))
    _try(f"{_level}_unknown_operation", BROKER, _name, (LEVEL, 9, "1"))

_try("another_broker", BROKER, "77", (LEVEL, SET, "5"))
_try("another_broker_and_nothing", BROKER, "77")
_try("negative_broker", BROKER, "-1", (LEVEL, SET, "5"))
_try("broker_by_name", BROKER, "first", (LEVEL, SET, "5"))

for _api in ("incremental_alter_configs", "alter_configs"):
    fixed(_api, "no_resources", resources=[])
    _one = _resource(TOPIC, "@empty", ("retention.ms", SET, "1000"))
    _bad = _resource(TOPIC, "@filled", ("retention.ms", SET, "soon"))
    if _api == "incremental_alter_configs":  # Kafka leaves the other one without an answer
        fixed(_api, "the_same_resource_twice", resources=[_one, _one], validate_only=True)
        fixed(_api, "the_same_resource_thrice_beside_another", resources=[_one, _bad, _one, _one], validate_only=True)
    fixed(_api, "one_good_resource_and_one_bad", resources=[_one, _bad], validate_only=True)
    fixed(_api, "topic_and_broker", resources=[_one, _resource(BROKER, "@node", (LEVEL, SET, "1"))], validate_only=True)


@question("incremental_alter_configs", prepare=lambda stage: stage.create("long", 1, {REPLICAS: LONGEST}))
def append_beyond_the_greatest_length(stage: Stage, ask: Ask) -> Answers:
    wanted = _resource(TOPIC, stage.name("long"), (REPLICAS, APPEND, f"1:{ask.version}"), ("segment.ms", SET, "5000"))
    return ask(resources=[wanted], validate_only=True)


class Talk:
    """Changes the configs of one resource and looks at them, one answer after the other."""

    def __init__(self, stage: Stage, ask: Ask) -> None:
        self._stage = stage
        self._ask = ask
        self.answers: list[Answer] = []

    def alter(self, kind: int, name: str, *ops: Op, validate_only: bool = False) -> None:
        resources = named(self._stage, [_resource(kind, name, *ops)])
        answer = self._ask(resources=resources, validate_only=validate_only)
        for response in answer["responses"]:
            response["resource_name"] = name
        self.answers.append(answer)

    def describe(self, kind: int, name: str, *names: str, value: str | None) -> None:
        """What is described once the first of the names has this value; None when it is not mentioned any more.

        Kafka's controller has answered before its broker knows.
        """
        wanted = {"resource_type": kind, "resource_name": named(self._stage, name), "configuration_keys": list(names)}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._ask.wire.ask("describe_configs", 4, resources=[wanted], include_synonyms=True)
            (result,) = answer["results"]
            found = {config["name"]: config["value"] for config in result["configs"]}
            if found.get(names[0]) == value or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        result["resource_name"] = name
        self.answers.append(answer)


@question("incremental_alter_configs")
def a_topic_through_all_operations(stage: Stage, ask: Ask) -> Answers:
    talk, topic = Talk(stage, ask), f"@altered-v{ask.version}"
    stage.create(topic[1:])
    policy, lag = "cleanup.policy", "max.compaction.lag.ms"
    steps: list[tuple[str, list[Op]]] = [
        ("compact,delete", [(policy, SET, "compact,delete"), (lag, SET, "+77")]),
        ("compact", [(policy, SUBTRACT, "delete")]),
        ("compact,delete", [(policy, APPEND, "compact,delete")]),
        ("delete", [(policy, DELETE, None)]),
        ("delete,compact", [(policy, APPEND, "compact")]),
        ("", [(policy, SUBTRACT, "compact,delete,burn")]),
        ("delete", [(policy, DELETE, None), (lag, DELETE, "ignored")]),
    ]
    for value, ops in steps:
        talk.alter(TOPIC, topic, *ops)
        talk.describe(TOPIC, topic, policy, lag, value=value)
    talk.alter(TOPIC, topic, (policy, SET, "compact"), validate_only=True)
    talk.describe(TOPIC, topic, policy, value="delete")
    return talk.answers


@question("incremental_alter_configs")
def throttled_replicas(stage: Stage, ask: Ask) -> Answers:
    """A list without a default, as the reassignment tool keeps it."""
    talk, topic, name = Talk(stage, ask), f"@throttled-v{ask.version}", "leader.replication.throttled.replicas"
    stage.create(topic[1:])
    for op, given, value in (
        (APPEND, "0:1,1:1", "0:1,1:1"),
        (APPEND, "0:1,2:1", "0:1,1:1,2:1"),
        (SUBTRACT, "1:1", "0:1,2:1"),
        (SUBTRACT, "0:1,2:1", ""),
        (SET, "x", ""),
    ):
        talk.alter(TOPIC, topic, (name, op, given))
        talk.describe(TOPIC, topic, name, value=value)
    return talk.answers


@question("incremental_alter_configs")
def all_three_levels(stage: Stage, ask: Ask) -> Answers:
    """The strongest is set first, and taken back first, so that each of them shows."""
    talk, topic = Talk(stage, ask), f"@levels-v{ask.version}"
    stage.create(topic[1:])
    levels = ((TOPIC, topic, "7"), (BROKER, "@node", "6"), (BROKER, "", "5"))
    for kind, name, value in levels:
        talk.alter(kind, name, (LEVEL, SET, value))
        talk.describe(kind, name, LEVEL, value=value)
    for (kind, name, value), broker, everywhere in zip(levels, ("6", "6", "5"), ("5", "5", "5"), strict=True):
        talk.describe(BROKER, "@node", LEVEL, value=broker)
        talk.describe(BROKER, "", LEVEL, value=everywhere)
        talk.describe(TOPIC, topic, LEVEL, value=value)
        talk.alter(kind, name, (LEVEL, DELETE, None))
    talk.describe(BROKER, "", LEVEL, value=None)
    talk.describe(BROKER, "@node", LEVEL, value="-1")
    talk.describe(TOPIC, topic, LEVEL, value="-1")
    return talk.answers


@question("incremental_alter_configs")
def a_group(stage: Stage, ask: Ask) -> Answers:
    """Which need not be there."""
    talk, group, rare = Talk(stage, ask), f"@group-v{ask.version}", "consumer.assignment.interval.ms"
    talk.describe(GROUP, group, SESSION, rare, value="5000")
    talk.alter(GROUP, group, (SESSION, SET, "7000"), (rare, SET, "10"))
    talk.describe(GROUP, group, SESSION, rare, value="7000")
    listed = ask.wire.ask("list_config_resources", 1, resource_types=[GROUP])
    mine = [one for one in listed["config_resources"] if one["resource_name"] == named(stage, group)]
    talk.answers.append({"listed": len(mine)})
    talk.alter(GROUP, group, (SESSION, DELETE, None))
    talk.describe(GROUP, group, SESSION, rare, value="5000")
    talk.alter(GROUP, group, (rare, DELETE, None))
    talk.describe(GROUP, group, rare, value="0")
    return talk.answers


@question("alter_configs")
def what_is_not_mentioned_goes(stage: Stage, ask: Ask) -> Answers:
    talk, topic = Talk(stage, ask), f"@replaced-v{ask.version}"
    stage.create(topic[1:])
    names = ("segment.ms", "cleanup.policy", "retention.ms")
    talk.alter(TOPIC, topic, ("cleanup.policy", SET, "compact"), ("segment.ms", SET, "5000"))
    talk.describe(TOPIC, topic, *names, value="5000")
    talk.alter(TOPIC, topic, ("segment.ms", SET, "x"))
    talk.alter(TOPIC, topic, ("segment.ms", SET, "6000"), validate_only=True)
    talk.describe(TOPIC, topic, *names, value="5000")
    talk.alter(TOPIC, topic)
    talk.describe(TOPIC, topic, *names, value="604800000")
    return talk.answers


@question("alter_configs")
def broker_replaced(stage: Stage, ask: Ask) -> Answers:
    talk, names = Talk(stage, ask), ("compression.lz4.level", LEVEL)
    talk.alter(BROKER, "@node", (LEVEL, SET, "5"), ("compression.lz4.level", SET, "5"))
    talk.describe(BROKER, "@node", *names, value="5")
    talk.alter(BROKER, "@node", ("compression.lz4.level", SET, "6"))
    talk.describe(BROKER, "@node", *names, value="6")
    talk.alter(BROKER, "@node")
    talk.describe(BROKER, "@node", *names, value="9")
    return talk.answers


def _list(stage: Stage, ask: Ask, *types: int) -> Answer:
    """The topics of this run only: others may be at work on the same broker."""
    answer = ask(resource_types=list(types))
    mine = [one for one in answer["config_resources"] if one.get("resource_type") != TOPIC or _on_stage(stage, one)]
    answer["config_resources"] = sorted(mine, key=lambda one: (one.get("resource_type", 0), one["resource_name"]))
    return answer


def _on_stage(stage: Stage, resource: dict[str, Any]) -> bool:
    return resource["resource_name"] in (stage.name("filled"), stage.name("empty"))


@question("list_config_resources", last=0)
def client_metrics(stage: Stage, ask: Ask) -> Answers:
    """All that the oldest version knows of (KIP-1000)."""
    return ask()


@question("list_config_resources", first=1)
def resources_of_each_type(stage: Stage, ask: Ask) -> Answers:
    return [_list(stage, ask, kind) for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS)]


@question("list_config_resources", first=1)
def resources_of_all_types(stage: Stage, ask: Ask) -> Answers:
    return _list(stage, ask)


@question("list_config_resources", first=1)
def resources_of_two_types(stage: Stage, ask: Ask) -> Answers:
    return _list(stage, ask, TOPIC, BROKER, TOPIC)


@question("list_config_resources", first=1)
def resources_of_an_unknown_type(stage: Stage, ask: Ask) -> Answers:
    return [_list(stage, ask, 99), _list(stage, ask, TOPIC, 99), _list(stage, ask, 0)]
