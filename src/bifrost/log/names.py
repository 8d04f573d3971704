"""Names on disk, as Kafka has them: what a file or directory is can be told from its name alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from bifrost.types import TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

DELETED_DIRECTORY: Final = "-delete"
STRAY_DIRECTORY: Final = "-stray"
FUTURE_DIRECTORY: Final = "-future"
METADATA_TOPIC: Final = "__cluster_metadata"
EPOCHS_FILE: Final = "leader-epoch-checkpoint"
METADATA_FILE: Final = "partition.metadata"

_DIGITS: Final = 20
_NAME_BYTES_MAX: Final = 255
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FUTURE_DIRECTORY = re.compile(r"(.+)\.[0-9a-f]{32}-future")
_PARTITION_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """The file of one segment, for example `/data/orders-0/00000000000000000042.log`."""
    return f"{directory}/{base_offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in the name of a segment's file, if it is one of that suffix."""
    digits = name[:_DIGITS]
    return int(digits) if name[_DIGITS:] == suffix and digits.isdecimal() and digits.isascii() else None


def partition_directory(partition: TopicPartition) -> str:
    """The directory's name. Names are checked where they come from clients; a bad one here is our own bug."""
    assert _TOPIC.fullmatch(partition.topic), partition
    assert partition.topic not in (".", ".."), partition
    assert partition.partition >= 0, partition
    return str(partition)


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None for anything else that lies in a log directory."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or match[1] in (".", ".."):
        return None
    return TopicPartition(match[1], int(match[2]))


class Found(NamedTuple):
    """What lies in a log directory, by what its names say."""

    partitions: list[TopicPartition]
    deleted: list[str]
    """Partitions whose deletion was not finished."""
    strays: list[str]
    futures: dict[TopicPartition, str]
    """Copies of logs that are in other directories; they were not finished."""


def sort_out(names: Iterable[str]) -> Found:
    """The names of a log directory's own directories, those that say something. The metadata log is not the manager's:
    it lies there like a topic, but the quorum opens it."""
    found = Found([], [], [], {})
    for name in names:
        partition, future = partition_of(name), future_of(name)
        if name.endswith(DELETED_DIRECTORY):
            found.deleted.append(name)
        elif name.endswith(STRAY_DIRECTORY):
            found.strays.append(name)
        elif future is not None:
            found.futures[future] = name
        elif partition is not None and partition.topic != METADATA_TOPIC:
            found.partitions.append(partition)
    return found


def deleted_directory(partition: TopicPartition, unique_hex: str) -> str:
    """What a deleted partition's directory is called until it is gone."""
    return _renamed(partition, unique_hex, DELETED_DIRECTORY)


def stray_directory(partition: TopicPartition, unique_hex: str) -> str:
    """What the directory of a partition is called that the metadata does not know."""
    return _renamed(partition, unique_hex, STRAY_DIRECTORY)


def future_directory(partition: TopicPartition, unique_hex: str) -> str:
    """What the directory is called in which a copy of a log is made that will take its place (KIP-113)."""
    return _renamed(partition, unique_hex, FUTURE_DIRECTORY)


def future_of(name: str) -> TopicPartition | None:
    """The partition that such a directory is of; None for anything else."""
    match = _FUTURE_DIRECTORY.fullmatch(name)
    return None if match is None else partition_of(match[1])


def _renamed(partition: TopicPartition, unique_hex: str, suffix: str) -> str:
    """Cut so that any file system takes it."""
    rest = f"-{partition.partition}.{unique_hex}{suffix}"
    return partition.topic[: _NAME_BYTES_MAX - len(rest)] + rest
