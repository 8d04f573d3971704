"""Requests and responses as Kafka 4.3 declares them, found by their API key.

Produce and Fetch are not here: the hot path has codecs of its own. The modules are imported when their first message is
asked for, so that a process pays only for what it speaks.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import Message

AUTHORIZED_OPERATIONS_OMITTED: Final = -(1 << 31)
"""Stands in the bit fields of permitted operations when nobody asked for them (KIP-430)."""

_MODULES: Final[dict[int, str]] = {
    ApiKey.API_VERSIONS: "cluster",
    ApiKey.METADATA: "cluster",
    ApiKey.DESCRIBE_CLUSTER: "cluster",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "cluster",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "topics",
    ApiKey.CREATE_PARTITIONS: "topics",
    ApiKey.DESCRIBE_CONFIGS: "configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "log_dirs",
    ApiKey.ALTER_CONFIGS: "legacy_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs",
    ApiKey.LIST_CONFIG_RESOURCES: "configs",
    ApiKey.LIST_OFFSETS: "log_offsets",
    ApiKey.DELETE_RECORDS: "deletions",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "log_offsets",
    ApiKey.INIT_PRODUCER_ID: "producers",
    ApiKey.ALLOCATE_PRODUCER_IDS: "producers",
    ApiKey.DESCRIBE_PRODUCERS: "producers",
    ApiKey.SASL_HANDSHAKE: "sasl",
    ApiKey.SASL_AUTHENTICATE: "sasl",
    ApiKey.FIND_COORDINATOR: "groups",
    ApiKey.JOIN_GROUP: "groups",
    ApiKey.SYNC_GROUP: "groups",
    ApiKey.HEARTBEAT: "groups",
    ApiKey.LEAVE_GROUP: "groups",
    ApiKey.OFFSET_COMMIT: "group_offsets",
    ApiKey.OFFSET_FETCH: "group_offsets",
    ApiKey.OFFSET_DELETE: "group_offsets",
    ApiKey.DESCRIBE_GROUPS: "group_admin",
    ApiKey.LIST_GROUPS: "group_admin",
    ApiKey.DELETE_GROUPS: "group_admin",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_admin",
    ApiKey.VOTE: "quorum",
    ApiKey.BEGIN_QUORUM_EPOCH: "quorum",
    ApiKey.END_QUORUM_EPOCH: "quorum",
    ApiKey.DESCRIBE_QUORUM: "quorum",
    ApiKey.FETCH_SNAPSHOT: "quorum",
    ApiKey.ADD_RAFT_VOTER: "voters",
    ApiKey.REMOVE_RAFT_VOTER: "voters",
    ApiKey.UPDATE_RAFT_VOTER: "voters",
    ApiKey.BROKER_REGISTRATION: "brokers",
    ApiKey.BROKER_HEARTBEAT: "brokers",
    ApiKey.UNREGISTER_BROKER: "brokers",
    ApiKey.CONTROLLER_REGISTRATION: "brokers",
    ApiKey.ALTER_PARTITION: "replicas",
    ApiKey.ELECT_LEADERS: "replicas",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "replicas",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "replicas",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "replicas",
    ApiKey.UPDATE_FEATURES: "features",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "quotas",
    ApiKey.ENVELOPE: "envelopes",
}

DECLARED: Final = frozenset(_MODULES)
"""The keys that `request_class` and `response_class` know."""


@cache
def request_class(api_key: int) -> type[Message]:
    """The class of an API's requests; KeyError if it is not declared here."""
    return _find(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """The class of an API's responses; KeyError if it is not declared here."""
    return _find(api_key, "Response")


def _find(api_key: int, direction: str) -> type[Message]:
    module = import_module(f"{__name__}.{_MODULES[api_key]}")
    found: type[Message] = getattr(module, ApiKey(api_key).name.title().replace("_", "") + direction)
    return found
