"""`bifrost log dump`: what it shows, and how it tells of damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bifrost.cli.main import app
from bifrost.log.config import LogConfig
from bifrost.log.partition_log import PartitionLog
from bifrost.log.real_disk import RealDisk
from bifrost.protocol.batch import read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import encode_batch
from bifrost.types import TopicPartition

NOW = 1_700_000_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Four batches, one of them compressed, in two segments, closed cleanly."""
    path = tmp_path / "orders-0"
    config = LogConfig(index_interval_bytes=1, segment_bytes=1 << 20)
    log = PartitionLog.open(
        RealDisk(), str(path), TopicPartition("orders", 0), config, clean=False, recovery_point=0, now_ms=NOW
    )
    for number, codec in enumerate([Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.NONE]):
        if number == 2:
            log.roll(NOW)
        records = [
            (NOW + number, b"key", f"value {number}".encode(), [("trace", b"\xff\x00"), ("empty", None)]),
            (NOW + number, None, None, ()),
        ]
        batch = encode_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=number * 2)
        log.append(memoryview(batch), read_header(batch), leader_epoch=3, now_ms=NOW)
    log.close()
    return path


def dump(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["log", "dump", *map(str, arguments)])


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    result = dump(*arguments, "--json")
    return [json.loads(line) for line in result.output.splitlines()]


def segment(directory: Path, number: int = 0) -> Path:
    return sorted(directory.glob("*.log"))[number]


def test_every_batch_is_a_line(directory: Path) -> None:
    result = dump(segment(directory))
    assert result.exit_code == 0
    first, second = result.output.splitlines()
    assert first.startswith("00000000000000000000.log batch position=0 size=")
    assert "base_offset=0 last_offset=1 count=2 codec=none" in first
    assert "leader_epoch=3 producer_id=7 producer_epoch=1 base_sequence=0" in first
    assert "base_offset=2 last_offset=3" in second


def test_a_directory_is_dumped_file_by_file(directory: Path) -> None:
    found = rows(directory)
    assert [row["base_offset"] for row in found if row["kind"] == "batch"] == [0, 2, 4, 6]
    assert {Path(row["file"]).suffix for row in found} == {".log", ".index", ".timeindex"}


def test_records_are_shown_when_asked_for(directory: Path) -> None:
    found = [row for row in rows(directory, "--records") if row["kind"] == "record"]
    assert [row["offset"] for row in found] == list(range(8))
    assert found[4] == {
        "file": "00000000000000000004.log",
        "kind": "record",
        "offset": 4,
        "timestamp": NOW + 2,
        "key": "key",
        "value": "value 2",
        "headers": {"trace": "0xff00", "empty": None},
    }
    assert (found[5]["key"], found[5]["value"]) == (None, None)


def test_records_are_indented_in_text(directory: Path) -> None:
    lines = dump(segment(directory), "--records").output.splitlines()
    assert [line.startswith("  ") for line in lines] == [False, True, True, False, True, True]


def test_indexes_show_absolute_offsets(directory: Path) -> None:
    (index,) = directory.glob("00000000000000000004.index")
    (entry,) = [row for row in rows(index) if row["kind"] == "entry"]
    (second,) = [row for row in rows(segment(directory, 1)) if row["position"] > 0]
    assert (entry["offset"], entry["position"]) == (7, second["position"])
    (times,) = directory.glob("00000000000000000004.timeindex")
    assert all(row["timestamp"] >= NOW and row["offset"] >= 4 for row in rows(times))


def damaged(*arguments: str | Path) -> dict[str, Any]:
    """The one line of damage; the exit code says so too."""
    assert dump(*arguments).exit_code == 1
    (row,) = [row for row in rows(*arguments) if row["kind"] == "damage"]
    return row


def test_a_flipped_bit_is_found_and_placed(directory: Path) -> None:
    path = segment(directory)
    data = bytearray(path.read_bytes())
    size = read_header(data).size_bytes
    data[size + 70] ^= 1
    path.write_bytes(data)
    row = damaged(path)
    assert (row["position"], row["problem"], row["base_offset"]) == (size, "wrong checksum", 2)
    assert [row["base_offset"] for row in rows(path) if row["kind"] == "batch"] == [0]


@pytest.mark.parametrize("cut", [1, 30, 60, 100])
def test_a_torn_tail_is_found_and_placed(directory: Path, cut: int) -> None:
    path = segment(directory)
    data = path.read_bytes()
    size = read_header(data).size_bytes
    path.write_bytes(data[: size + cut])
    assert damaged(path)["position"] == size


def test_garbage_at_the_start_is_found(directory: Path) -> None:
    path = segment(directory)
    path.write_bytes(b"\xff" * 200)
    assert damaged(path)["position"] == 0


def test_half_an_index_entry_is_damage(directory: Path) -> None:
    (index,) = directory.glob("00000000000000000000.index")
    index.write_bytes(index.read_bytes() + b"\0\0\0")
    assert damaged(index)["problem"] == "3 bytes are no whole entry"


def test_damage_in_one_file_does_not_hide_the_others(directory: Path) -> None:
    path = segment(directory)
    path.write_bytes(path.read_bytes()[:100])
    assert [row["base_offset"] for row in rows(directory) if row["kind"] == "batch"] == [4, 6]
    assert dump(directory).exit_code == 1


def test_records_that_contradict_their_header_are_damage(directory: Path) -> None:
    """The checksum may be right and the inside wrong: a producer's bug that only a look inside shows."""
    import struct

    from crc32c import crc32c

    path = segment(directory)
    data = bytearray(path.read_bytes())
    size = read_header(data).size_bytes
    data[61] = 0x7F  # the length of the first record
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:size])))
    path.write_bytes(data)
    assert dump(path).exit_code == 0
    assert damaged(path, "--records")["position"] == 0


def test_an_empty_file_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch()
    result = dump(path)
    assert (result.exit_code, result.output) == (0, "")


def test_what_is_no_log_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    for path, sentence in ((other, "notes.txt is none of"), (tmp_path, "no log files in")):
        result = dump(path)
        assert result.exit_code == 2
        assert sentence in result.output


@pytest.mark.parametrize("name", ["notes.index", "x.timeindex"])
def test_an_index_whose_name_is_no_offset_is_refused_with_a_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(bytes(12))
    result = dump(path)
    assert result.exit_code == 2
    assert f"{name} is not named after an offset" in result.output


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    assert dump(tmp_path / "missing.log").exit_code == 2
