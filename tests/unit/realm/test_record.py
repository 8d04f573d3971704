"""What `cluster.json` and locks tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bifrost.realm import record
from bifrost.realm.plan import Shape
from bifrost.realm.record import ClusterRecord, NodeRecord

CLUSTER = ClusterRecord(
    "127.0.0.1:9092", None, 17, (NodeRecord(0, "node-0", ("broker",), "127.0.0.1:9092", 17, "running", 1, 2),)
)
HOLD = """
import sys
from bifrost.log.real_disk import RealDisk
lock = RealDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_what_is_written_is_read_and_nothing_else_lies_about(tmp_path: Path) -> None:
    assert record.read(tmp_path) is None
    record.write(tmp_path, CLUSTER)
    record.write(tmp_path, CLUSTER)
    assert record.read(tmp_path) == CLUSTER
    assert json.loads((tmp_path / "cluster.json").read_text())["nodes"][0]["address"] == "127.0.0.1:9092"
    assert os.listdir(tmp_path) == ["cluster.json"]
    record.remove(tmp_path)
    record.remove(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_not_ours_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"bootstrap": "x"}')
    assert record.read(tmp_path) is None


def test_the_holder_of_a_lock_is_known_for_as_long_as_it_lives(tmp_path: Path) -> None:
    path = tmp_path / record.UP_LOCK
    assert record.supervisor(tmp_path) is None
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert record.supervisor(tmp_path) == process.pid
        assert record.lock_holder(path) == process.pid, "asking takes nothing away"
        process.kill()
    assert record.supervisor(tmp_path) is None


def test_the_shape_of_data_is_told_by_their_directories(tmp_path: Path) -> None:
    assert record.shape_of(tmp_path / "nothing") is None
    (tmp_path / "logs").mkdir()
    assert record.shape_of(tmp_path) is None
    (tmp_path / "node-0").mkdir()
    assert record.shape_of(tmp_path) == Shape(1, 0)
    for name in ("heimdall-0", "heimdall-1", "odin-100"):
        (tmp_path / name).mkdir()
    assert record.shape_of(tmp_path) == Shape(2, 1)
