"""How many connections there may be, and how fast they may come: in all, by listener and by address."""

from __future__ import annotations

import pytest

from bifrost.broker.quotas.core.connection_limits import Admission, ConnectionLimits, Verdict
from bifrost.settings import parse_settings

IN, OUT = Admission(Verdict.LET_IN), Admission(Verdict.CLOSE)
A, B = "10.0.0.1", "10.0.0.2"


def limits(protected: tuple[str, ...] = (), **properties: str) -> ConnectionLimits:
    settings, _ = parse_settings({name.replace("_", "."): text for name, text in properties.items()})
    return ConnectionLimits(settings, protected=protected)


def test_without_limits_everybody_is_let_in() -> None:
    found = limits()
    assert {found.on_open("PLAINTEXT", A, 0) for _ in range(10_000)} == {IN}


def test_one_address_has_so_many_and_gets_them_back() -> None:
    found = limits(max_connections_per_ip="2")
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(3)] == [IN, IN, OUT]
    assert found.on_open("PLAINTEXT", B, 0) == IN
    found.on_close("PLAINTEXT", A)
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(2)] == [IN, OUT]


@pytest.mark.parametrize("address", [A, "::1"])
def test_an_address_may_have_a_number_of_its_own(address: str) -> None:
    overrides = f"{A}:1, [0:0:0:0:0:0:0:1]:1,host:9"
    found = limits(max_connections_per_ip="2", max_connections_per_ip_overrides=overrides)
    assert [found.on_open("PLAINTEXT", address, 0) for _ in range(2)] == [IN, OUT]
    assert [found.on_open("PLAINTEXT", B, 0) for _ in range(3)] == [IN, IN, OUT]


def test_addresses_that_are_gone_are_forgotten() -> None:
    found = limits()
    for number in range(1_000):
        found.on_open("PLAINTEXT", f"10.0.{number}", 0)
        found.on_close("PLAINTEXT", f"10.0.{number}")
    assert not found._by_address


def test_clients_do_not_take_the_place_of_brokers() -> None:
    """Kafka: ConnectionQuotas.protectedListener."""
    found = limits(("INTERNAL",), max_connections="1")
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(2)] == [IN, OUT]
    assert [found.on_open("INTERNAL", A, 0) for _ in range(3)] == [IN, IN, IN]
    found.on_close("PLAINTEXT", A)
    assert found.on_open("PLAINTEXT", A, 0) == IN, "nor brokers that of clients"


def test_a_listener_may_have_limits_of_its_own() -> None:
    found = limits(("INTERNAL",), **{"listener.name.internal.max.connections": "1"})
    assert [found.on_open("INTERNAL", A, 0) for _ in range(2)] == [IN, OUT]
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(2)] == [IN, IN]


@pytest.mark.parametrize(
    "name", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_those_who_come_too_fast_wait_before_they_are_served(name: str) -> None:
    """KIP-612. Ten whole samples give twenty; the next is half a second early."""
    found = limits(**{name: "2"})
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(20)] == [IN] * 20
    assert found.on_open("PLAINTEXT", B, 0) == Admission(Verdict.LET_IN_LATER, 500)
    assert found.on_open("PLAINTEXT", A, 0) == Admission(Verdict.LET_IN_LATER, 1_000)
    assert found.on_open("PLAINTEXT", A, 0).wait_ms == 1_000, "and never longer than a sample lasts"
    assert found.on_open("PLAINTEXT", A, 60_000) == IN


def test_what_is_changed_counts_for_the_next_one() -> None:
    found = limits(max_connections_per_ip="1")
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(2)] == [IN, OUT]
    settings, _ = parse_settings({"max.connections.per.ip": "2"})
    found.reconfigure(settings)
    assert [found.on_open("PLAINTEXT", A, 0) for _ in range(2)] == [IN, OUT]


@pytest.mark.parametrize(
    "properties",
    [
        {"max.connections.per.ip.overrides": "10.0.0.1"},
        {"max.connections.per.ip.overrides": "10.0.0.1:many"},
        {"max.connections.per.ip": "-1"},
        {"max.connection.creation.rate": "0"},
        {"listener.name.x.max.connections": "0"},
        {"listener.name.x.max.connection.creation.rate": "fast"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_settings(properties)
