"""Listener addresses."""

from __future__ import annotations

import pytest

from bifrost.settings import Listener, Settings, parse_settings


def parse(**names: str) -> Settings:
    return parse_settings({name.replace("_", "."): text for name, text in names.items()})[0]


def test_the_default_listens_everywhere_and_advertises_what_it_listens_on() -> None:
    settings = parse()
    assert settings.broker_listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert settings.advertised == settings.broker_listeners
    assert settings.inter_broker_listener == "PLAINTEXT"


def test_several_listeners_keep_their_order_and_names_are_in_capitals() -> None:
    settings = parse(
        listeners="inside://127.0.0.1:0,OUTSIDE://[::1]:9092",
        listener_security_protocol_map="Inside:PLAINTEXT, OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="Inside",
    )
    assert [str(one) for one in settings.broker_listeners] == ["INSIDE://127.0.0.1:0", "OUTSIDE://[::1]:9092"]
    assert settings.broker_listeners[1].host == "::1"
    assert settings.inter_broker_listener == "INSIDE"


def test_controller_listeners_are_neither_served_to_clients_nor_advertised() -> None:
    settings = parse(
        listeners="PLAINTEXT://:1,CONTROLLER://:2", advertised_listeners="PLAINTEXT://a:1,CONTROLLER://a:2"
    )
    assert settings.broker_listeners == (Listener("PLAINTEXT", "", 1, "PLAINTEXT"),)
    assert settings.controller_listeners == (Listener("CONTROLLER", "", 2, "PLAINTEXT"),)
    assert settings.advertised == (Listener("PLAINTEXT", "a", 1, "PLAINTEXT"),)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"listeners": "9092"}, "listeners=9092: expected NAME://HOST:PORT with a port up to 65535"),
        ({"listeners": "PLAINTEXT://:70000"}, "expected NAME://HOST:PORT with a port up to 65535"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "the name PLAINTEXT is used twice"),
        ({"listeners": "INSIDE://:1"}, "no protocol is known for INSIDE; add INSIDE:PLAINTEXT to listener.security"),
        ({"listeners": "SSL://:1"}, "SSL is not supported yet; only PLAINTEXT listeners are"),
        ({"listeners": "CONTROLLER://:1"}, "a broker needs a listener whose name is not one of controller.listener"),
        ({"listeners": "PLAINTEXT://h:1,CONTROLLER://h:1"}, "h:1 is used twice"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no client can connect there; name a reachable host"),
        ({"advertised_listeners": "SSL://a:1"}, "SSL is not among the listeners; add it there"),
        ({"inter_broker_listener_name": "INSIDE"}, "inter.broker.listener.name=INSIDE: expected one of PLAINTEXT"),
        ({"listener_security_protocol_map": "A=B"}, "listener.security.protocol.map=A=B: expected NAME:PROTOCOL"),
    ],
)
def test_a_refusal_says_what_to_do(names: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse(**names)
    assert message in str(refusal.value)


def test_two_listeners_may_both_ask_for_a_free_port() -> None:
    assert len(parse(listeners="PLAINTEXT://:0,CONTROLLER://:0").broker_listeners) == 1


def test_a_controller_needs_no_listener_for_clients() -> None:
    assert parse(process_roles="controller", listeners="CONTROLLER://:1").broker_listeners == ()


@pytest.mark.parametrize(
    ("text", "host", "port", "url"),
    [
        ("127.0.0.1:9644", "127.0.0.1", 9644, "http://127.0.0.1:9644"),
        ("http://localhost:0", "localhost", 0, "http://localhost:0"),
        ("[::1]:9644", "::1", 9644, "http://[::1]:9644"),
    ],
)
def test_http_is_spoken_where_it_is_asked_for(text: str, host: str, port: int, url: str) -> None:
    settings, notes = parse_settings({"http.listener": text})
    assert settings.http is not None
    assert (settings.http.host, settings.http.port, settings.http.url) == (host, port, url)
    assert notes == []
    assert parse_settings({})[0].http is None


@pytest.mark.parametrize("text", ["0.0.0.0:9644", ":9644", "[::]:9644", "odin.example:9644", "127.evil.example:1"])
def test_others_than_this_machine_need_a_token(text: str) -> None:
    for token in ({}, {"http.token": ""}):
        with pytest.raises(ValueError, match=r"set http\.token, or listen on 127\.0\.0\.1"):
            parse_settings({"http.listener": text, **token})
    assert parse_settings({"http.listener": text, "http.token": "secret"})[0].http is not None


@pytest.mark.parametrize("text", ["9644", "127.0.0.1", "127.0.0.1:99999", "https://127.0.0.1:1", "::1:9644"])
def test_another_form_of_http_listener_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_settings({"http.listener": text})


def test_a_broker_that_is_no_controller_speaks_no_http_and_says_so() -> None:
    named = {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "9@localhost:9093"}
    settings, notes = parse_settings({**named, "http.listener": "127.0.0.1:9644"})
    assert settings.http is None
    assert any("only controllers speak HTTP" in note for note in notes)
