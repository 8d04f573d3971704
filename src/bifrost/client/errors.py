"""What the client API raises: one class for each thing that a program or a person can do about it.

    BifrostError
    ├── UnreachableError       nobody answers there                        (also a ConnectionError)
    ├── TimedOutError          somebody is there, the answer is not        (also a TimeoutError)
    ├── UnknownTopicError      ┐
    ├── UnknownPartitionError  │ what was named does not exist             (also a LookupError)
    ├── UnknownGroupError      ┘
    ├── TopicExistsError       what was to be created is there already
    ├── GroupNotEmptyError     members are in the way
    ├── OffsetOutOfRangeError  the log does not reach there, or no longer    (also a LookupError)
    ├── CorruptDataError       what a broker sent is not what was once written (also a ValueError)
    ├── AuthorizationError     the cluster knows who asks, or not, and refuses
    ├── InvalidRequestError    the cluster refuses what was asked          (also a ValueError)
    │   ├── ConfigError        an option or setting that makes no sense
    │   └── MessageTooLargeError
    ├── UnsupportedError       makes sense, but cannot be done here
    ├── SerializationError     bytes from a value, or a value from bytes   (also a ValueError)
    │   └── DeserializationError   the latter, with the message it was in
    ├── CommitError            offsets were not committed
    └── DeliveryError          messages were not acknowledged

`str(error)` is one line: what happened, then what to do next. Kafka's own error stays reachable as `error.code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

    from bifrost.client.message import Message
    from bifrost.client.report import Report


class BifrostError(Exception):
    """Base of everything that clients raise on purpose."""

    def __init__(self, problem: str, hint: str = "", *, code: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        """What to do next; empty if there is nothing sensible to say."""
        self.code = code
        """Kafka's name of the error, such as `TOPIC_ALREADY_EXISTS`; empty if it did not come from Kafka."""

    def __str__(self) -> str:
        return f"{self.problem.rstrip('.')}. {self.hint}" if self.hint else self.problem

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class UnreachableError(BifrostError, ConnectionError):
    """No broker answers at that address."""


class TimedOutError(BifrostError, TimeoutError):
    """No answer within the time that was given."""


class UnknownTopicError(BifrostError, LookupError):
    """The topic does not exist."""


class UnknownPartitionError(BifrostError, LookupError):
    """The topic exists, the partition does not."""


class UnknownGroupError(BifrostError, LookupError):
    """The consumer group does not exist."""


class OffsetOutOfRangeError(BifrostError, LookupError):
    """The partition holds offsets from `earliest` up to, not including, `latest`; `offset` is none of them."""

    def __init__(self, topic: str, partition: int, offset: int, *, earliest: int, latest: int) -> None:
        held = f"holds {earliest} to {latest - 1}" if latest > earliest else f"is empty at {latest}"
        super().__init__(
            f"offset {offset} of {topic}-{partition} is not there: the partition {held}",
            f"Start at {earliest} or later; what lay before may have been removed by retention."
            if offset < earliest
            else f"Start at {latest} or before; the topic may have been made anew.",
            code="OFFSET_OUT_OF_RANGE",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.earliest = earliest
        self.latest = latest


class CorruptDataError(BifrostError, ValueError):
    """Bytes of a partition that are no record batches; `offset` is the first that cannot be read."""

    def __init__(self, topic: str, partition: int, offset: int, problem: str) -> None:
        super().__init__(
            f"{topic}-{partition} cannot be read from offset {offset} on: {problem}",
            "Its log on the broker may be damaged: `bifrost log dump` shows what lies there.",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class TopicExistsError(BifrostError):
    """The topic that was to be created exists already."""


class GroupNotEmptyError(BifrostError):
    """The group has members, and what was asked needs one without."""


class AuthorizationError(BifrostError):
    """The cluster does not let this client do that."""


class InvalidRequestError(BifrostError, ValueError):
    """The cluster, or the client before it, refuses what was asked."""


class ConfigError(InvalidRequestError):
    """An option, a setting or a configuration file that makes no sense."""


class MessageTooLargeError(InvalidRequestError):
    """A message is larger than the client or the topic allows."""


class UnsupportedError(BifrostError):
    """What was asked makes sense, but is not there (yet)."""


class SerializationError(BifrostError, ValueError):
    """A value that cannot be made into bytes, or bytes that are not what was expected."""


class DeserializationError(SerializationError):
    """A message that was read is not what was expected; `message` has its bytes and says where it lies."""

    def __init__(
        self, problem: str, hint: str = "", *, code: str = "", message: Message[bytes | None, bytes | None]
    ) -> None:
        super().__init__(problem, hint, code=code)
        self.message = message
        self.topic = message.topic
        self.partition = message.partition
        self.offset = message.offset


class CommitError(BifrostError):
    """Offsets were not committed."""


class DeliveryError(BifrostError):
    """Messages were not acknowledged; `report` says how many of which partition, `causes` why."""

    def __init__(
        self,
        problem: str,
        hint: str = "",
        *,
        code: str = "",
        report: Report | None = None,
        causes: Iterable[BifrostError] = (),
    ) -> None:
        super().__init__(problem, hint, code=code)
        self.report = report
        self.causes = tuple(causes)
        """The different reasons, one error for each."""


_UNKNOWN_OPTION = re.compile(r'No such configuration property: "([^"{}]*)"')


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that nobody knows: the known one that looks most like it, or nothing."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"Did you mean {found[0]}?" if found else ""


def from_kafka(
    error: KafkaError | KafkaException,
    *,
    topic: str | None = None,
    partition: int | None = None,
    group: str | None = None,
    bootstrap: str | None = None,
) -> BifrostError:
    """The error of this module that says what librdkafka's or the broker's error means for the caller."""
    kafka: KafkaError = error.args[0] if isinstance(error, Exception) else error
    if unknown := _UNKNOWN_OPTION.search(kafka.str()):
        made: BifrostError = ConfigError(
            f"librdkafka has no setting {unknown[1]}", _known_option(unknown[1]), code=kafka.name()
        )
    else:
        text = _own_words(kafka.str())
        made = explain(kafka.name(), text, topic=topic, partition=partition, group=group, bootstrap=bootstrap)
    made.__cause__ = error if isinstance(error, BaseException) else None
    return made


def explain(
    code: str,
    text: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    group: str | None = None,
    bootstrap: str | None = None,
) -> BifrostError:
    """The error that says what `code`, as librdkafka names it, means for the caller; `text` is the broker's word."""
    kind, problem, hint = _MEANINGS.get(code, (BifrostError, "{text}", ""))
    names = {
        "text": text,
        "topic": f"topic {topic}" if topic is not None else "the topic",
        "partition": f"partition {partition}" if partition is not None and partition >= 0 else "the partition",
        "group": f"group {group}" if group is not None else "the group",
        "cluster": bootstrap or "the cluster",
    }
    return kind(problem.format(**names), hint.format(**names), code=code)


def _rebuild(kind: type[BifrostError], args: tuple[object, ...], state: dict[str, object]) -> BifrostError:
    """Errors travel between processes with all they know (pytest-xdist, executors)."""
    made = kind.__new__(kind, *args)
    made.args = args
    made.__dict__.update(state)
    return made


def _known_option(name: str) -> str:
    from bifrost.client.options import NAMES

    return nearest(name, NAMES) or "Its CONFIGURATION.md lists all that there are."


def _own_words(text: str) -> str:
    return text.removeprefix("Local: ").removeprefix("Broker: ").strip() or "Unknown failure"


_Meaning = tuple[type[BifrostError], str, str]

_UNREACHABLE: _Meaning = (
    UnreachableError,
    "no broker answers at {cluster}",
    "Is it running, and is the address right? `bifrost up` starts one here.",
)
_TIMED_OUT: _Meaning = (
    TimedOutError,
    "{cluster} did not answer in time",
    "Is it running and reachable? If it is only slow, allow a longer timeout.",
)
_NO_TOPIC: _Meaning = (
    UnknownTopicError,
    "{topic} does not exist",
    "Check the name, or create it: `bifrost topic create NAME`.",
)
_NO_PARTITION: _Meaning = (
    UnknownPartitionError,
    "{partition} of {topic} does not exist",
    "See how many there are: `bifrost topic describe NAME`; counting starts at 0.",
)
_TOO_LARGE: _Meaning = (
    MessageTooLargeError,
    "a message for {topic} is too large",
    "Send less at a time, or raise `message.max.bytes` of the client and `max.message.bytes` of the topic.",
)
_DENIED: _Meaning = (AuthorizationError, "not allowed: {text}", "Ask whoever runs the cluster for the right to do it.")
_LOGIN: _Meaning = (AuthorizationError, "logging in at {cluster} failed: {text}", "Check security.protocol and sasl.*.")
_REFUSED: _Meaning = (InvalidRequestError, "{text}", "")
_SETTING: _Meaning = (ConfigError, "{text}", "Check the name and the value of the setting.")
_NOT_COMMITTED: _Meaning = (
    CommitError,
    "offsets of {group} were not committed: {text}",
    "The group has moved on without this member; the new owner of its partitions reads these messages again.",
)
_FEW_REPLICAS: _Meaning = (
    BifrostError,
    "{topic} has too few live replicas for acks=all",
    "Start the brokers that are down, or lower min.insync.replicas of the topic.",
)

_MEANINGS: dict[str, _Meaning] = {
    "_ALL_BROKERS_DOWN": _UNREACHABLE,
    "_TRANSPORT": _UNREACHABLE,
    "_RESOLVE": _UNREACHABLE,
    "_UNKNOWN_BROKER": _UNREACHABLE,
    "BROKER_NOT_AVAILABLE": _UNREACHABLE,
    "NETWORK_EXCEPTION": _UNREACHABLE,
    "_TIMED_OUT": _TIMED_OUT,
    "_TIMED_OUT_QUEUE": _TIMED_OUT,
    "REQUEST_TIMED_OUT": _TIMED_OUT,
    "_MSG_TIMED_OUT": (
        TimedOutError,
        "a message for {topic} was not acknowledged in time",
        "Is {cluster} running and reachable? The message may have been stored or not: read the topic to be sure.",
    ),
    "_UNKNOWN_TOPIC": _NO_TOPIC,
    "UNKNOWN_TOPIC_OR_PART": _NO_TOPIC,
    "UNKNOWN_TOPIC_ID": _NO_TOPIC,
    "_UNKNOWN_PARTITION": _NO_PARTITION,
    "_UNKNOWN_GROUP": (UnknownGroupError, "{group} does not exist", "See which there are: `bifrost group list`."),
    "GROUP_ID_NOT_FOUND": (UnknownGroupError, "{group} does not exist", "See which there are: `bifrost group list`."),
    "NON_EMPTY_GROUP": (GroupNotEmptyError, "{group} has members", "Stop its consumers first."),
    "GROUP_SUBSCRIBED_TO_TOPIC": (GroupNotEmptyError, "{group} still reads {topic}", "Stop its consumers first."),
    "TOPIC_ALREADY_EXISTS": (TopicExistsError, "{topic} exists already", "Use it, delete it, or take another name."),
    "TOPIC_EXCEPTION": (
        InvalidRequestError,
        "{topic} cannot be used: {text}",
        "Names have up to 249 letters, digits, dots, underscores and dashes.",
    ),
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "INVALID_MSG_SIZE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "TOPIC_AUTHORIZATION_FAILED": _DENIED,
    "GROUP_AUTHORIZATION_FAILED": _DENIED,
    "CLUSTER_AUTHORIZATION_FAILED": _DENIED,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _DENIED,
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": _DENIED,
    "_AUTHENTICATION": _LOGIN,
    "_SSL": _LOGIN,
    "SASL_AUTHENTICATION_FAILED": _LOGIN,
    "UNSUPPORTED_SASL_MECHANISM": _LOGIN,
    "_INVALID_ARG": _SETTING,
    "INVALID_CONFIG": _SETTING,
    "INVALID_REQUEST": _REFUSED,
    "INVALID_PARTITIONS": _REFUSED,
    "INVALID_REPLICATION_FACTOR": _REFUSED,
    "INVALID_REPLICA_ASSIGNMENT": _REFUSED,
    "INVALID_GROUP_ID": _REFUSED,
    "INVALID_TIMESTAMP": _REFUSED,
    "INVALID_RECORD": _REFUSED,
    "POLICY_VIOLATION": _REFUSED,
    "UNSUPPORTED_VERSION": (UnsupportedError, "{cluster} cannot do this: {text}", "A newer version of it may."),
    "_UNSUPPORTED_FEATURE": (UnsupportedError, "{cluster} cannot do this: {text}", "A newer version of it may."),
    "_NOT_IMPLEMENTED": (UnsupportedError, "{text}", ""),
    "ILLEGAL_GENERATION": _NOT_COMMITTED,
    "UNKNOWN_MEMBER_ID": _NOT_COMMITTED,
    "REBALANCE_IN_PROGRESS": _NOT_COMMITTED,
    "FENCED_INSTANCE_ID": _NOT_COMMITTED,
    "STALE_MEMBER_EPOCH": _NOT_COMMITTED,
    "FENCED_MEMBER_EPOCH": _NOT_COMMITTED,
    "NOT_ENOUGH_REPLICAS": _FEW_REPLICAS,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _FEW_REPLICAS,
}
