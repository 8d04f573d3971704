"""Wishes are files: taken once, in their order, and open until somebody says what became of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bifrost.realm import wishes
from bifrost.realm.plan import Ports, Shape, one_more, plan
from bifrost.realm.wishes import Join, Retire


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def test_wishes_are_taken_once_and_in_their_order(tmp_path: Path, signals: list[tuple[int, int]]) -> None:
    made = [Join(3, "PLAINTEXT://127.0.0.1:9095", {"broker.rack": "b"}), Retire("heimdall-3")]
    paths = [wishes.make(tmp_path, wish, 4711) for wish in made]
    assert signals == [(4711, wishes.SIGNAL)] * 2
    taken = wishes.take(tmp_path)
    assert [wish for _, wish in taken] == made
    assert wishes.take(tmp_path) == []
    assert all(map(wishes.is_open, paths))
    wishes.close(taken[0][0])
    assert [wishes.is_open(path) for path in paths] == [False, True]
    wishes.forget_all(tmp_path)
    assert not any(map(wishes.is_open, paths))


def test_what_is_no_wish_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / wishes.FOLDER).mkdir()
    for name, text in (("1.json", "{"), ("2.json", '{"type":"fly"}')):
        (tmp_path / wishes.FOLDER / name).write_text(text)
    assert wishes.take(tmp_path) == []
    assert list((tmp_path / wishes.FOLDER).iterdir()) == []


def test_nobody_has_wished_anything(tmp_path: Path) -> None:
    assert wishes.take(tmp_path) == []
    wishes.forget_all(tmp_path)


def test_one_more_broker_has_what_all_have_and_what_is_its_own(tmp_path: Path) -> None:
    shape = Shape.of(2, 1)
    odin, *_ = plan(shape, tmp_path, Ports.counted_from(9092, shape, http=True))
    node = one_more(odin, 2, "PLAINTEXT://127.0.0.1:9094", tmp_path, {"broker.rack": "b"})
    assert (node.id, node.name, node.is_broker, node.address) == (2, "heimdall-2", True, "127.0.0.1:9094")
    assert node.settings == {
        "node.id": "2",
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:9094",
        "log.dirs": str(tmp_path / "heimdall-2"),
        "controller.quorum.voters": "100@127.0.0.1:9192",
        "default.replication.factor": "2",
        "offsets.topic.replication.factor": "2",
        "broker.rack": "b",
    }
