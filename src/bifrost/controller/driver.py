"""The active Odin: decide, append, wait until it is committed and applied, answer, for one group of requests at a time.

Requests that arrive while an append is on its way to the disks are decided together and share the next one. Each is
decided against the image as it will be once all before it are committed (`_ahead`); nobody else sees that image. What
readers and subscribers see changes only after the commit (`replica.py`). If an append fails, or somebody else leads by
now, the image ahead is dropped and made again from the committed one, so there is no undo anywhere.

This file decides nothing about metadata: the functions under `core/` do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from bifrost.controller.core import (
    brokers,
    cluster,
    config_changes,
    elect_leaders,
    partition_changes,
    partitions,
    producer_ids,
    reassignments,
    topics,
)
from bifrost.controller.core.decision import Charge, Decision, free_of_charge
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import MetadataRecord, encode_change, in_changes
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ApiError, DiskFullError, ErrorCode, OutcomeUnknownError, StorageError
from bifrost.raft.metadata_log import MetadataLog
from bifrost.settings import Settings

_APPEND_BYTES_MAX = 1 << 18  # a group stops growing here, so that the loop gets a turn between two
_CHANGE_BYTES_MAX = 4 << 20  # of one request; with a group before it still less than the smallest metadata segment
_TURN_BYTES: Final = 16 << 10
"""So much is decided and applied ahead before others get a turn: some hundred partitions, a few milliseconds."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class _Waiting:
    """A request that has not been decided."""

    decide: Callable[[MetadataImage], Decision[Any]]
    answer: asyncio.Future[Any]
    read: Callable[[MetadataImage], Any] | None = None


class _Group:
    """Requests that are decided and share an append."""

    __slots__ = ("answers", "values")

    def __init__(self) -> None:
        self.values: list[bytes] = []  # the changes, encoded
        self.answers: list[tuple[asyncio.Future[Any], Any]] = []  # to whom, and what: a result or an ApiError

    def release(self) -> None:
        for answer, outcome in self.answers:
            if isinstance(outcome, ApiError):
                _refuse(answer, outcome)
            elif not answer.done():
                answer.set_result(outcome)

    def refuse(self, reason: ApiError) -> None:
        for answer, _ in self.answers:
            _refuse(answer, reason)


class Controller:
    """The metadata of the cluster, and the only way to change it: while this node leads the quorum, and not before or
    after."""

    def __init__(
        self,
        log: MetadataLog,
        replica: MetadataReplica,
        settings: Settings,
        rng: Random,
        *,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._metadata_log = log
        self._replica = replica
        self._settings = settings
        self._rng = rng
        self._on_failure = on_failure
        self._ahead = MetadataImage()
        self._is_deciding = False  # then the image ahead may be halfway through a change
        self._waiting: deque[_Waiting] = deque()
        self._wakeup = asyncio.Event()
        self._epoch: int | None = None
        self._stopped: ApiError | None = None

    @property
    def image(self) -> MetadataImage:
        """What is committed. Read it between two awaits; keep no reference to its parts."""
        return self._replica.image

    @property
    def is_active(self) -> bool:
        return self._epoch is not None and self._stopped is None

    def is_active_in(self, epoch: int) -> bool:
        return self._epoch == epoch

    def activate(self, epoch: int) -> None:
        """This node leads the quorum in `epoch`, and everything from before it is applied."""
        _log.info("controller active epoch=%d offset=%d", epoch, self.image.offset)
        self._epoch = epoch
        self._ahead = self.image.copy()

    def deactivate(self) -> None:
        """Somebody else leads, or nobody."""
        if self._epoch is not None:
            _log.info("controller not active any more epoch=%d", self._epoch)
            self._epoch = None
            self._refuse_waiting(_not_active())

    async def run(self) -> None:
        """Work until `close`, or until the log fails."""
        try:
            while self._stopped is None:
                if self._waiting:
                    await self._commit_group()
                else:
                    self._wakeup.clear()
                    await self._wakeup.wait()
        finally:
            self._stop(ApiError(ErrorCode.NOT_CONTROLLER, "the controller has stopped"))

    def close(self) -> None:
        """Take no more requests; those that wait are refused, one that is being appended is finished."""
        self._stop(ApiError(ErrorCode.NOT_CONTROLLER, "the controller has stopped"))

    async def submit(self, decide: Callable[[MetadataImage], Decision[T]]) -> T:
        """The result of a decision, once it and everything before it are committed and applied.

        `decide` must not change the image it is given; an ApiError that it raises is the answer.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue(_Waiting(decide, answer))
        return await answer

    async def submit_and_read(
        self, decide: Callable[[MetadataImage], Decision[Any]], read: Callable[[MetadataImage], T]
    ) -> T:
        """The same, with an answer that only the image tells: `read` from it when this decision was the last in it.

        Once committed, it may hold others that shared the append.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue(_Waiting(decide, answer, read))
        return await answer

    def answer_now(self, decide: Callable[[MetadataImage], Decision[T]]) -> T | None:
        """The result of a decision that changes nothing, whether what is under way is committed or not; else None."""
        try:
            now, ahead = decide(self.image), decide(self._ahead)
        except ApiError:
            return None
        return None if self._is_deciding or now.records or ahead.records or now.result != ahead.result else now.result

    def _queue(self, waiting: _Waiting) -> None:
        if self._stopped is not None:
            raise ApiError(self._stopped.code, self._stopped.detail)
        if self._epoch is None:
            raise _not_active()
        if len(self._waiting) >= self._settings.controller_max_pending_requests:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many changes wait for the controller; try again")
        self._waiting.append(waiting)
        self._wakeup.set()

    async def open_cluster(self, cluster_id: str) -> None:
        """Give a new cluster this id; ApiError if it already has another."""
        await self.submit(lambda image: cluster.open_cluster(image, cluster_id))

    async def create_topics(
        self, wanted: Sequence[topics.NewTopic], *, validate_only: bool = False, charge: Charge = free_of_charge
    ) -> list[topics.CreatedTopic]:
        """One answer for each topic name; ApiError if the request as a whole is refused."""
        topic_ids = [new_topic_id(self._rng, self.image.topics_by_id) for _ in wanted]
        return await self.submit(
            lambda image: topics.create_topics(
                image, self._settings, wanted, topic_ids=topic_ids, validate_only=validate_only, charge=charge
            )
        )

    async def delete_topics(
        self, refs: Sequence[topics.TopicRef], *, charge: Charge = free_of_charge
    ) -> list[topics.DeletedTopic]:
        """One answer for each topic; ApiError if topics cannot be deleted at all."""
        return await self.submit(lambda image: topics.delete_topics(image, self._settings, refs, charge=charge))

    async def create_partitions(
        self,
        wanted: Sequence[partitions.MorePartitions],
        *,
        validate_only: bool = False,
        charge: Charge = free_of_charge,
    ) -> list[partitions.PartitionsResult]:
        """One answer for each topic name; ApiError if the request as a whole is refused."""
        return await self.submit(
            lambda image: partitions.create_partitions(image, wanted, validate_only=validate_only, charge=charge)
        )

    async def alter_configs(
        self,
        wanted: Sequence[config_changes.ResourceChange],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> list[config_changes.AlteredResource]:
        """One answer for each resource, in order."""
        return await self.submit(
            lambda image: config_changes.alter_configs(
                image, self._settings, wanted, replace=replace, validate_only=validate_only
            )
        )

    async def alter_partitions(
        self, wanted: Sequence[partition_changes.TopicIsrChanges], *, broker_id: int, broker_epoch: int
    ) -> list[partition_changes.ChangedTopic]:
        """Let a leader change the ISRs of its partitions."""
        return await self.submit(
            lambda image: partition_changes.alter_partitions(
                image, wanted, broker_id=broker_id, broker_epoch=broker_epoch
            )
        )

    async def alter_reassignments(
        self, wanted: Sequence[reassignments.TopicMoves], *, allow_replication_factor_change: bool
    ) -> list[reassignments.TopicMoveResults]:
        """Begin moves of replicas, or give them up; one answer for each partition."""
        return await self.submit(
            lambda image: reassignments.alter_reassignments(
                image, self._settings, wanted, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    async def list_reassignments(self, wanted: Mapping[str, Sequence[int]] | None) -> list[reassignments.MovingTopic]:
        """The moves under way."""
        return await self.submit(lambda image: reassignments.list_reassignments(image, wanted))

    async def elect_leaders(
        self, election_type: int, wanted: Sequence[tuple[str, int]] | None, log_ends: elect_leaders.LogEnds
    ) -> list[elect_leaders.ElectionResult]:
        """One answer for each partition that is named, or that needs an election."""
        return await self.submit(
            lambda image: elect_leaders.elect_leaders(image, election_type, wanted, log_ends=log_ends)
        )

    async def rebalance_leaders(self, *, elections_max: int) -> bool:
        """Bring leaders home; whether there are more."""
        return await self.submit(
            lambda image: elect_leaders.rebalance_leaders(image, imbalance_percentage=0, elections_max=elections_max)
        )

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker for good."""
        await self.submit(lambda image: brokers.unregister_broker(image, broker_id))

    async def allocate_producer_ids(self, *, broker_id: int, broker_epoch: int) -> range:
        """A block of ids that nobody else will ever get."""
        return await self.submit(
            lambda image: producer_ids.allocate_producer_ids(image, broker_id=broker_id, broker_epoch=broker_epoch)
        )

    async def _commit_group(self) -> None:
        """Decide what waits, append it at once, then apply, publish and answer."""
        group = _Group()
        try:
            self._is_deciding = True
            is_decided = await self._decide(group)
            self._is_deciding = False
            if is_decided and (not group.values or await self._commit(group)):
                group.release()
        finally:
            self._is_deciding = False
            # Still unanswered: cancelled, or a bug on its way up. The change may be committed; the caller asks again.
            group.refuse(OutcomeUnknownError(ErrorCode.NOT_CONTROLLER, "the controller has stopped"))

    async def _decide(self, group: _Group) -> bool:
        """Decide what waits; False, with everybody refused, if this node leads no more before that is done."""
        ahead, offset = self._ahead, self._metadata_log.end_offset
        delta = Delta()  # of no interest: the image ahead has no subscribers
        size = turn_bytes = 0
        while self._waiting and size < _APPEND_BYTES_MAX:
            waiting = self._waiting[0]  # where `_stop` finds it if the decision turns out to be a bug
            if waiting.answer.done():  # its caller has gone
                self._waiting.popleft()
                continue
            changes: list[tuple[bytes, Sequence[MetadataRecord]]] = []
            try:
                decision = waiting.decide(ahead)
                if decision.records:
                    changes = _encode(decision.records)
            except ApiError as error:
                decision = Decision((), error)
            self._waiting.popleft()
            group.answers.append((waiting.answer, decision.result))
            for value, records in changes:
                for record in records:
                    ahead.apply(record, offset + len(group.values), delta)
                group.values.append(value)
                size += len(value)
                turn_bytes += len(value)
                if turn_bytes >= _TURN_BYTES:
                    turn_bytes = 0
                    await asyncio.sleep(0)
                    if self._ahead is not ahead or self._epoch is None:  # what it will be is decided elsewhere now
                        group.refuse(_not_active())
                        return False
            if waiting.read is not None and not isinstance(decision.result, ApiError):
                group.answers[-1] = (waiting.answer, waiting.read(ahead))
        return True

    async def _commit(self, group: _Group) -> bool:
        """Append what was decided; False, with everybody refused, if the log did not take it."""
        epoch, expected = self._epoch, self._metadata_log.end_offset
        if epoch is None:
            group.refuse(_not_active())
            return False
        try:
            first_offset = await self._metadata_log.append(group.values, epoch)
        except ApiError as error:
            group.refuse(OutcomeUnknownError(error.code, error.detail))
            self._forget_ahead(epoch)
            return False
        except DiskFullError as error:
            _log.warning("metadata append refused reason=disk-full path=%s", error.path)
            group.refuse(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of the metadata log is full"))
            self._forget_ahead(epoch)
            return False
        except StorageError as error:
            _log.error("metadata log failed path=%s detail=%s", error.path, error.detail)
            group.refuse(self._stop(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata log has failed")))
            self._on_failure(error)
            return False
        assert first_offset == expected, f"changes decided for offset {expected} were stored at {first_offset}"
        return True

    def _forget_ahead(self, epoch: int) -> None:
        """What was decided will not come, at least not from here."""
        if self._epoch == epoch:
            self._ahead = self.image.copy()

    def _refuse_waiting(self, reason: ApiError) -> None:
        for waiting in self._waiting:
            _refuse(waiting.answer, reason)
        self._waiting.clear()

    def _stop(self, reason: ApiError) -> ApiError:
        """Refuse whatever waits and whatever comes, with the first reason there was."""
        if self._stopped is None:
            self._stopped = reason
        self._refuse_waiting(self._stopped)
        self._wakeup.set()
        return self._stopped


def new_topic_id(rng: Random, taken: Container[bytes]) -> bytes:
    """A random UUID whose text form does not start with a dash, which command lines take for an option."""
    while True:
        number = rng.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        topic_id = number.to_bytes(16, "big")
        if number >> 122 != 62 and topic_id not in taken:  # a generator may have been seeded alike before a restart
            return topic_id


def _encode(records: Sequence[MetadataRecord]) -> list[tuple[bytes, Sequence[MetadataRecord]]]:
    """What is to be appended, all of it or nothing, and what each value says."""
    changes = [(encode_change(part), part) for part in in_changes(records)]
    size = sum(len(value) for value, _ in changes)
    if size > _CHANGE_BYTES_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request changes too much at once: {size} bytes of metadata, {_CHANGE_BYTES_MAX} are allowed",
        )
    return changes


def _refuse(answer: asyncio.Future[Any], reason: ApiError) -> None:
    if not answer.done():
        answer.set_exception(type(reason)(reason.code, reason.detail))


def _not_active() -> ApiError:
    return ApiError(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum")
