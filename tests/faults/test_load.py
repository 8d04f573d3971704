"""What a load waits for, and what is done to files, by itself: no process is started for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults import damage
from tests.faults import load as load_module
from tests.faults.journal import place_of
from tests.faults.load import Load
from tests.sim.history import Value


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Of one writer that does nothing by itself, and whose load does not wait for long."""

    def at_once(condition: Any, what: str) -> None:
        assert condition(), what

    monkeypatch.setattr(load_module, "eventually", at_once)
    realm: Any = SimpleNamespace(bootstrap="", create=lambda *_, **__: None)
    return Load(realm, writers=("confluent",), readers=("confluent",), groups=())


def acknowledge(load: Load, partition: int, number: int) -> None:
    value = Value(f"confluent-writer-{partition}", 0, number)
    load.journal.acknowledged(load.journal.now(), place_of(load.topic, partition), number, value)


def flow(load: Load, monkeypatch: pytest.MonkeyPatch, *partitions: int, read: bool = True) -> None:
    """Writes to these partitions are acknowledged as soon as somebody waits for them."""

    def after_a_while(condition: Any, what: str) -> None:
        for partition in partitions:
            acknowledge(load, partition, 5)
            load.alone[0].positions[partition] = 6 if read else 5
        assert condition(), what

    monkeypatch.setattr(load_module, "eventually", after_a_while)


def test_writes_to_other_partitions_and_from_before_do_not_count(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge(load, 1, 4)
    with pytest.raises(AssertionError, match="1 more acknowledged"):
        load.flows_in([1], more=1)
    flow(load, monkeypatch, 0, 2)
    with pytest.raises(AssertionError, match="1 more acknowledged"):
        load.flows_in([1, 2], more=1)
    flow(load, monkeypatch, 1, 2)
    load.flows_in([1, 2], more=1)


def test_writes_that_nobody_reads_do_not_flow(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    flow(load, monkeypatch, 1, read=False)
    with pytest.raises(AssertionError, match="readers"):
        load.flows_in([1], more=1)


def test_damage_that_finds_nothing_to_spoil_fails(tmp_path: Path) -> None:
    active = tmp_path / "00000000000000000000.log"
    active.write_bytes(bytes(100))
    with pytest.raises(AssertionError, match="is the active segment"):
        damage.flip_closed_segment(tmp_path)
    (tmp_path / "00000000000000000007.log").write_bytes(b"")
    for suffix in (".index", ".timeindex"):
        active.with_suffix(suffix).write_bytes(b"")
    with pytest.raises(AssertionError, match="has no entries"):
        damage.flip_indexes(tmp_path)
    assert damage.flip_tail(tmp_path).what == f"a bit at the end of {active}"
    assert active.read_bytes().count(0) == 99
    assert damage.flip_closed_segment(tmp_path).noticed == f"log cut directory={tmp_path} segment={active.stem}"
    assert active.read_bytes().count(0) == 98
