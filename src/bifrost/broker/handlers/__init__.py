"""The APIs, one file per state that they touch. Importing this package registers every one of them."""

from bifrost.broker.handlers import (
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
    topics,
)

__all__ = [
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
    "topics",
]
