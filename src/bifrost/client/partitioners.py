"""Which partition a message goes to.

* `"murmur2"`: a key goes where the Java client, kafka-python, aiokafka, kafkajs and franz-go would put it, so all
  writers of a topic agree; messages without a key are spread at random, some milliseconds to one partition.
* `"round_robin"`: the same for keys; messages without one go to each partition in turn.
* a mapping: `{"Grocery": 0, "Dairy": 1, "Non-Food": 2}`, looked up with the key as it is given to `send`.
* a function of key, value (both as given to `send`) and the number of partitions that returns a partition.

A partition that is named in `send` wins over all of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, Literal

from bifrost.client.errors import ConfigError, InvalidRequestError, nearest

Chooser = Callable[[Any, Any, int], int]
"""From key, value and the number of partitions to a partition; -1 leaves it to librdkafka."""
PartitionerSpec = Literal["murmur2", "round_robin"] | Mapping[Any, int] | Chooser

NAMES: Final = ("murmur2", "round_robin")
LIBRDKAFKA: Final = "murmur2_random"
"""librdkafka's name for what the Java client does."""


def chooser(spec: PartitionerSpec) -> Chooser | None:
    """What chooses the partitions of one topic; None: librdkafka does, by murmur2."""
    if isinstance(spec, Mapping):
        return _by_key(spec)
    if callable(spec):
        return spec
    if spec == "murmur2":
        return None
    if spec == "round_robin":
        return _in_turn()
    hint = nearest(str(spec), NAMES) or f"There are {' and '.join(NAMES)}, mappings and functions."
    raise ConfigError(f"partitioner={spec!r} is unknown", hint)


def _in_turn() -> Chooser:
    turn = count()

    def choose(key: Any, value: Any, partition_count: int) -> int:  # noqa: ARG001
        return next(turn) % partition_count if key is None else -1

    return choose


def _by_key(partitions: Mapping[Any, int]) -> Chooser:
    def choose(key: Any, value: Any, partition_count: int) -> int:  # noqa: ARG001
        try:
            return partitions[key]
        except KeyError:
            known = ", ".join(repr(each) for each in list(partitions)[:10])
            raise InvalidRequestError(f"the partitioner has no partition for key {key!r}", f"It has {known}.") from None

    return choose
