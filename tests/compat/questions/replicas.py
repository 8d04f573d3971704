"""Questions about where replicas are to be and who is to lead, as far as one broker can be asked them."""

from __future__ import annotations

from typing import Any

from tests.compat.questions.catalogue import Answers, question
from tests.compat.questions.stage import Ask, Stage

NOBODY = 4711
"""No broker has this id."""


def _move(stage: Stage, topic: str, *targets: tuple[int, list[int] | None]) -> list[dict[str, Any]]:
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in targets]
    return [{"name": stage.name(topic), "partitions": partitions}]


@question("alter_partition_reassignments")
def to_where_it_is(stage: Stage, ask: Ask) -> Answers:
    return ask(timeout_ms=10_000, topics=_move(stage, "empty", (0, [stage.node])))


@question("alter_partition_reassignments")
def give_up_what_does_not_move(stage: Stage, ask: Ask) -> Answers:
    return ask(timeout_ms=10_000, topics=_move(stage, "empty", (0, None)))


@question("alter_partition_reassignments")
def what_is_not_there(stage: Stage, ask: Ask) -> Answers:
    topics = _move(stage, "missing", (0, [stage.node]), (1, None)) + _move(stage, "empty", (77, [1]), (-1, None))
    return ask(timeout_ms=10_000, topics=topics)


@question("alter_partition_reassignments")
def brokers_that_cannot(stage: Stage, ask: Ask) -> Answers:
    node = stage.node
    return [
        ask(timeout_ms=10_000, topics=_move(stage, "empty", (0, replicas)))
        for replicas in ([], [node, node], [-1], [node, NOBODY], [NOBODY, NOBODY])
    ]


@question("list_partition_reassignments")
def nothing_moves(stage: Stage, ask: Ask) -> Answers:
    return ask(timeout_ms=10_000, topics=None)


@question("list_partition_reassignments")
def nothing_of_these_moves(stage: Stage, ask: Ask) -> Answers:
    topics = [
        {"name": stage.name("empty"), "partition_indexes": [0, 77]},
        {"name": stage.name("missing"), "partition_indexes": [0]},
    ]
    return ask(timeout_ms=10_000, topics=topics)


@question("elect_leaders")
def nobody_is_away(stage: Stage, ask: Ask) -> Answers:
    return ask(timeout_ms=10_000, topic_partitions=[{"topic": stage.name("empty"), "partitions": [0]}])


@question("elect_leaders")
def for_all_where_it_is_needed(stage: Stage, ask: Ask) -> Answers:
    answer = ask(timeout_ms=10_000, topic_partitions=None)
    # Kafka also names every topic in which it has nothing to do.
    answer["replica_election_results"] = [one for one in answer["replica_election_results"] if one["partition_result"]]
    return answer


@question("elect_leaders")
def for_what_is_not_there(stage: Stage, ask: Ask) -> Answers:
    missing = [
        {"topic": stage.name("missing"), "partitions": [0]},
        {"topic": stage.name("empty"), "partitions": [77, -1]},
    ]
    return ask(timeout_ms=10_000, topic_partitions=missing)


@question("elect_leaders")
def in_any_way(stage: Stage, ask: Ask) -> Answers:
    wanted = [{"topic": stage.name("empty"), "partitions": [0]}]
    if ask.version == 0:
        return ask(timeout_ms=10_000, topic_partitions=wanted)
    return ask(timeout_ms=10_000, election_type=1, topic_partitions=wanted)


@question("unregister_broker")
def a_broker_that_is_not_there(stage: Stage, ask: Ask) -> Answers:
    return [ask(broker_id=broker) for broker in (NOBODY, -1)]
