"""What a broker needs to belong to a cluster: ways to the controller, and a life that it can follow."""

from __future__ import annotations

from random import Random
from typing import Final

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.broker.lifecycle import BrokerLifecycle
from bifrost.broker.odin import Odin
from bifrost.broker.registry import answer_here
from bifrost.peers.transport import Transport
from bifrost.settings import Settings

_PATIENCE_MS: Final = 30_000
"""How long what a client asked may wait for an election, or for its commit; clients themselves wait a minute."""


def request_channel(odin: Odin, transport: Transport) -> ControllerChannel:
    """For what may take long, and for what clients ask of a node that does not lead the quorum."""
    return ControllerChannel(odin, transport, answer_here, patience_ms=_PATIENCE_MS, purpose="requests")


def replication_channel(settings: Settings, odin: Odin, transport: Transport) -> ControllerChannel:
    """For what acknowledgements wait for: who is in sync, and where replicas are. It waits behind no client."""
    return ControllerChannel(odin, transport, answer_here, patience_ms=_soon_ms(settings), purpose="replication")


def membership(
    settings: Settings, odin: Odin, transport: Transport, rng: Random
) -> tuple[ControllerChannel, BrokerLifecycle]:
    """The channel for heartbeats, and the lifecycle that beats on it."""
    heartbeats = ControllerChannel(
        odin,
        transport,
        answer_here,
        patience_ms=_soon_ms(settings),
        purpose="heartbeats",
    )
    lifecycle = BrokerLifecycle(
        odin,
        heartbeats,
        broker_id=settings.node_id,
        incarnation=rng.randbytes(16),
        session_timeout_ms=settings.broker_session_timeout_ms,
        directory_failure_timeout_ms=settings.log_dir_failure_timeout_ms,
    )
    return heartbeats, lifecycle


def _soon_ms(settings: Settings) -> int:
    """How long to wait for a controller before the connection is given up: one that is busy needs time, and behind it
    there has to be enough left of the session to be heard by another (KAFKA-14392)."""
    return max(settings.broker_session_timeout_ms // 2, 1)
