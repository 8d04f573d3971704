"""Which nodes there are, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bifrost.realm.plan import Ports, Shape, plan
from bifrost.settings import parse_settings

DATA = Path("data")


@pytest.mark.parametrize(
    ("brokers", "odins", "expected"),
    [(1, None, (1, 0)), (1, 0, (1, 0)), (1, 3, (1, 3)), (2, None, (2, 3)), (3, 5, (3, 5))],
)
def test_one_broker_is_alone_and_several_have_three_odins_unless_told_otherwise(
    brokers: int, odins: int | None, expected: tuple[int, int]
) -> None:
    assert Shape.of(brokers, odins) == Shape(*expected)


@pytest.mark.parametrize(("brokers", "odins"), [(0, None), (101, None), (3, 0), (1, -1), (3, 2), (3, 4), (3, 7)])
def test_a_shape_that_makes_no_sense_is_refused(brokers: int, odins: int | None) -> None:
    with pytest.raises(ValueError, match="broker"):
        Shape.of(brokers, odins)


def test_ports_are_those_that_people_remember() -> None:
    ports = Ports.counted_from(9092, Shape(3, 3), http=True)
    assert (list(ports.brokers), list(ports.odins)) == ([9092, 9093, 9094], [9192, 9193, 9194])
    assert list(ports.http) == [9644, 9645, 9646]
    alone = Ports.counted_from(9092, Shape(1, 0), http=True)
    assert (list(alone.brokers), list(alone.odins), list(alone.http)) == ([9092], [], [9644])
    assert list(Ports.counted_from(9092, Shape(3, 3), http=False).http) == []


def test_every_node_has_what_is_its_own_and_knows_the_voters() -> None:
    nodes = plan(Shape(2, 3), DATA, Ports.counted_from(9092, Shape(2, 3), http=False))
    assert [(node.id, node.name, node.address) for node in nodes] == [
        (100, "odin-100", "127.0.0.1:9192"),
        (101, "odin-101", "127.0.0.1:9193"),
        (102, "odin-102", "127.0.0.1:9194"),
        (0, "heimdall-0", "127.0.0.1:9092"),
        (1, "heimdall-1", "127.0.0.1:9093"),
    ]
    for node in nodes:
        settings, notes = parse_settings(node.settings)
        assert notes == []
        assert settings.controller_quorum_voters == (
            "100@127.0.0.1:9192",
            "101@127.0.0.1:9193",
            "102@127.0.0.1:9194",
        )
        assert settings.process_roles == node.roles
        assert settings.log_directories == (f"data/{node.name}",)


def test_a_single_node_is_as_it_was() -> None:
    (node,) = plan(Shape(1, 0), DATA, Ports.counted_from(9092, Shape(1, 0), http=False))
    assert node.settings == {"node.id": "0", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data/node-0"}


def test_odins_speak_http_where_there_are_ports_for_it() -> None:
    nodes = plan(Shape(1, 2), DATA, Ports([1], [2, 3], [4, 5]))
    assert [node.settings.get("http.listener") for node in nodes] == ["127.0.0.1:4", "127.0.0.1:5", None]
