"""Who stands where in a simulated cluster, and what each of its nodes is told at its start."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from bifrost.settings import Settings, parse_settings
from tests.sim.client import Address

DATA, METADATA = "/data", "/metadata"
"""Two devices of each machine. The second one may be lost."""
METADATA_LOG = f"{METADATA}/__cluster_metadata-0"
BROKER_PORT, CONTROLLER_PORT = 9092, 9093
KINDS = {"apart": 6, "combined": 2, "lone-odin": 1, "five-odins": 1}
"""Kinds of clusters, and how often there is one of each."""


class Seat(NamedTuple):
    """One node."""

    node_id: int
    roles: tuple[str, ...]

    @property
    def host(self) -> str:
        return f"{'odin' if self.is_voter else 'heimdall'}{self.node_id}"

    @property
    def is_voter(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def broker_address(self) -> Address:
        return self.host, BROKER_PORT


def drawn_seats(rng: Random, kind: str | None = None) -> list[Seat]:
    """All nodes of a cluster, voters first."""
    kind = kind or rng.choices(list(KINDS), list(KINDS.values()))[0]
    if kind == "combined":
        return [Seat(number, ("broker", "controller")) for number in (1, 2, 3)]
    odins = {"lone-odin": 1, "five-odins": 5}.get(kind, 3)
    heimdalls = rng.choice((2, 3)) if kind == "apart" else 2
    return [
        *(Seat(number, ("controller",)) for number in range(1, odins + 1)),
        *(Seat(number, ("broker",)) for number in range(odins + 1, odins + heimdalls + 1)),
    ]


class Timing(NamedTuple):
    """How patient everybody in one cluster is."""

    fetch_ms: int
    session_ms: int
    heartbeat_ms: int

    @classmethod
    def drawn(cls, rng: Random) -> Timing:
        return cls(rng.choice((1000, 2000)), rng.choice((2000, 6000)), rng.choice((300, 1000)))


def settings_of(seat: Seat, seats: list[Seat], timing: Timing, rng: Random) -> Settings:
    listeners = [f"PLAINTEXT://{seat.host}:{BROKER_PORT}"] if seat.is_broker else []
    listeners += [f"CONTROLLER://{seat.host}:{CONTROLLER_PORT}"] if seat.is_voter else []
    settings, _ = parse_settings(
        {
            "node.id": str(seat.node_id),
            "process.roles": ",".join(seat.roles),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": ",".join(
                f"{one.node_id}@{one.host}:{CONTROLLER_PORT}" for one in seats if one.is_voter
            ),
            "log.dirs": DATA,
            "metadata.log.dir": METADATA,
            "flush.policy": "ack",
            "controller.quorum.fetch.timeout.ms": str(timing.fetch_ms),
            "controller.quorum.election.timeout.ms": "1000",
            "controller.quorum.request.timeout.ms": "2000",
            "metadata.log.max.record.bytes.between.snapshots": str(rng.choice((1_000, 4_000, 20 << 20))),
            "controller.quorum.fetch.snapshot.max.bytes": str(rng.choice((200, 1 << 20))),
            "broker.session.timeout.ms": str(timing.session_ms),
            "broker.heartbeat.interval.ms": str(timing.heartbeat_ms),
            "replica.lag.time.max.ms": "1000",
            "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((1000, 5000))),
            "log.flush.offset.checkpoint.interval.ms": "60000",
            "log.segment.delete.delay.ms": str(rng.choice((0, 1000, 60_000))),
            "offsets.topic.num.partitions": "1",
        }
    )
    return settings
