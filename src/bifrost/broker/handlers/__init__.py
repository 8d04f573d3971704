"""The APIs, one file per state that they touch. Importing this package registers every one of them."""

from bifrost.broker.handlers import (
    brokers,
    cluster,
    configs,
    consumer_groups,
    coordinators,
    fetch,
    group_admin,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    produce,
    producers,
    quorum,
    topics,
)

__all__ = [
    "brokers",
    "cluster",
    "configs",
    "consumer_groups",
    "coordinators",
    "fetch",
    "group_admin",
    "group_offsets",
    "groups",
    "log_dirs",
    "metadata",
    "offsets",
    "produce",
    "producers",
    "quorum",
    "topics",
]
