"""Questions to Fetch: bounds, limits, epochs and incremental sessions (KIP-227)."""

from __future__ import annotations

import uuid
from typing import Any

from tests.compat.questions.catalogue import Answers, question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer

NOBODY = uuid.UUID(int=0xBAD)
FIRST_SESSION_VERSION = 7


def wanted(offset: int, partition: int = 0, **extra: Any) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1_000_000, **extra}


def topic(stage: Stage, partitions: list[dict[str, Any]], name: str = "filled") -> dict[str, Any]:
    return {"topic": stage.name(name), "topic_id": stage.topic_id(name), "partitions": partitions}


def read(stage: Stage, ask: Ask, partitions: list[dict[str, Any]], **fields: Any) -> Answer:
    request = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "topics": [topic(stage, partitions)], **fields}
    return ask(**request)


def _read(name: str, *partitions: dict[str, Any], first: int | None = None, **fields: Any) -> None:
    def function(stage: Stage, ask: Ask) -> Answers:
        return read(stage, ask, list(partitions), **fields)

    function.__name__ = name
    question("fetch", first=first)(function)


_read("from_the_start", wanted(0))
_read("from_inside_a_batch", wanted(2))
_read("from_the_second_batch", wanted(4))
_read("at_the_end", wanted(10))
_read("past_the_end", wanted(11))
_read("negative_offset", wanted(-1))
_read("of_empty", wanted(0, partition=2))
_read("unknown_partition", wanted(0, partition=9))
_read("negative_partition", wanted(0, partition=-1))
_read("no_partitions")
_read("two_partitions", wanted(0), wanted(0, partition=1))
_read("the_same_partition_twice", wanted(0), wanted(4))
_read("committed_only", wanted(0), isolation_level=1)
_read("one_byte_in_all_still_sends_a_batch", wanted(0), wanted(0, partition=1), max_bytes=1)
_read(
    "one_byte_per_partition",
    wanted(0) | {"partition_max_bytes": 1},
    wanted(0, partition=1) | {"partition_max_bytes": 1},
)
_read("second_batch_cut_by_the_limit", wanted(0) | {"partition_max_bytes": 200})
_read("current_epoch", wanted(0, current_leader_epoch=0), first=9)
_read("future_epoch", wanted(0, current_leader_epoch=5), first=9)
_read("last_fetched_epoch", wanted(4, last_fetched_epoch=0), first=12)
_read("last_fetched_epoch_of_the_future", wanted(4, last_fetched_epoch=5), first=12)
_read("with_a_rack", wanted(0), first=11, rack_id="somewhere")
_read("with_a_wrong_cluster_id", wanted(0), first=12, cluster_id="another-cluster")
_read("waits_no_longer_than_asked", wanted(10), max_wait=30, min_bytes=1)


@question("fetch", last=12)
def unknown_topic(stage: Stage, ask: Ask) -> Answers:
    return read(stage, ask, [], topics=[{"topic": stage.name("missing"), "partitions": [wanted(0)]}])


@question("fetch", first=13)
def unknown_topic_id(stage: Stage, ask: Ask) -> Answers:
    return read(stage, ask, [], topics=[{"topic_id": NOBODY, "partitions": [wanted(0)]}])


@question("fetch", first=13)
def zero_topic_id(stage: Stage, ask: Ask) -> Answers:
    return read(stage, ask, [], topics=[{"topic_id": uuid.UUID(int=0), "partitions": [wanted(0)]}])


def _session(stage: Stage, ask: Ask, partitions: list[dict[str, Any]]) -> tuple[int, Answer]:
    answer = read(stage, ask, partitions, session_id=0, session_epoch=0)
    return answer["session_id"], answer


@question("fetch", first=FIRST_SESSION_VERSION)
def session_answers_only_what_changed(stage: Stage, ask: Ask) -> Answers:
    """The first answer holds everything; the second nothing, since the client is at the end and nothing happened."""
    session, opened = _session(stage, ask, [wanted(10), wanted(1, partition=1)])
    follow = {"session_id": session, "topics": []}
    return [opened, *(read(stage, ask, [], session_epoch=epoch, **follow) for epoch in (1, 2))]


@question("fetch", first=FIRST_SESSION_VERSION)
def session_repeats_data_until_the_client_moves_on(stage: Stage, ask: Ask) -> Answers:
    session, opened = _session(stage, ask, [wanted(0), wanted(1, partition=1)])
    again = read(stage, ask, [], session_id=session, session_epoch=1, topics=[])
    moved = read(stage, ask, [wanted(10)], session_id=session, session_epoch=2)
    return [opened, again, moved]


@question("fetch", first=FIRST_SESSION_VERSION)
def session_forgets_a_partition(stage: Stage, ask: Ask) -> Answers:
    session, opened = _session(stage, ask, [wanted(0), wanted(0, partition=1)])
    name = {"topic": stage.name("filled"), "topic_id": stage.topic_id("filled"), "partitions": [0]}
    follow = {"session_id": session, "session_epoch": 1, "topics": []}
    return [opened, read(stage, ask, [], forgotten_topics_data=[name], **follow)]


@question("fetch", first=FIRST_SESSION_VERSION)
def session_takes_on_a_partition(stage: Stage, ask: Ask) -> Answers:
    session, opened = _session(stage, ask, [wanted(10)])
    return [opened, read(stage, ask, [wanted(0, partition=1)], session_id=session, session_epoch=1)]


@question("fetch", first=FIRST_SESSION_VERSION)
def session_with_a_wrong_epoch(stage: Stage, ask: Ask) -> Answers:
    session, _ = _session(stage, ask, [wanted(0)])
    return read(stage, ask, [], session_id=session, session_epoch=7, topics=[])


@question("fetch", first=FIRST_SESSION_VERSION)
def session_that_nobody_opened(stage: Stage, ask: Ask) -> Answers:
    return read(stage, ask, [wanted(0)], session_id=2_000_000_000, session_epoch=1)


@question("fetch", first=FIRST_SESSION_VERSION)
def session_closed_by_the_client(stage: Stage, ask: Ask) -> Answers:
    """Epoch -1 with an id ends that session and answers in full; the id is unknown afterwards."""
    session, _ = _session(stage, ask, [wanted(10)])
    last = read(stage, ask, [wanted(10)], session_id=session, session_epoch=-1)
    return [last, read(stage, ask, [], session_id=session, session_epoch=1, topics=[])]


@question("fetch", first=FIRST_SESSION_VERSION)
def session_replaced_by_another(stage: Stage, ask: Ask) -> Answers:
    """Epoch 0 with an old id opens a new session in its place."""
    session, _ = _session(stage, ask, [wanted(10)])
    renewed = read(stage, ask, [wanted(10)], session_id=session, session_epoch=0)
    return [renewed, read(stage, ask, [], session_id=session, session_epoch=1, topics=[])]


@question("fetch", first=FIRST_SESSION_VERSION)
def session_id_without_an_epoch(stage: Stage, ask: Ask) -> Answers:
    return read(stage, ask, [wanted(10)], session_id=0, session_epoch=1)


@question("fetch", first=FIRST_SESSION_VERSION)
def session_with_an_error_in_it(stage: Stage, ask: Ask) -> Answers:
    """A partition in error is named in every answer."""
    session, opened = _session(stage, ask, [wanted(10), wanted(0, partition=9)])
    return [opened, read(stage, ask, [], session_id=session, session_epoch=1, topics=[])]


@question("fetch", first=13)
def session_that_changes_from_ids_to_names(stage: Stage, ask: Ask) -> Answers:
    session, _ = _session(stage, ask, [wanted(10)])
    request = {"session_id": session, "session_epoch": 1, "topics": [], "replica_id": -1, "max_wait": 0, "min_bytes": 0}
    return ask.wire.ask("fetch", 12, **request)


@question("fetch", first=13)
def session_with_an_unknown_topic_id(stage: Stage, ask: Ask) -> Answers:
    strange = {"topic_id": NOBODY, "partitions": [wanted(0)]}
    opened = read(stage, ask, [], topics=[topic(stage, [wanted(10)]), strange], session_epoch=0)
    return [opened, read(stage, ask, [], session_id=opened["session_id"], session_epoch=1, topics=[])]
