"""Numbers in the text format that Prometheus reads (version 0.0.4). Pure.

A number is that of the cluster as this Odin knows it, or of this Odin itself; the help of each says which. Names follow
Prometheus's own advice: a unit at the end, `_total` for what only grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from bifrost.controller.http.side import ClusterSide, Standing
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.quorum import DescribeQuorumPartitionResult

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ROLES: Final = ("leader", "follower", "candidate", "prospective", "unattached", "resigned")


class Family(NamedTuple):
    """One name, and its value for each set of labels."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float]]


def expose(families: Iterable[Family]) -> bytes:
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{family.name}{{{inside}}} {_number(value)}" if inside else f"{family.name} {_number(value)}")
    return "\n".join([*lines, ""]).encode()


def families(side: ClusterSide) -> Iterator[Family]:
    yield from _of_quorum(side.standing(), side.followers())
    yield from _of_cluster(side)
    yield from _of_node(side)


def _of_quorum(standing: Standing, quorum: DescribeQuorumPartitionResult | None) -> Iterator[Family]:
    roles = [({"role": role}, float(role == standing.role)) for role in ROLES]
    yield Family("bifrost_quorum_role", "gauge", "1 for the role that this Odin has in the quorum.", roles)
    yield _gauge("bifrost_quorum_epoch", "The newest epoch of the quorum that this Odin knows.", standing.epoch)
    yield _gauge("bifrost_quorum_leader_id", "Who leads the quorum, as far as this Odin knows; -1: nobody.",
                 -1 if standing.leader is None else standing.leader)  # fmt: skip
    yield _gauge("bifrost_quorum_hears_leader", "1 if this Odin leads, or is answered by whoever does.",
                 standing.hears_leader)  # fmt: skip
    yield _gauge("bifrost_quorum_active", "1 if this Odin is the active one.", standing.is_active)
    yield _gauge("bifrost_quorum_high_watermark", "Everything below is committed.", standing.high_watermark)
    yield _gauge("bifrost_quorum_log_end_offset", "How far the metadata log of this Odin goes.",
                 standing.log_end_offset)  # fmt: skip
    if quorum is not None:
        end = max((one.log_end_offset for one in quorum.current_voters), default=0)
        lags = [
            ({"node": str(one.replica_id), "is_voter": str(is_voter).lower()}, float(max(0, end - one.log_end_offset)))
            for is_voter, group in ((True, quorum.current_voters), (False, quorum.observers))
            for one in group
        ]
        yield Family("bifrost_quorum_lag_records", "gauge", "How many records of metadata a node lacks.", lags)


def _of_cluster(side: ClusterSide) -> Iterator[Family]:
    image, counts = side.image, side.counts
    fenced = sum(one.fenced for one in image.brokers.values())
    yield Family("bifrost_brokers", "gauge", "Registered brokers.",
                 [({"state": "alive"}, len(image.brokers) - fenced), ({"state": "fenced"}, fenced)])  # fmt: skip
    yield _gauge("bifrost_topics", "Topics of the cluster.", len(image.topics))
    yield _gauge("bifrost_partitions", "Partitions of the cluster.", counts.partitions)
    yield _gauge("bifrost_partitions_without_leader", "Partitions that nobody leads.", counts.without_leader)
    yield _gauge("bifrost_partitions_under_replicated", "Partitions with replicas that are not in sync.",
                 counts.under_replicated)  # fmt: skip
    yield _counter("bifrost_partition_elections_total", "Leader epochs begun since this Odin started.",
                   counts.elections)  # fmt: skip
    yield _gauge("bifrost_metadata_offset", "The last change that this Odin has applied.", image.offset)


def _of_node(side: ClusterSide) -> Iterator[Family]:
    metrics = side.metrics
    requests = [({"api": _api_name(key)}, float(count)) for key, count in sorted(metrics.requests.items())]
    yield Family("bifrost_requests_total", "counter", "Requests to this node, by Kafka's name for them.", requests)
    yield _counter("bifrost_protocol_errors_total", "Connections closed because of bytes that make no sense.",
                   metrics.protocol_errors)  # fmt: skip
    yield _counter("bifrost_unexpected_errors_total", "Requests that met a bug; 0 in a healthy node.",
                   metrics.unexpected_errors)  # fmt: skip
    yield _counter("bifrost_storage_errors_total", "Failures of a disk.", metrics.storage_errors)
    yield _gauge("bifrost_uncleanable_partitions", "Logs of this node that compaction has given up.",
                 metrics.uncleanable_partitions)  # fmt: skip
    throttled = [({"quota": key}, float(count)) for key, count in sorted(metrics.throttled.items())]
    yield Family("bifrost_throttled_requests_total", "counter", "Requests whose client was told to wait, by limit.",
                 throttled)  # fmt: skip
    waits = [({"quota": key}, wait_ms / 1000) for key, wait_ms in sorted(metrics.throttle_ms.items())]
    yield Family(
        "bifrost_throttle_seconds_total", "counter", "For how long clients were told to wait, by limit.", waits
    )
    http = [({"status": str(status)}, float(count)) for status, count in sorted(metrics.http_answers.items())]
    yield Family("bifrost_http_answers_total", "counter", "Answers over HTTP, by status.", http)
    yield _gauge("bifrost_http_event_streams", "Streams of events that are open.", metrics.http_streams)
    yield _gauge("bifrost_connections", "Connections that are open, HTTP not among them.",
                 metrics.connections_opened - metrics.connections_closed)  # fmt: skip


def _gauge(name: str, text: str, value: float) -> Family:
    return Family(name, "gauge", text, [({}, value)])


def _counter(name: str, text: str, value: float) -> Family:
    return Family(name, "counter", text, [({}, value)])


def _number(value: float) -> str:
    """All digits: an offset is not rounded."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _api_name(key: int) -> str:
    return ApiKey(key).name if key in ApiKey.__members__.values() else str(key)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
