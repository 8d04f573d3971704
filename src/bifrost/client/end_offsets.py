"""Where partitions end now: the only thing that a producer has to ask for and cannot ask by itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

_RETRY_S: Final = 0.1


def end_offsets(
    options: Mapping[str, Any], partitions: Mapping[str, Sequence[int]], timeout_s: float
) -> dict[str, dict[int, int]]:
    """By topic and partition; what the cluster does not tell in time is missing."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    wanted = [TopicPartition(topic, each) for topic, numbers in partitions.items() for each in numbers]
    if not wanted:
        return {}
    admin = AdminClient({name: value for name, value in options.items() if not callable(value)})
    latest = OffsetSpec.latest()
    found: dict[str, dict[int, int]] = {}
    deadline = time.monotonic() + timeout_s
    while wanted and (left_s := deadline - time.monotonic()) > 0:
        asked = admin.list_offsets(dict.fromkeys(wanted, latest), request_timeout=left_s)
        wanted = []
        for partition, answer in asked.items():
            try:
                found.setdefault(partition.topic, {})[partition.partition] = answer.result().offset
            except KafkaException as error:
                if error.args[0].retriable():  # a leader is being elected, or just has been
                    wanted.append(partition)
        if wanted:
            time.sleep(_RETRY_S)
    return found
