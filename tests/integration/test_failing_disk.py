"""A disk that turns read-only, as ext4 does after an error: its directory goes offline; a node without another ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.log_dirs import DescribeLogDirsRequest
from bifrost.testing import Cluster
from tests.integration.command import Command, run
from tests.integration.conftest import create_topic
from tests.integration.small_disk import SmallDisk
from tests.integration.wire import ClosedByPeerError, Wire, batch


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path, megabytes=16)
    yield small
    small.close()


def server(*directories: Path) -> Command:
    named = [f"log.dirs={','.join(map(str, directories))}", "listeners=PLAINTEXT://127.0.0.1:0", "node.id=1"]
    return Command("server", *(part for name in named for part in ("--set", name)))


def test_a_node_whose_only_disk_turns_read_only_says_so_and_ends(disk: SmallDisk) -> None:
    values = [b"%d" % number for number in range(20)]
    with server(disk.path / "data") as command:
        with Wire(command.bootstrap) as wire:
            create_topic(wire, "t")
            for value in values:
                assert wire.produce("t", batch(value)).error_code == 0
            disk.make_read_only()
            try:
                assert wire.produce("t", batch(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            except ClosedByPeerError:
                pass  # the node may be gone before the answer is
        code, out, err = command.end()
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert any(
        "ERROR" in line and "log directory offline" in line and "Read-only file system" in line for line in lines
    )
    assert any("CRITICAL" in line and "node stops" in line for line in lines)
    assert lines[-1].startswith("error: ")
    assert "Read-only file system" in lines[-1]
    assert "Traceback" not in err
    disk.mend()
    with server(disk.path / "data") as command, Wire(command.bootstrap) as wire:
        assert [record.value for record in wire.read("t")][: len(values)] == values
        assert command.end(signal.SIGTERM)[0] == 0


def test_a_node_does_not_start_on_a_read_only_disk(disk: SmallDisk) -> None:
    with server(disk.path / "data") as command:
        assert command.end(signal.SIGTERM)[0] == 0
    disk.remount_read_only()
    result = run("server", "--set", f"log.dirs={disk.path / 'data'}", "--set", "listeners=PLAINTEXT://127.0.0.1:0")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "Read-only file system" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_node_with_another_disk_goes_on_with_what_is_there(disk: SmallDisk, tmp_path: Path) -> None:
    healthy = tmp_path / "healthy"
    with Cluster(
        data_dir=tmp_path / "cluster", log_dirs=f"{healthy},{disk.path / 'data'}", flush_policy="ack"
    ) as cluster:
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t", partitions=4)
            for partition in range(4):
                assert wire.produce("t", batch(b"before"), partition=partition).error_code == 0
            lost = {int(path.name.rpartition("-")[2]) for path in (disk.path / "data").glob("t-*")}
            assert 0 < len(lost) < 4
            disk.make_read_only()
            for partition in range(4):
                expected = ErrorCode.KAFKA_STORAGE_ERROR if partition in lost else ErrorCode.NONE
                assert wire.produce("t", batch(b"after"), partition=partition).error_code == expected
                assert wire.fetch("t", 0, partition=partition).error_code == expected
            states = {one.log_dir: one for one in wire.call(4, DescribeLogDirsRequest(topics=None)).results}
            assert states[str(disk.path / "data")].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            (kept,) = states[str(healthy)].topics
            assert {one.partition_index: one.partition_size > 0 for one in kept.partitions} == dict.fromkeys(
                {0, 1, 2, 3} - lost, True
            )
            assert 0 < states[str(healthy)].usable_bytes < states[str(healthy)].total_bytes
            create_topic(wire, "new", partitions=2)
            assert [wire.produce("new", batch(b"x"), partition=index).error_code for index in range(2)] == [0, 0]
        cluster.stop(0)
        disk.mend()
        cluster.restart(0)
        with Wire(cluster.bootstrap) as wire:
            for partition in range(4):
                values = [record.value for record in wire.read("t", partition=partition)]
                assert values[0] == b"before"
                assert partition in lost or values == [b"before", b"after"]
