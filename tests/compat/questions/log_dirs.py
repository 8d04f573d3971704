"""Questions about log directories. Where they are and how much room they have is each broker's own affair."""

from __future__ import annotations

from typing import Any

from tests.compat.questions.catalogue import Answers, question
from tests.compat.questions.stage import Ask, Stage


def _told(stage: Stage, answer: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from machine to machine, and without the topics of other tests."""
    for result in answer["results"]:
        assert result.pop("log_dir").startswith("/")
        for name in ("total_bytes", "usable_bytes"):
            result[name] = "known" if result.get(name, -1) > 0 else "unknown"
        result["topics"] = sorted(
            (topic for topic in result["topics"] if topic["name"] in (stage.name("empty"), stage.name("filled"))),
            key=lambda topic: str(topic["name"]),
        )
        for topic in result["topics"]:
            topic["partitions"].sort(key=lambda partition: int(partition["partition_index"]))
            for partition in topic["partitions"]:
                partition["partition_size"] = "empty" if partition["partition_size"] == 0 else "not empty"
    return answer


@question("describe_log_dirs")
def everything(stage: Stage, ask: Ask) -> Answers:
    return _told(stage, ask(topics=None))


@question("describe_log_dirs")
def nothing(stage: Stage, ask: Ask) -> Answers:
    return _told(stage, ask(topics=[]))


@question("describe_log_dirs")
def one_partition(stage: Stage, ask: Ask) -> Answers:
    return _told(stage, ask(topics=[{"topic": stage.name("empty"), "partitions": [0]}]))


@question("describe_log_dirs")
def what_is_not_there(stage: Stage, ask: Ask) -> Answers:
    missing = [
        {"topic": stage.name("missing"), "partitions": [0]},
        {"topic": stage.name("empty"), "partitions": [0, 77, -1]},
        {"topic": "", "partitions": []},
    ]
    return _told(stage, ask(topics=missing))


@question("alter_replica_log_dirs")
def to_a_directory_that_there_is_not(stage: Stage, ask: Ask) -> Answers:
    topics = [{"name": stage.name("empty"), "partitions": [0]}]
    return ask(dirs=[{"path": "/there/is/no/such/directory", "topics": topics}])


@question("alter_replica_log_dirs")
def nothing_to_another_directory(stage: Stage, ask: Ask) -> Answers:
    return ask(dirs=[])


@question("alter_replica_log_dirs")
def what_is_not_there_to_nowhere(stage: Stage, ask: Ask) -> Answers:
    topics = [
        {"name": stage.name("missing"), "partitions": [0]},
        {"name": "x" * 249, "partitions": [0]},
        {"name": "", "partitions": [-1]},
    ]
    answer = ask(dirs=[{"path": "relative/path", "topics": topics}, {"path": "", "topics": []}])
    answer["results"].sort(key=lambda topic: str(topic["topic_name"]))
    return answer


def _directory(ask: Ask) -> str:
    """Some directory of the broker that is asked."""
    return str(ask.wire.ask("describe_log_dirs", 4, topics=[])["results"][0]["log_dir"])


@question("alter_replica_log_dirs")
def to_where_it_is(stage: Stage, ask: Ask) -> Answers:
    topics = [{"name": stage.name("empty"), "partitions": [0]}]
    return ask(dirs=[{"path": _directory(ask), "topics": topics}])


@question("alter_replica_log_dirs")
def what_is_not_there_to_where_others_are(stage: Stage, ask: Ask) -> Answers:
    topics = [
        {"name": stage.name("missing"), "partitions": [0]},
        {"name": stage.name("empty"), "partitions": [77]},
    ]
    answer = ask(dirs=[{"path": _directory(ask), "topics": topics}])
    answer["results"].sort(key=lambda topic: str(topic["topic_name"]))
    return answer


@question("alter_replica_log_dirs")
def to_its_directory_in_another_spelling(stage: Stage, ask: Ask) -> Answers:
    topics = [{"name": stage.name("empty"), "partitions": [0]}]
    return ask(dirs=[{"path": _directory(ask) + "/", "topics": topics}])
