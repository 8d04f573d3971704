"""Whether clients get what their quotas give them, and the same as each other.

    python -m bench.quotas [--seconds 55] [--rate 1048576] [--peers bifrost,kafka]

Two greedy clients that share one default, each with its own client id, produce as fast as the peer lets them; then two
read what they wrote. What they moved from the end of the first windows on is compared with the quota, and with each
other. Before that the price: how long one request takes, without any quota and with one that is never reached. JSON.

A client that starts may use at once what its quota gives in all windows, and again when they have passed: that is
Kafka's arithmetic. So the time must be several times their length, and how far it is from the quota is partly chance.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from bench.peers import Bifrost, Durability, Kafka, Peer
from bifrost.client.wire.client import WireClient
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from bifrost.protocol.fetch import decode_response as decode_fetch
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bifrost.protocol.produce import decode_response as decode_produce
from bifrost.protocol.produce import encode_request as encode_produce
from bifrost.protocol.records import encode_batch
from bifrost.protocol.wire import ZERO_UUID

CLIENTS = ("one", "other")
WINDOWS_S = 11
"""quota.window.num times quota.window.size.seconds: what a client moves before is not at its quota yet."""
BATCH_BYTES = 16 * 1024
PRODUCE, FETCH = 9, 12
PATIENCE_S = 120.0
KINDS: dict[str, type[Peer]] = {"bifrost": Bifrost, "kafka": Kafka}


class Client:
    """One connection that asks again the moment it is answered."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._topic = topic
        self._name = name
        self._offset = 0
        self._batch = memoryview(encode_batch([(0, None, b"x" * BATCH_BYTES, ())]))

    def produce(self) -> tuple[int, int]:
        """Bytes that went in, and the wait that was told in ms."""
        data = TopicProduceData(self._topic, ZERO_UUID, [PartitionProduceData(0, self._batch)])
        frame = encode_produce(PRODUCE, 0, self._name, ProduceRequest(None, 1, 30_000, [data]))
        answer = decode_produce(self._ask(frame), 5, PRODUCE)
        assert answer.topics[0].partitions[0].error_code == 0
        return len(frame), answer.throttle_time_ms

    def fetch(self) -> tuple[int, int]:
        """Bytes that came out, from the beginning again and again, and the wait that was told in ms."""
        wanted = FetchTopic(self._topic, ZERO_UUID, [FetchPartition(0, -1, 0, -1, -1, 4 * BATCH_BYTES)])
        frame = encode_fetch(FETCH, 0, self._name, FetchRequest(100, 1, 4 * BATCH_BYTES, [wanted]))
        answer = self._ask(frame)
        return len(answer), decode_fetch(answer, 5, FETCH).throttle_time_ms

    def close(self) -> None:
        self._socket.close()

    def _ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._answers.read(4))
        return self._answers.read(size)


def move(peer: Peer, topic: str, how: str, seconds: float, rate: float) -> dict[str, Any]:
    """What each client moved once the first windows were over, and what it was told to wait."""
    moved, told = dict.fromkeys(CLIENTS, 0), dict.fromkeys(CLIENTS, 0)
    measured = dict.fromkeys(CLIENTS, 0.0)
    begin = time.monotonic() + WINDOWS_S

    def work(name: str) -> None:
        client = Client(peer.bootstrap, topic, name)
        step = client.produce if how == "produce" else client.fetch
        first = last = 0.0
        while (now := time.monotonic()) < begin + seconds:
            size, wait_ms = step()
            if now >= begin:
                first, last = first or now, time.monotonic()
                moved[name] += size
                told[name] += wait_ms
        measured[name] = last - first
        client.close()

    threads = [Thread(target=work, args=(name,)) for name in CLIENTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rates = {name: moved[name] / measured[name] for name in CLIENTS}
    return {
        "of_quota": {name: round(rates[name] / rate, 3) for name in CLIENTS},
        "one_to_other": round(rates["one"] / rates["other"], 3),
        "told_to_wait": {name: round(told[name] / 1000 / measured[name], 3) for name in CLIENTS},
    }


def median_us(peer: Peer, topic: str, requests: int = 2_000) -> float:
    """Of one request, from its first byte to the answer's last."""
    client, times = Client(peer.bootstrap, topic, "free"), []
    for _ in range(requests):
        begin = time.perf_counter()
        client.produce()
        times.append(time.perf_counter() - begin)
    client.close()
    return median(times) * 1e6


def price(peer: Peer, topic: str, admin: WireClient) -> dict[str, int]:
    """By turns, so that whatever else the machine does is in both."""
    without, with_one = [], []
    for _ in range(5):
        without.append(median_us(peer, topic))
        admin.quotas.alter({"client-id": "free"}, {"producer_byte_rate": 1e15, "request_percentage": 1e6})
        with_one.append(median_us(peer, topic))
        admin.quotas.alter({"client-id": "free"}, {"producer_byte_rate": None, "request_percentage": None})
    return {"us_without_quotas": round(min(without)), "us_with_one_never_reached": round(min(with_one))}


def measure(peer: Peer, seconds: float, rate: float) -> dict[str, Any]:
    peer.start()
    try:
        topic = peer.new_topic(1, Durability.OS)
        with WireClient(peer.bootstrap) as admin:
            paid = price(peer, topic, admin)
            admin.quotas.alter({"client-id": None}, {"producer_byte_rate": rate, "consumer_byte_rate": rate})
        found: dict[str, Any] = {how: move(peer, topic, how, seconds, rate) for how in ("produce", "fetch")}
    finally:
        peer.stop()
    return {**found, "price": paid}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0 * WINDOWS_S)
    parser.add_argument("--rate", type=float, default=float(1 << 20))
    parser.add_argument("--peers", default="bifrost,kafka")
    asked = parser.parse_args()
    found = {}
    for kind in asked.peers.split(","):
        with TemporaryDirectory(prefix=f"bench-quotas-{kind}-") as home:
            peer = KINDS[kind](Path(home))
            found[kind] = measure(peer, asked.seconds, asked.rate)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
