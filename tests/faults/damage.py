"""What can happen to the files of a partition while its node is down, and how it shows that the node has noticed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Damage(NamedTuple):
    """What was done to a replica. Whoever has nothing to spoil fails, for a test without damage proves nothing."""

    what: str
    noticed: str | None
    """What the node says of it when it starts again; None where it says nothing, and mends it."""
    rebuilt: dict[Path, bytes]
    """Files that have to be again what they were before."""


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def flip_closed_segment(folder: Path) -> Damage:
    """In the middle of the first one, behind which there are others."""
    first, *later = segments(folder)
    assert later, f"{first} is the active segment"
    flip(first, first.stat().st_size // 2)
    return Damage(f"a bit of {first}", f"log cut directory={folder} segment={first.stem}", {})


def flip_indexes(folder: Path) -> Damage:
    """The first entry of each index of a closed segment; others are in memory only."""
    spoilt: dict[Path, bytes] = {}
    for segment in segments(folder)[:-1]:
        for path in (segment.with_suffix(".index"), segment.with_suffix(".timeindex")):
            content = path.read_bytes()
            if content:
                flip(path, 3)
                spoilt[path] = content
    assert {path.suffix for path in spoilt} == {".index", ".timeindex"}, f"{folder} has no entries"
    return Damage(f"bits of {len(spoilt)} indexes", None, spoilt)


def flip_index_entries(folder: Path, suffix: str, entry_bytes: int) -> dict[Path, bytes]:
    """Every entry of this index of closed segments leads somewhere else; their sound contents, by file."""
    sound: dict[Path, bytes] = {}
    for segment in segments(folder)[:-1]:
        path = segment.with_suffix(suffix)
        sound[path] = path.read_bytes()
        for entry in range(0, len(sound[path]), entry_bytes):
            flip(path, entry + entry_bytes - 1)
    return sound


def flip_tail(folder: Path) -> Damage:
    last = _last_with_records(folder)
    flip(last, last.stat().st_size - 10)
    return Damage(f"a bit at the end of {last}", f"log cut directory={folder} segment={last.stem}", {})


def tear_tail(folder: Path) -> Damage:
    last = _last_with_records(folder)
    last.write_bytes(last.read_bytes()[:-7])
    return Damage(f"the last bytes of {last}", f"log cut directory={folder} segment={last.stem}", {})


def lose_everything(folder: Path) -> Damage:
    """But for the directory."""
    paths = list(folder.iterdir())
    assert sum(path.stat().st_size for path in paths) > 0, f"{folder} was empty"
    for path in paths:
        path.unlink()
    return Damage(f"all files of {folder}", None, {})


def flip(path: Path, position: int) -> None:
    """One bit, and no other."""
    before = path.read_bytes()
    data = bytearray(before)
    data[position] ^= 0x10
    path.write_bytes(data)
    assert path.read_bytes() != before


def _last_with_records(folder: Path) -> Path:
    """The active segment may have been made a moment ago."""
    return max(path for path in segments(folder) if path.stat().st_size)
