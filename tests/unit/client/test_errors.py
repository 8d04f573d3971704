"""Errors say what happened and what to do, and keep all they know on their way between processes."""

from __future__ import annotations

import pickle

import pytest
from confluent_kafka import KafkaError, KafkaException

from bifrost.client import errors
from bifrost.client.errors import (
    AuthorizationError,
    BifrostError,
    CommitError,
    ConfigError,
    DeliveryError,
    GroupNotEmptyError,
    InvalidRequestError,
    MessageTooLargeError,
    TimedOutError,
    TopicExistsError,
    UnknownGroupError,
    UnknownPartitionError,
    UnknownTopicError,
    UnreachableError,
    UnsupportedError,
    from_kafka,
    nearest,
)
from bifrost.client.report import PartitionReport, Report


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (KafkaError._ALL_BROKERS_DOWN, UnreachableError, "no broker answers at here:9092. Is it running"),
        (KafkaError._TIMED_OUT, TimedOutError, "here:9092 did not answer in time. "),
        (KafkaError._MSG_TIMED_OUT, TimedOutError, "a message for topic t was not acknowledged in time. Is here:9092"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicError, "topic t does not exist. Check the name"),
        (KafkaError._UNKNOWN_PARTITION, UnknownPartitionError, "partition 7 of topic t does not exist. "),
        (KafkaError.GROUP_ID_NOT_FOUND, UnknownGroupError, "group g does not exist. "),
        (KafkaError.NON_EMPTY_GROUP, GroupNotEmptyError, "group g has members. Stop its consumers"),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicExistsError, "topic t exists already. "),
        (KafkaError.MSG_SIZE_TOO_LARGE, MessageTooLargeError, "a message for topic t is too large. "),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationError, "not allowed: Topic authorization failed. Ask"),
        (KafkaError.INVALID_PARTITIONS, InvalidRequestError, "Invalid number of partitions"),
        (KafkaError.ILLEGAL_GENERATION, CommitError, "offsets of group g were not committed: "),
        (KafkaError.UNSUPPORTED_VERSION, UnsupportedError, "here:9092 cannot do this: "),
        (KafkaError.UNKNOWN, BifrostError, "Unknown broker error"),
    ],
)
def test_kafkas_errors_become_ours(code: int, kind: type[BifrostError], text: str) -> None:
    kafka = KafkaError(code)
    for given in (kafka, KafkaException(kafka)):
        made = from_kafka(given, topic="t", partition=7, group="g", bootstrap="here:9092")
        assert type(made) is kind
        assert str(made).startswith(text)
        assert made.code == kafka.name()


def test_every_meaning_can_be_told_without_knowing_names() -> None:
    for name in errors._MEANINGS:
        code = getattr(KafkaError, name)
        text = str(from_kafka(KafkaError(code)))
        assert "{" not in text
        assert "None" not in text


def test_python_knows_them_as_its_own() -> None:
    assert issubclass(UnreachableError, ConnectionError)
    assert issubclass(TimedOutError, TimeoutError)
    assert issubclass(UnknownTopicError, LookupError)
    assert issubclass(ConfigError, ValueError)


def test_they_travel() -> None:
    report = Report((PartitionReport("t", 0, 2, 1, 1, None, 0, 0),))
    cause = UnreachableError("nobody", "Look.", code="_TRANSPORT")
    back = pickle.loads(pickle.dumps(DeliveryError("lost", "Try again.", report=report, causes=[cause])))
    assert (str(back), back.report, str(back.causes[0])) == ("lost. Try again.", report, "nobody. Look.")
    back = pickle.loads(pickle.dumps(cause))
    assert (type(back), back.code, back.hint) == (UnreachableError, "_TRANSPORT", "Look.")


def test_without_a_hint_there_is_only_the_problem() -> None:
    assert str(BifrostError("it broke")) == "it broke"
    assert str(BifrostError("it broke.", "Mend it.")) == "it broke. Mend it."


def test_the_nearest_name() -> None:
    assert nearest("bootstap.servers", ["linger.ms", "bootstrap.servers"]) == "Did you mean bootstrap.servers?"
    assert nearest("xyz", ["linger.ms"]) == ""
