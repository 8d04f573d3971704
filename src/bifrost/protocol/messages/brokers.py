"""How nodes come and go: brokers and controllers register with the active controller (KIP-631, KIP-919)."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated, Final
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, I64, U16, Message, Struct, since, tag

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their numbers."""


class Listener(Struct):
    name: str
    host: str
    port: U16
    security_protocol: I16


class Feature(Struct):
    name: str
    min_supported_version: I16
    max_supported_version: I16


class BrokerRegistrationRequest(Message, api=ApiKey.BROKER_REGISTRATION, versions=range(5), flexible=0):
    """A broker that starts asks for an epoch of its own.

    v1 served the move away from ZooKeeper (KIP-866), v2 adds log directories (KIP-858), v3 the epoch that ended with a
    clean stop (KIP-966). v4 may list features whose lowest version is 0 (KAFKA-17011).
    """

    broker_id: I32
    cluster_id: str
    # New with every start: of two processes with one id, the second is refused while the first lives.
    incarnation_id: UUID
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None = None
    is_migrating_zk_broker: Annotated[bool, since(1)] = False
    log_dirs: Annotated[list[UUID], since(2)] = []
    previous_broker_epoch: Annotated[I64, since(3)] = -1


class BrokerRegistrationResponse(Message, api=ApiKey.BROKER_REGISTRATION, versions=range(5), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    broker_epoch: I64 = -1


class BrokerHeartbeatRequest(Message, api=ApiKey.BROKER_HEARTBEAT, versions=range(3), flexible=0):
    """A broker lives, and says what it wants. v1 reports failed directories (KIP-858), v2 cordoned ones (KIP-1066)."""

    broker_id: I32
    broker_epoch: I64 = -1
    # How far it has applied the metadata: one that is behind stays fenced.
    current_metadata_offset: I64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: Annotated[list[UUID], since(1), tag(0)] = []
    # Null: not known yet, which takes nothing back; empty: no directory is cordoned.
    cordoned_log_dirs: Annotated[list[UUID] | None, since(2), tag(1)] = None


class BrokerHeartbeatResponse(Message, api=ApiKey.BROKER_HEARTBEAT, versions=range(3), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class UnregisterBrokerRequest(Message, api=ApiKey.UNREGISTER_BROKER, versions=range(1), flexible=0):
    """Forgets a broker for good; an administrator asks for it once the node will not come back."""

    broker_id: I32


class UnregisterBrokerResponse(Message, api=ApiKey.UNREGISTER_BROKER, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None


class ControllerRegistrationRequest(Message, api=ApiKey.CONTROLLER_REGISTRATION, versions=range(1), flexible=0):
    """A controller tells the active one where it listens and what it can do (KIP-919)."""

    controller_id: I32
    incarnation_id: UUID
    zk_migration_ready: bool = False
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Message, api=ApiKey.CONTROLLER_REGISTRATION, versions=range(1), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None
