"""Which brokers live, and what a heartbeat leads to.

`BrokerSessions` is what the active controller remembers between heartbeats. It is not in the log: a controller that
takes over gives every broker a new session (`on_takeover`). It knows no clock, and it decides nothing; who is fenced is
decided from the image, like everything else (Kafka: BrokerHeartbeatManager).

A broker that was fenced takes part again once it has seen that, and with it who leads now what it led: a process that
was paused and wakes must not go on as if nothing had happened.

A broker that wants to stop first gives its leaderships away, while it still answers. It may go once every active broker
has seen that: until then clients may be sent to it (KIP-631).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from bifrost.controller.core.brokers import check_registered
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.directories import directories_fail
from bifrost.controller.core.elections import broker_leaves, broker_returns
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import (
    ASKED,
    LEFT,
    SILENT,
    BrokerFenced,
    BrokerShuttingDown,
    BrokerUnfenced,
    MetadataRecord,
)
from bifrost.controller.core.state import Broker

NOTHING_SEEN: Final = -1
_AT_ONCE: Final = -(1 << 62)  # before any moment of any clock


class BrokerStart(NamedTuple):
    """One start of a broker."""

    broker_id: int
    epoch: int


@dataclass(slots=True)
class _Session:
    ends_ms: int
    metadata_offset: int
    lost_ms: int | None = None
    """When it would have ended, had its connection not."""


class BrokerSessions:
    """When each broker was last heard of, and how much metadata it had then.

    The driver tells of heartbeats once it has checked their epoch, asks at `deadline_ms` who has `expired`, fences
    these, and forgets them when that is committed: until then they are named again.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._sessions: dict[BrokerStart, _Session] = {}

    @property
    def metadata_offsets(self) -> dict[BrokerStart, int]:
        """How far each broker has followed the metadata log, by its own account."""
        return {start: session.metadata_offset for start, session in self._sessions.items()}

    def on_takeover(self, image: MetadataImage, now_ms: int) -> None:
        """This controller is the active one from now on: brokers have a whole session to find it.

        Those that are fenced lose nothing by not having one (KAFKA-19130).
        """
        self._sessions = {
            BrokerStart(broker.broker_id, broker.epoch): _Session(now_ms + self._timeout_ms, NOTHING_SEEN)
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def on_registered(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """A start of a broker was committed; earlier ones are over."""
        for start in [start for start in self._sessions if start.broker_id == broker_id]:
            if start.epoch > epoch:
                return
            if start.epoch < epoch:
                del self._sessions[start]
        session = _Session(now_ms + self._timeout_ms, NOTHING_SEEN)
        self._sessions.setdefault(BrokerStart(broker_id, epoch), session)

    def on_heartbeat(self, broker_id: int, epoch: int, now_ms: int, *, metadata_offset: int) -> None:
        """A broker was heard of, whose epoch is the registered one."""
        self._sessions[BrokerStart(broker_id, epoch)] = _Session(now_ms + self._timeout_ms, metadata_offset)

    def unheard(self) -> list[BrokerStart]:
        """The brokers that have a session only because this controller took over: they may have died before."""
        return [start for start, session in self._sessions.items() if session.metadata_offset == NOTHING_SEEN]

    def on_connection_lost(self, broker_id: int, epoch: int) -> None:
        """The broker's connection ended without a word, as when its process dies: its session is over at once, and if
        it had none, it is named all the same."""
        session = self._sessions.setdefault(BrokerStart(broker_id, epoch), _Session(_AT_ONCE, NOTHING_SEEN))
        session.lost_ms, session.ends_ms = session.ends_ms, _AT_ONCE

    def has_lost_connection(self, broker_id: int, epoch: int) -> bool:
        """Whether it was not heard of since."""
        session = self._sessions.get(BrokerStart(broker_id, epoch))
        return session is not None and session.lost_ms is not None

    def on_still_there(self, broker_id: int, epoch: int, now_ms: int, *, grace_ms: int) -> bool:
        """Somebody listens where the broker did whose connection ended: if that was it, it says so on another, within
        what is left of its session. False if it had that chance before."""
        session = self._sessions.get(BrokerStart(broker_id, epoch))
        if session is None or session.lost_ms is None or session.ends_ms != _AT_ONCE:
            return False
        session.ends_ms = min(session.lost_ms, now_ms + grace_ms)
        return session.ends_ms > now_ms

    def on_own_pause(self, now_ms: int) -> None:
        """This controller itself has not run for a while: what brokers said meanwhile lies unread, so whoever is late
        has a whole session more."""
        for session in self._sessions.values():
            if _AT_ONCE < session.ends_ms <= now_ms:
                session.ends_ms = now_ms + self._timeout_ms

    def forget(self, broker_id: int, epoch: int) -> None:
        """The broker is fenced, or gone: nothing is expected of it."""
        self._sessions.pop(BrokerStart(broker_id, epoch), None)

    def is_alive(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this start of the broker was heard of within its session, on a connection that has not ended."""
        session = self._sessions.get(BrokerStart(broker_id, epoch))
        return session is not None and session.lost_ms is None and now_ms < session.ends_ms

    def deadline_ms(self) -> int | None:
        """When the next session ends; None if there is none."""
        return min((session.ends_ms for session in self._sessions.values()), default=None)

    def expired(self, now_ms: int) -> list[BrokerStart]:
        """The brokers whose session is over, longest silent first."""
        ended = [(session.ends_ms, start) for start, session in self._sessions.items() if session.ends_ms <= now_ms]
        return [start for _, start in sorted(ended)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a broker says every few seconds."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int  # of the last change that it has applied
    want_fence: bool = False
    want_shut_down: bool = False
    failed_directories: tuple[bytes, ...] = ()  # since it started


class HeartbeatAnswer(NamedTuple):
    """What it is told."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def heartbeat(
    image: MetadataImage, asked: Heartbeat, metadata_offsets: Mapping[BrokerStart, int]
) -> Decision[HeartbeatAnswer]:
    """Fence, unfence or send home the broker, or do nothing (Kafka: calculateNextBrokerState).

    `metadata_offsets` is how far each broker has followed the log; one that has not said so has seen nothing.
    """
    broker = check_registered(image, broker_id=asked.broker_id, broker_epoch=asked.broker_epoch)
    caught_up = asked.metadata_offset >= max(broker.epoch, broker.fenced_at)
    records = directories_fail(image, broker, asked.failed_directories)
    fenced, go = broker.fenced, False
    if records:  # whatever else it wants is decided when this has happened, by what it says next
        return Decision(records, HeartbeatAnswer(caught_up, fenced, go))
    if broker.fenced:
        go = asked.want_shut_down
        if caught_up and not asked.want_fence and not asked.want_shut_down:
            records = [BrokerUnfenced(broker.broker_id), *broker_returns(image, broker.broker_id)]
            fenced = False
    elif broker.shutting_down:
        go = _may_go(image, broker, metadata_offsets)
    elif asked.want_fence:
        fenced, go = True, asked.want_shut_down
    elif asked.want_shut_down:
        if image.index.led(broker.broker_id):
            records = [BrokerShuttingDown(broker.broker_id), *broker_leaves(image, broker.broker_id)]
        else:
            go = True  # no client looks for it
    if not broker.fenced and (fenced or go):
        fenced = True
        records = _fence(image, broker.broker_id, LEFT if go else ASKED)
    return Decision(records, HeartbeatAnswer(caught_up, fenced, go))


def fence_broker(image: MetadataImage, broker_id: int, broker_epoch: int, reason: int = SILENT) -> Decision[bool]:
    """Fence a broker that was not heard of; False if there is nothing to fence, or another start of it by now."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Decision((), False)
    return Decision(_fence(image, broker_id, reason), True)


def _fence(image: MetadataImage, broker_id: int, reason: int) -> list[MetadataRecord]:
    return [*broker_leaves(image, broker_id), BrokerFenced(broker_id, reason)]


def _may_go(image: MetadataImage, leaving: Broker, metadata_offsets: Mapping[BrokerStart, int]) -> bool:
    """Whether it leads nothing, and every active broker has seen that."""
    return not image.index.led(leaving.broker_id) and all(
        metadata_offsets.get(BrokerStart(broker.broker_id, broker.epoch), NOTHING_SEEN) >= leaving.shutdown_offset
        for broker in image.brokers.values()
        if broker.active
    )
