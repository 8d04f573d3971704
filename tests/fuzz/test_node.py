"""Whatever bytes come over the network, the node serves its well-behaved clients, and loses nothing of theirs."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
from collections.abc import Iterator

import pytest

from bifrost.testing import Cluster
from bifrost.testing.embedded import EmbeddedNode
from tests.fuzz.cases import SECONDS, kept, report, until
from tests.fuzz.frames import TOPICS, VERSIONS, valid_frame
from tests.fuzz.mutation import spoil_frame
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire, batch

pytestmark = pytest.mark.timeout(SECONDS + 300)

WITNESS = "witness"
CASES_PER_CHECK = 25
CONFIGS: list[dict[str, str]] = [
    {"compression_type": "gzip"},
    {"message_timestamp_type": "LogAppendTime"},
    {"cleanup_policy": "compact"},
]
"""Each leads batches another way through the broker; on compacted topics it looks inside, and codecs are changed."""


class Attacked:
    """A node under fire, and a client that keeps writing to it all the while."""

    def __init__(self, cluster: Cluster) -> None:
        node = cluster.node(0)
        assert isinstance(node, EmbeddedNode)
        self.node = node
        self.good = Wire(cluster.bootstrap)
        host, port = cluster.bootstrap.rsplit(":", 1)
        self._address = (host, int(port))
        create_topic(self.good, WITNESS)
        for name, configs in zip(TOPICS, CONFIGS, strict=True):
            create_topic(self.good, name, **configs)
        self.written: list[bytes] = []

    def send(self, *frames: bytes, rng: random.Random) -> None:
        """One hostile connection; it may read, or not, and leave in good order, or not."""
        with socket.create_connection(self._address, timeout=10) as hostile:
            with contextlib.suppress(OSError):
                for frame in frames:
                    hostile.sendall(frame)
                if rng.random() < 0.5:
                    hostile.shutdown(socket.SHUT_WR)
                    while hostile.recv(1 << 16):
                        pass

    def check(self, data: bytes) -> None:
        """The well-behaved client notices nothing, and no request met a bug."""
        value = b"%d" % len(self.written)
        result = self.good.produce(WITNESS, batch(value))
        assert (result.error_code, result.base_offset) == (0, len(self.written)), report("a write was disturbed", data)
        self.written.append(value)
        assert self.node.metrics.unexpected_errors == 0, report("a request met a bug", data)

    def check_all(self) -> None:
        assert [record.value for record in self.good.read(WITNESS)] == self.written


@pytest.fixture
def attacked() -> Iterator[Attacked]:
    """Without files: what the fuzzer creates by chance would be thousands of them."""
    logging.getLogger("bifrost").setLevel(logging.ERROR)
    with Cluster(flush_policy="memory") as cluster:
        yield Attacked(cluster)
    logging.getLogger("bifrost").setLevel(logging.NOTSET)


def test_kept_cases_do_no_harm(attacked: Attacked) -> None:
    for path in kept():
        data = path.read_bytes()
        for seed in range(2):
            attacked.send(data, rng=random.Random(seed))
        attacked.check(data)
    attacked.check_all()


def test_spoilt_requests_do_no_harm(attacked: Attacked) -> None:
    sent: list[bytes] = []
    for rng in until(0.5):
        frames = [valid_frame(rng, *rng.choice(VERSIONS)) for _ in range(rng.choice([1, 1, 2, 4]))]
        frames[-1] = spoil_frame(rng, frames[-1], frames)
        attacked.send(*frames, rng=rng)
        sent += frames
        if len(sent) >= CASES_PER_CHECK:
            attacked.check(b"".join(sent))
            sent.clear()
    attacked.check(b"".join(sent))
    attacked.check_all()
    assert attacked.node.metrics.protocol_errors > 0, "something was refused, or this is no fuzzer"
