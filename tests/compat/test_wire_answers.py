"""Every question is answered as Apache Kafka answers it, field by field, at every version.

Kafka's answers are recorded in `answers/`; run against Kafka itself, this test checks the record. What Bifrost answers
differently on purpose is in DIFFERENCES with its reason; a difference that is no longer there fails the test too.
To record anew: BIFROST_RECORD_ANSWERS=1 with `-m oracle`.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from tests.compat import answers_file
from tests.compat.questions import (
    alter_configs,
    classic_groups,
    configs,
    consumer_groups,
    deletions,
    features,
    fetch,
    group_admin,
    group_offsets,
    group_records,
    log_dirs,
    offsets,
    produce,
    producers,
    quotas,
    replicas,
    topics,
)
from tests.compat.questions.catalogue import QUESTIONS, Question
from tests.compat.questions.stage import Stage
from tests.compat.servers import Server

_GROUPS = (classic_groups, consumer_groups, group_admin, group_offsets, group_records)
_OTHERS = (
    alter_configs,
    configs,
    deletions,
    features,
    fetch,
    log_dirs,
    offsets,
    produce,
    producers,
    quotas,
    replicas,
    topics,
)
assert all((*_GROUPS, *_OTHERS)), "imported for the questions they register"

RECORD = "BIFROST_RECORD_ANSWERS" in os.environ


@dataclass(frozen=True)
class Difference:
    """An answer that is not Kafka's on purpose; `question` and `path` are regular expressions.

    Unless it is a habit that shows in some of the questions only (`always=False`), it must be seen in each of them.
    """

    question: str
    path: str
    reason: str
    always: bool = True

    def covers(self, question: Question, line: str) -> bool:
        path = line.split(": Kafka ", maxsplit=1)[0]
        return bool(re.fullmatch(self.question, str(question)) and re.fullmatch(self.path, path))


OPAQUE = "a batch is not opened on the way in (produce.validation=header), so what only its records show is not seen"
_EXPLAINS = "says what is wrong where Kafka leaves the text null"
_NO_ELR = "Kafka's eligible leader replicas write a cluster-wide min.insync.replicas; here it has its default"
_NO_ACCIDENT = "names the mistake where Kafka stumbles over it and reports an unexpected server error"

_NO_PLUG_INS = "Kafka keeps names that it does not know for its plug-ins; here a mistyped name is refused"
_NO_LOGGERS = "log levels of a running node are not among its configs"
_FEWER_FEATURES = "tells of the features that are here, of which the metadata has one level"
_NO_CLIENT_METRICS = "brokers collect no metrics of clients (KIP-714)"

DIFFERENCES: tuple[Difference, ...] = (
    Difference("produce-(both_above_records|both_below_records|torn_record)", ".*", OPAQUE),
    Difference("produce-(gzip|zstd)_of_garbage", ".*", OPAQUE),
    Difference("produce-wrong_max_timestamp", "3:stored.*", OPAQUE),
    Difference("(produce|create_partitions|describe_producers)-.*", r".*\.error_message", _EXPLAINS, always=False),
    Difference("alter_partition_reassignments-give_up_what_does_not_move", r".*\.error_message", _EXPLAINS),
    Difference(
        "produce-(old_magic|length_beyond_the_bytes|(empty|short|cut)_records|two_batches|message_set_v1|unknown_magic)",
        r".*\.log_start_offset",
        "whoever is refused by the partition's leader learns where the log starts",
        always=False,
    ),
    Difference(
        "produce-sequence_duplicate_older_than_five",
        r".*\.error_code",
        "whoever repeats what is known to be stored is told so; a Java client would repeat it until it gives up",
    ),
    Difference("produce-unknown_codec", r".*\.(error_code|log_start_offset)", _NO_ACCIDENT),
    Difference("metadata-null_name_without_id", ".*error_code", _NO_ACCIDENT),
    Difference("api_versions-features", r"(supported|finalized)_features.*", _FEWER_FEATURES),
    Difference("create_topics-really_created", r"topics\[0]\.configs\[14]\.config_source", _NO_ELR),
    Difference("describe_configs-(topic_defaults.*|no_names_means_all)", r"results\[0]\.configs\[14]\..*", _NO_ELR),
    Difference("describe_configs-broker_values.*", r"results\[0]\.configs\[9]\..*", _NO_ELR),
    Difference("describe_configs-changed_topic_value", r"results\[0]\.configs\[0]\..*", _NO_ELR),
    Difference("describe_configs-cluster_wide_defaults", ".*", _NO_ELR),
    Difference("(find_coordinator|consumer_group_describe)-.*", r".*error_message", _EXPLAINS, always=False),
    Difference(
        "join_group-into_a_consumer_group", ".*", "a group speaks one protocol; it may change while nobody is in it"
    ),
    Difference(
        "offset_delete-the_last_offset_of_a_group",
        "2:.*",
        "a group that has neither members nor offsets is gone at once, and not when the cleaner next comes",
    ),
    Difference(
        "delete_records-the_greatest_timestamp_with_the_rest",
        "2:.*",
        "a record that was deleted is no answer to anything; Kafka tells of it until its segment goes",
    ),
    Difference("describe_configs-client_metrics", ".*", _NO_CLIENT_METRICS),
    Difference("incremental_alter_configs-unknown_logger", r".*\.error_code", _NO_LOGGERS),
    Difference("list_config_resources-resources_of_(all|each)_types?", r".*config_resources.*", _NO_LOGGERS),
    Difference("incremental_alter_configs-topic_unknown_operation", r"responses\[0]\.error_.*", _NO_ACCIDENT),
    Difference("(incremental_)?alter_configs-(every_)?broker_(topic|unknown)_name", r".*\.error_.*", _NO_PLUG_INS),
    Difference("alter_configs-every_broker_(set|nothing)", r".*\.error_.*", _NO_ELR),
)


@pytest.fixture(scope="session")
def stage(broker: Server) -> Stage:
    found = Stage(broker.bootstrap, f"stage{uuid.uuid4().hex[:10]}")
    found.set()
    return found


def _grouped(question: Question) -> Any:
    """Questions that meet each other's traces at the shared broker are asked in one place, one after the other.

    Some about configs change those of the broker, which others describe; odd names of groups are used by several APIs,
    and a group speaks one protocol.
    """
    place = "configs" if "config" in question.api else "odd-groups" if question.name.startswith("group_") else None
    return pytest.param(question, marks=[pytest.mark.xdist_group(place)] if place else [], id=str(question))


@pytest.mark.parametrize("question", [_grouped(each) for each in QUESTIONS])
def test_the_answer_is_kafkas(question: Question, broker: Server, stage: Stage) -> None:
    fields = answers_file.flatten(question.ask(stage))
    if RECORD and broker.name == "kafka":
        answers_file.save(question.api, question.name, question.versions, fields)
    kafka = answers_file.load(question.api, question.name)
    assert kafka is not None, "Kafka has not been asked this yet"
    lines = answers_file.differences(kafka, fields)
    known = (
        [] if broker.name == "kafka" else [each for each in DIFFERENCES if re.fullmatch(each.question, str(question))]
    )
    unexpected = [line for line in lines if not any(each.covers(question, line) for each in known)]
    assert not unexpected, "\n".join(["", *unexpected])
    stale = [each for each in known if each.always and not any(each.covers(question, line) for line in lines)]
    assert not stale, f"no longer different: {stale}"
