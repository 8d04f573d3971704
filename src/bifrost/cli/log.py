"""`bifrost log`: look into the files of a partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Annotated, Any

import typer

from bifrost.cli.failure import fail

app = typer.Typer(help="Look into the files of a partition.", no_args_is_help=True)

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
DUMPED = {".log", ".index", ".timeindex"}


@app.callback()
def main() -> None:
    """Makes `dump` a subcommand even while it is the only one."""


@app.command()
def dump(
    path: Annotated[
        Path, typer.Argument(help="A .log, .index or .timeindex file, or a partition's directory.", exists=True)
    ],
    records: Annotated[bool, typer.Option("--records", help="Show the records inside each batch, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, for scripts.")] = False,
) -> None:
    """Print what a log file holds, batch by batch, and where it is damaged.

    Reads only: it is safe on the files of a running broker. Ends with exit code 1 when a file is damaged.
    """
    files = sorted(file for file in path.iterdir() if file.suffix in DUMPED) if path.is_dir() else [path]
    if not files:
        fail(f"no log files in {path}", code=2)
    damaged = False
    for file in files:
        for row in _rows(file, records=records):
            damaged |= row["kind"] == "damage"
            typer.echo(json.dumps({"file": file.name, **row}) if as_json else _line(file, row))
    if damaged:
        raise typer.Exit(1)


def _rows(file: Path, *, records: bool) -> Iterator[dict[str, Any]]:
    if file.suffix == ".log":
        yield from _batches(file, records=records)
    elif file.suffix == ".index":
        yield from _entries(file, OFFSET_ENTRY, ("offset", "position"))
    elif file.suffix == ".timeindex":
        yield from _entries(file, TIME_ENTRY, ("timestamp", "offset"))
    else:
        fail(f"{file.name} is none of {', '.join(sorted(DUMPED))}", code=2)


def _batches(file: Path, *, records: bool) -> Iterator[dict[str, Any]]:
    """Batch by batch; stops at the first place that is no batch, since nothing tells where the next one starts."""
    import mmap

    if file.stat().st_size == 0:
        return
    from bifrost.protocol.batch import CorruptBatchError, check_crc, read_header

    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        position = 0
        while position < len(mapped):
            try:
                header = read_header(mapped[position : position + 61])
            except CorruptBatchError as error:
                yield {"kind": "damage", "position": position, "problem": str(error)}
                return
            size = header.size_bytes
            batch = mapped[position : position + size]
            if len(batch) < size:
                yield {"kind": "damage", "position": position, "problem": f"{size} bytes announced, {len(batch)} there"}
                return
            if not check_crc(batch, 0, header):
                yield {
                    "kind": "damage",
                    "position": position,
                    "problem": "wrong checksum",
                    "base_offset": header.base_offset,
                }
                return
            yield {"kind": "batch", "position": position, "size": size, **_describe(header)}
            if records:
                yield from _records(batch, position)
            position += size


def _describe(header: Any) -> dict[str, Any]:
    from bifrost.protocol.compression import Codec

    known = header.codec in set(Codec)
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "codec": Codec(header.codec).name.lower() if known else f"unknown-{header.codec}",
        "timestamp_type": "append" if header.is_append_time else "create",
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def _records(batch: bytes, position: int) -> Iterator[dict[str, Any]]:
    from bifrost.protocol.batch import CorruptBatchError
    from bifrost.protocol.records import decode_batch

    try:
        decoded = decode_batch(batch)
    except CorruptBatchError as error:
        yield {"kind": "damage", "position": position, "problem": str(error)}
        return
    for record in decoded:
        yield {
            "kind": "record",
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _readable(record.key),
            "value": _readable(record.value),
            "headers": {name: _readable(value) for name, value in record.headers},
        }


def _readable(value: bytes | None) -> str | None:
    """Text as it is, other bytes in hex."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()


def _entries(file: Path, entry: Struct, names: tuple[str, str]) -> Iterator[dict[str, Any]]:
    """Entries of an index; offsets in the file are relative to the one in its name."""
    if not file.stem.isdecimal():
        fail(f"{file.name} is not named after an offset", code=2)
    data = file.read_bytes()
    base = int(file.stem)
    whole = len(data) - len(data) % entry.size
    for first, second in entry.iter_unpack(data[:whole]):
        if first == second == 0:
            break  # preallocated, not used yet
        row = dict(zip(names, (first, second)))
        row["offset"] += base
        yield {"kind": "entry", **row}
    if whole != len(data):
        yield {"kind": "damage", "position": whole, "problem": f"{len(data) - whole} bytes are no whole entry"}


def _line(file: Path, row: dict[str, Any]) -> str:
    kind = row["kind"]
    details = " ".join(f"{name}={value}" for name, value in row.items() if name != "kind")
    indent = "  " if kind == "record" else ""
    damaged = kind == "damage"
    text = f"{indent}{file.name} {kind} {details}"
    return typer.style(text, fg="red" if damaged else None, bold=damaged, dim=kind == "record")
