"""Which offsets of which partitions are meant: from offsets, times, or words, to numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

from bifrost.client.errors import InvalidRequestError, OffsetOutOfRangeError, UnknownPartitionError
from bifrost.client.wire import EARLIEST, LATEST, WireClient

Edge: TypeAlias = int | datetime | Literal["earliest", "latest"]
"""An offset, the first record at or after a time, or one of the ends of the log."""

Place: TypeAlias = Edge | Mapping[int, Edge]
"""One edge for all partitions, or one for each that it names."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


def chosen_partitions(client: WireClient, topic: str, asked: Iterable[int] | None) -> list[int]:
    """The partitions to read: all, or those that were asked for, which must exist."""
    existing = client.partitions(topic)
    if asked is None:
        return existing
    wanted = sorted(set(asked))
    for partition in wanted:
        if partition not in existing:
            raise UnknownPartitionError(
                f"partition {partition} of topic {topic} does not exist", f"It has {len(existing)}, counted from 0."
            )
    if not wanted:
        raise InvalidRequestError("no partition is asked for", "Leave `partitions` out to read them all.")
    return wanted


def resolve(
    client: WireClient, topic: str, partitions: list[int], start: Place, end: Place, isolation: str
) -> dict[int, tuple[int, int]]:
    """First offset and the one behind the last, by partition. An `end` behind the log's end is the log's end.

    A start that the log does not reach, or no longer, is `OffsetOutOfRangeError`: what was asked for is not all there.
    Only of one offset for all partitions nobody expects that each of them reaches so far.
    """
    earliest = _look_up(client, topic, dict.fromkeys(partitions, EARLIEST), isolation)
    latest = _look_up(client, topic, dict.fromkeys(partitions, LATEST), isolation)
    starts = _offsets(client, topic, partitions, start, "start", "earliest", isolation, latest)
    ends = _offsets(client, topic, partitions, end, "end", "latest", isolation, latest)
    found = {}
    for partition in partitions:
        first, last = starts[partition], min(ends[partition], latest[partition])
        if not isinstance(start, Mapping):
            first = min(first, latest[partition])
        if not earliest[partition] <= first <= latest[partition]:
            raise OffsetOutOfRangeError(topic, partition, first, earliest=earliest[partition], latest=latest[partition])
        found[partition] = first, max(first, last)
    return found


def _offsets(
    client: WireClient,
    topic: str,
    partitions: list[int],
    place: Place,
    name: str,
    otherwise: Edge,
    isolation: str,
    latest: Mapping[int, int],
) -> dict[int, int]:
    edges = place if isinstance(place, Mapping) else dict.fromkeys(partitions, place)
    if unknown := set(edges) - set(partitions):
        raise UnknownPartitionError(
            f"{name} names partition {min(unknown)} of topic {topic}, which is not read", "Name only those that are."
        )
    found: dict[int, int] = {}
    asked: dict[int, int] = {}
    for partition in partitions:
        edge = edges.get(partition, otherwise)
        if isinstance(edge, datetime):
            asked[partition] = _milliseconds(edge, name)
        elif isinstance(edge, str) and edge in _WORDS:
            asked[partition] = _WORDS[edge]
        elif isinstance(edge, int) and not isinstance(edge, bool) and edge >= 0:
            found[partition] = edge
        else:
            raise InvalidRequestError(
                f"{name}={edge!r} is no place in a topic",
                "Use earliest, latest, an offset from 0 on, or an aware datetime; or one of these by partition.",
            )
    answers = _look_up(client, topic, asked, isolation, latest)
    return found | answers


def _look_up(
    client: WireClient,
    topic: str,
    asked: Mapping[int, int],
    isolation: str,
    otherwise: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Offsets by partition; where every record is older than a time, the end of the log."""
    if not asked:
        return {}
    answers = client.list_offsets({(topic, partition): which for partition, which in asked.items()}, isolation)
    return {
        partition: answer.offset if answer is not None else (otherwise or {})[partition]
        for (_, partition), answer in answers.items()
    }


def _milliseconds(time: datetime, name: str) -> int:
    if time.tzinfo is None:
        raise InvalidRequestError(
            f"{name} is a time without a time zone", "Make it an aware one, such as datetime.now(UTC)."
        )
    # A record's time has milliseconds: the first that is not older than a moment between two of them has the later one.
    return -((_EPOCH - time) // timedelta(milliseconds=1))
