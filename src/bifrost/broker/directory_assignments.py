"""Tells the controller in which of its log directories this broker keeps which replica (KIP-858).

Only so can a directory fail alone: the controller then knows whose leaders and ISRs have to change. What the metadata
says already is not told again, and what has changed meanwhile is told as it is when its turn comes. One request is
under way at a time, and whatever is not answered is told again. A replica whose directory fails before its controller
has heard of it is told like any other: that is how the controller learns whose replica was in it. Kafka:
AssignmentsManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final
from uuid import UUID

from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.replicas import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

_log = logging.getLogger(__name__)

_AT_ONCE_MAX: Final = 2_250
"""Replicas in one request, as in Kafka: a frame of some ten kilobytes."""
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 10.0

_Replica = tuple[bytes, int]
"""Topic id and partition."""

Ask = Callable[[AssignReplicasToDirsRequest], Awaitable[AssignReplicasToDirsResponse]]
"""Asks the active controller, wherever it is; ApiError if there is no answer, or if it refuses the whole."""


class DirectoryAssignments:
    """What one broker has to tell."""

    def __init__(self, ask: Ask, *, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._ask = ask
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[_Replica, bytes] = {}
        self._something_waits = asyncio.Event()
        self._stopped = False

    def __len__(self) -> int:
        """Replicas that have yet to be told of."""
        return len(self._waiting)

    def note(self, topic_id: bytes, partition: int, *, actual: bytes, known: bytes) -> None:
        """The replica is in the directory `actual`, and the metadata says that it is in `known`."""
        if actual == known:
            self.forget(topic_id, partition)
        elif self._waiting.get((topic_id, partition)) != actual:
            self._waiting[topic_id, partition] = actual
            self._something_waits.set()

    def forget(self, topic_id: bytes, partition: int) -> None:
        """There is nothing to tell of this replica any more."""
        self._waiting.pop((topic_id, partition), None)

    async def run(self) -> None:
        """Tell, until `close`."""
        pause_s = _PAUSE_S
        while not self._stopped:
            self._something_waits.clear()
            told = dict(islice(self._waiting.items(), _AT_ONCE_MAX))
            if not told:
                await self._something_waits.wait()
                continue
            try:
                answer = await self._ask(self._request(told))
            except ApiError as error:
                _log.warning("directories not told error=%s detail=%r", error.code.name, error.detail)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
                continue
            pause_s = _PAUSE_S
            self._on_answer(told, answer)

    def close(self) -> None:
        self._stopped = True
        self._something_waits.set()

    def _request(self, told: dict[_Replica, bytes]) -> AssignReplicasToDirsRequest:
        directories: dict[bytes, dict[bytes, AssignedTopic]] = {}
        for (topic_id, partition), directory in told.items():
            topics = directories.setdefault(directory, {})
            if topic_id not in topics:
                topics[topic_id] = AssignedTopic(topic_id=UUID(bytes=topic_id), partitions=[])
            topics[topic_id].partitions.append(AssignedPartition(partition_index=partition))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                AssignedDirectory(id=UUID(bytes=directory), topics=[*topics.values()])
                for directory, topics in directories.items()
            ],
        )

    def _on_answer(self, told: dict[_Replica, bytes], answer: AssignReplicasToDirsResponse) -> None:
        """What was answered is done with, also where the answer is no: then the metadata is about to tell why."""
        for directory in answer.directories:
            for topic in directory.topics:
                for one in topic.partitions:
                    replica = (topic.topic_id.bytes, one.partition_index)
                    if one.error_code != ErrorCode.NONE:
                        code = ErrorCode(one.error_code).name
                        _log.info("directory not taken in topic=%s-%d error=%s", topic.topic_id, replica[1], code)
                    if self._waiting.get(replica) == told.get(replica):  # else it has moved on meanwhile
                        self._waiting.pop(replica, None)
