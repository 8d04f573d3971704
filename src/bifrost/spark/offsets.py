"""Offsets of many partitions, and their JSON: the one of options, and the one that a checkpoint keeps.

Both have the form that Spark's Kafka connector writes, blanks aside, so that a query may go on where one of
`format("kafka")` stopped, and the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

from bifrost.spark.failures import OptionError
from bifrost.types import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]

LATEST: Final = -1
"""In the JSON of options: where the partition ends when the query starts."""
EARLIEST: Final = -2
"""In the JSON of options: where the partition begins."""

OFFSETS_FORM: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_FORM: Final = '{"topicA":{"0":1700000000000},"topicB":{"0":1700000000000}}'
ASSIGN_FORM: Final = '{"topicA":[0,1],"topicB":[2,4]}'


def to_spark(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """What Spark keeps in the checkpoint: topics and partitions in order, so that equal offsets are equal text."""
    nested: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return nested


def from_spark(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets that Spark read from a checkpoint, ours or the Kafka connector's."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def parse_offsets(option: str, text: str) -> Offsets:
    """The value of `startingOffsets` and its kin; -1 and -2 stand for latest and earliest."""
    offsets = _parse_nested(option, text, OFFSETS_FORM)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(
                f"{option}: {partition} has the offset {offset}", "Offsets are 0 or more; -1 is latest, -2 is earliest."
            )
    return offsets


def parse_timestamps(option: str, text: str) -> Offsets:
    """The value of `startingOffsetsByTimestamp` and its kin: milliseconds since 1970 for each partition."""
    timestamps = _parse_nested(option, text, TIMESTAMPS_FORM)
    for partition, timestamp in timestamps.items():
        if timestamp < 0:
            raise OptionError(f"{option}: {partition} has the timestamp {timestamp}", "Give milliseconds since 1970.")
    return timestamps


def parse_assignment(option: str, text: str) -> list[TopicPartition]:
    """The value of `assign`."""
    named = _parse_object(option, text, ASSIGN_FORM)
    found: set[TopicPartition] = set()
    for topic, partitions in named.items():
        if not isinstance(partitions, list) or not all(_is_partition(each) for each in partitions):
            raise _malformed(option, text, ASSIGN_FORM)
        found.update(TopicPartition(topic, partition) for partition in partitions)
    if not found:
        raise OptionError(f"{option} names no partition: {text}", f"It has the form {ASSIGN_FORM}.")
    return sorted(found)


def _parse_nested(option: str, text: str, form: str) -> Offsets:
    found: Offsets = {}
    for topic, partitions in _parse_object(option, text, form).items():
        if not isinstance(partitions, dict):
            raise _malformed(option, text, form)
        for partition, number in partitions.items():
            if not partition.isdecimal() or not isinstance(number, int) or isinstance(number, bool):
                raise _malformed(option, text, form)
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise OptionError(f"{option} names no partition: {text}", f"It has the form {form}.")
    return found


def _parse_object(option: str, text: str, form: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise _malformed(option, text, form) from None
    if not isinstance(parsed, dict):
        raise _malformed(option, text, form)
    return parsed


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _malformed(option: str, text: str, form: str) -> OptionError:
    return OptionError(f"{option} is not understood: {text}", f"It has the form {form}.")
