"""What a follower has told its leader: partitions are named once, then only when they change (KIP-227).

This file decides what the next request has to name. It knows no connection; whoever loses one calls `reset`, and the
next request names everything.
"""

from __future__ import annotations

from typing import Final

from bifrost.protocol.fetch.request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from bifrost.replication.partition import Partition

_FIRST: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[bytes, int]
"""Topic id and partition."""


class FollowerSession:
    """The asking side of one session."""

    def __init__(self) -> None:
        self._partitions: dict[Key, Partition] = {}
        self._to_name: dict[Key, None] = {}
        self._to_forget: dict[Key, None] = {}
        self._id = 0
        self._epoch = _FIRST

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def has_news(self) -> bool:
        """Whether the leader should be told something before it has anything to tell."""
        return bool(self._to_name or self._to_forget)

    def put(self, partition: Partition) -> None:
        """The partition is asked for, from where its log ends now."""
        key = (partition.topic_id, partition.tp.partition)
        self._partitions[key] = partition
        self._to_name[key] = None
        self._to_forget.pop(key, None)

    def drop(self, partition: Partition) -> None:
        """The partition is not asked for any more."""
        key = (partition.topic_id, partition.tp.partition)
        if self._partitions.pop(key, None) is not None:
            self._to_name.pop(key, None)
            self._to_forget[key] = None

    def reset(self) -> None:
        """The leader knows nothing of this session any more."""
        self._id, self._epoch = 0, _FIRST
        self._to_name = dict.fromkeys(self._partitions)
        self._to_forget.clear()

    def on_answer(self, session_id: int) -> None:
        """The leader has answered, and calls the session so; 0 means that it keeps none."""
        if session_id == 0:
            self.reset()
        self._id = session_id

    def next_request(
        self, *, broker_id: int, broker_epoch: int, max_wait_ms: int, max_bytes: int, partition_max_bytes: int
    ) -> FetchRequest:
        """What is asked now. Whatever is named counts as told."""
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[
                FetchTopic("", topic_id, [self._asked(topic_id, index, partition_max_bytes) for index in indexes])
                for topic_id, indexes in _by_topic(self._to_name).items()
            ],
            forgotten_topics=[
                ForgottenTopic("", topic_id, indexes) for topic_id, indexes in _by_topic(self._to_forget).items()
            ],
            session_id=self._id,
            session_epoch=self._epoch,
            replica_id=broker_id,
            replica_epoch=broker_epoch,
        )
        self._to_name, self._to_forget = {}, {}
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return request

    def _asked(self, topic_id: bytes, index: int, max_bytes: int) -> FetchPartition:
        partition = self._partitions[topic_id, index]
        log = partition.log
        return FetchPartition(
            index,
            partition.leader_epoch,
            log.log_end_offset,
            log.epochs.latest,
            log.stored_start_offset,
            max_bytes,
            high_watermark=partition.high_watermark,
        )


def _by_topic(keys: dict[Key, None]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(topic_id, []).append(index)
    return found
