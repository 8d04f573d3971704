"""The list of questions, filled by the modules that hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer, Wire

VERSIONS = {
    "produce": range(3, 14),
    "fetch": range(4, 19),
    "list_offsets": range(1, 12),
    "delete_records": range(3),
    "metadata": range(14),
    "api_versions": range(5),
    "create_topics": range(2, 8),
    "delete_topics": range(1, 7),
    "init_producer_id": range(6),
    "describe_producers": range(1),
    "offset_for_leader_epoch": range(2, 5),
    "describe_configs": range(1, 5),
    "alter_configs": range(3),
    "incremental_alter_configs": range(2),
    "list_config_resources": range(2),
    "create_partitions": range(4),
    "describe_client_quotas": range(2),
    "alter_client_quotas": range(2),
    "describe_cluster": range(3),
    "describe_topic_partitions": range(1),
    "alter_replica_log_dirs": range(1, 3),
    "describe_log_dirs": range(1, 6),
    "alter_partition_reassignments": range(2),
    "list_partition_reassignments": range(1),
    "elect_leaders": range(3),
    "unregister_broker": range(1),
    "update_features": range(3),
    "find_coordinator": range(7),
    "join_group": range(10),
    "sync_group": range(6),
    "heartbeat": range(5),
    "leave_group": range(6),
    "describe_groups": range(7),
    "list_groups": range(6),
    "delete_groups": range(3),
    "offset_commit": range(2, 11),
    "offset_fetch": range(1, 11),
    "offset_delete": range(1),
    "consumer_group_heartbeat": range(2),
    "consumer_group_describe": range(2),
}
"""What a Kafka 4.3 broker accepts."""

Answers = Answer | list[Answer]
AskFunction = Callable[[Stage, Ask], Answers]


@dataclass(frozen=True)
class Question:
    name: str
    api: str
    versions: range
    function: AskFunction
    prepare: Callable[[Stage], object] | None

    def __str__(self) -> str:
        return f"{self.api}-{self.name}"

    def ask(self, stage: Stage) -> dict[int, list[Answer]]:
        """The readable answers of every version, each asked on a connection of its own."""
        if self.prepare is not None:
            self.prepare(stage)
        found = {}
        for version in self.versions:
            with Wire(stage.bootstrap) as connection:
                answers = self.function(stage, Bound(self.api, version, connection))
            found[version] = [stage.read(each) for each in (answers if isinstance(answers, list) else [answers])]
        return found


class Bound:
    """One API at one version on one connection."""

    def __init__(self, api: str, version: int, connection: Wire) -> None:
        self.api = api
        self.version = version
        self.wire = connection

    def __call__(self, **fields: Any) -> Answer:
        return self.wire.ask(self.api, self.version, **fields)


QUESTIONS: list[Question] = []


def question(
    api: str, first: int | None = None, last: int | None = None, prepare: Callable[[Stage], object] | None = None
) -> Callable[[AskFunction], AskFunction]:
    """Puts a function on the list; `first` and `last` narrow the versions where the question makes sense."""
    known = VERSIONS[api]
    versions = range(known.start if first is None else first, known.stop if last is None else last + 1)

    def register(function: AskFunction) -> AskFunction:
        QUESTIONS.append(Question(function.__name__, api, versions, function, prepare))
        return function

    return register


def fixed(api: str, name: str, first: int | None = None, last: int | None = None, **fields: Any) -> None:
    """A question whose fields are the same for every broker, except that `@x` stands for the stage's topic x."""

    def function(stage: Stage, ask: Ask) -> Answers:
        return ask(**{key: named(stage, value) for key, value in fields.items()})

    function.__name__ = name
    question(api, first, last)(function)


def named(stage: Stage, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: named(stage, each) for key, each in value.items()}
    if isinstance(value, list):
        return [named(stage, each) for each in value]
    if isinstance(value, str) and value.startswith("@"):
        return str(stage.node) if value == "@node" else stage.name(value[1:])
    return value
