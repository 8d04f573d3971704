"""Where reading starts and ends, as the program said it: not yet resolved to offsets, which takes a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from bifrost.spark.failures import OptionError
from bifrost.spark.offsets import EARLIEST, LATEST, Offsets, parse_offsets, parse_timestamps
from bifrost.spark.option_values import OptionValues


@dataclass(frozen=True, slots=True)
class AtEdge:
    """Where each partition begins or ends."""

    edge: int
    """EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At an offset of its own for each partition; LATEST and EARLIEST may be among them."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """At the first record of each partition that is not older."""

    timestamp_ms: int
    or_latest: bool
    """What becomes of a partition that has no such record: it is read from its end on, or the query fails."""


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The same with a time of its own for each partition."""

    timestamps_ms: Offsets
    or_latest: bool


Limit: TypeAlias = AtEdge | AtOffsets | AtTimestamp | AtTimestamps

_STRATEGIES: Final = ("error", "latest")


def start_limit(options: OptionValues, *, default: int) -> Limit:
    """Where to start: a timestamp for all goes before timestamps by partition, and both before offsets."""
    or_latest = options.choice("startingOffsetsByTimestampStrategy", _STRATEGIES) == "latest"
    return _limit(options, "starting", default=default, or_latest=or_latest)


def end_limit(options: OptionValues) -> Limit:
    """Where to end. A partition without a record that young is read to its end."""
    return _limit(options, "ending", default=LATEST, or_latest=True)


def _limit(options: OptionValues, which: str, *, default: int, or_latest: bool) -> Limit:
    timestamp_ms = options.integer(f"{which}Timestamp", at_least=0)
    if timestamp_ms is not None:
        return AtTimestamp(timestamp_ms, or_latest)
    timestamps = options.text(f"{which}OffsetsByTimestamp")
    if timestamps is not None:
        return AtTimestamps(parse_timestamps(f"{which}OffsetsByTimestamp", timestamps), or_latest)
    offsets = options.text(f"{which}Offsets")
    if offsets is None:
        return AtEdge(default)
    edges = {"earliest": EARLIEST, "latest": LATEST}
    if offsets.lower() in edges:
        return AtEdge(edges[offsets.lower()])
    if not offsets.startswith("{"):
        raise OptionError(
            f"{which}Offsets is not understood: {offsets}",
            'Say earliest, latest, or give JSON such as {"topicA":{"0":23,"1":-1}}.',
        )
    return AtOffsets(parse_offsets(f"{which}Offsets", offsets))


def check_batch_limits(start: Limit, end: Limit) -> None:
    """A batch has an end that is known when it starts: what contradicts that, or itself, is refused here."""
    if start == AtEdge(LATEST):
        raise OptionError("startingOffsets is latest", "A batch that starts at the end reads nothing; streams may.")
    if end == AtEdge(EARLIEST):
        raise OptionError("endingOffsets is earliest", "A batch that ends at the beginning reads nothing.")
    if isinstance(start, AtOffsets):
        _refuse("startingOffsets", start.offsets, LATEST, "latest (-1)")
    if isinstance(end, AtOffsets):
        _refuse("endingOffsets", end.offsets, EARLIEST, "earliest (-2)")
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        _check_order("startingOffsets", start.offsets, "endingOffsets", end.offsets)
    if isinstance(start, AtTimestamps) and isinstance(end, AtTimestamps):
        _check_order("startingOffsetsByTimestamp", start.timestamps_ms, "endingOffsetsByTimestamp", end.timestamps_ms)


def _refuse(option: str, offsets: Offsets, offset: int, word: str) -> None:
    for partition, given in offsets.items():
        if given == offset:
            raise OptionError(f"{option}: {partition} cannot be {word} in a batch")


def _check_order(start_option: str, start: Offsets, end_option: str, end: Offsets) -> None:
    different = sorted(start.keys() ^ end.keys())
    if different:
        raise OptionError(
            f"{start_option} and {end_option} name different partitions: {', '.join(map(str, different))}",
            "Name the same ones in both.",
        )
    for partition, first in start.items():
        if first > end[partition] >= 0:
            raise OptionError(f"{partition} starts at {first}, which is after its end at {end[partition]}")
