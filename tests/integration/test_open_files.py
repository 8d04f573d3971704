"""A node that is asked for more partitions than it may have files open: those that fit are served, and it lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost.testing.process import ProcessNode
from tests.integration.command import environment
from tests.waiting import PATIENCE_S

FILES = 240


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (done,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    done.result(PATIENCE_S)


def write(bootstrap: str, topic: str, partition: int, timeout_ms: int) -> KafkaError | None:
    """What is wrong with it, if anything."""
    told: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        told.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "log_level": 0})
    producer.produce(topic, b"x", partition=partition, on_delivery=on_delivery)
    producer.flush(PATIENCE_S)
    return told[0]


def test_too_many_partitions_do_not_end_a_node(tmp_path: Path) -> None:
    node = ProcessNode({"node.id": "0", "log.dirs": str(tmp_path)})
    node.enter = ("sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh")
    node.start()
    try:
        create(node.address, "small", 1)
        create(node.address, "large", 2 * FILES)
        assert write(node.address, "small", 0, 20_000) is None
        assert write(node.address, "large", 0, 20_000) is None
        assert write(node.address, "large", 2 * FILES - 1, 1_000) is not None, "it waits for room"
        assert node.exit_code is None
    finally:
        node.kill()


def test_no_descriptor_left_is_not_a_broken_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    script = (
        "import resource\n"
        "from bifrost.errors import DiskFullError\n"
        "from bifrost.log.real_disk import RealDisk\n"
        "disk = RealDisk()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "assert disk.open_files_max() == 3\n"
        "try:\n"
        f"    disk.open({str(tmp_path / 'file')!r})\n"
        "except DiskFullError:\n"
        "    print('no room')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.stdout == "no room\n", done.stderr
