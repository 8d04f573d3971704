"""Listener addresses as settings write them: NAME://HOST:PORT, with a map from names to security protocols.

Decides what the text means and whether it makes sense; opens nothing and looks up no host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

_ADDRESS = re.compile(r"([A-Za-z0-9_-]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*):([0-9]{1,5})")
_HTTP_ADDRESS = re.compile(r"(?:http://)?(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*):([0-9]{1,5})/?")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVED = ("PLAINTEXT",)


class Listener(NamedTuple):
    """One named address; an empty host stands for every interface, port 0 for one that the system chooses."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class HttpListener(NamedTuple):
    """Where HTTP is spoken; an empty host stands for every interface, port 0 for one that the system chooses."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def read_http_listener(text: str) -> HttpListener:
    """ValueError if it is not HOST:PORT."""
    match = _HTTP_ADDRESS.fullmatch(text.strip())
    if match is None or int(match[2]) > 65_535:
        raise ValueError(f"http.listener={text}: expected HOST:PORT with a port up to 65535, such as 127.0.0.1:9644")
    return HttpListener(match[1].strip("[]"), int(match[2]))


def is_loopback(host: str) -> bool:
    """Whether only this machine can come in there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_listeners(setting: str, addresses: Iterable[str], protocol_map: str) -> tuple[Listener, ...]:
    """The listeners that `addresses` describe; ValueError names the setting and what is wrong with it."""
    protocols = _read_protocols(protocol_map)
    found: dict[str, Listener] = {}
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if match is None or int(match[3]) > 65_535:
            raise ValueError(f"{setting}={address}: expected NAME://HOST:PORT with a port up to 65535")
        name, host = match[1].upper(), match[2].strip("[]")
        protocol = protocols.get(name, name)
        if protocol not in _PROTOCOLS:
            raise ValueError(
                f"{setting}={address}: no protocol is known for {name};"
                f" add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        if name in found:
            raise ValueError(f"{setting}={address}: the name {name} is used twice; every listener needs its own")
        found[name] = Listener(name, host, int(match[3]), protocol)
    return tuple(found.values())


def check_listeners(
    broker: tuple[Listener, ...], controller: tuple[Listener, ...], advertised: tuple[Listener, ...], inter_broker: str
) -> None:
    """Refuse what could not be served: a protocol that is not spoken, a port used twice, an address without use."""
    if not broker:
        raise ValueError("listeners: a broker needs a listener whose name is not one of controller.listener.names")
    check_served((*broker, *controller))
    names = [one.name for one in broker]
    for one in advertised:
        if one.name not in names:
            raise ValueError(f"advertised.listeners={one}: {one.name} is not among the listeners; add it there")
        if one.host in ("0.0.0.0", "::"):
            raise ValueError(f"advertised.listeners={one}: no client can connect there; name a reachable host")
    if inter_broker not in names:
        raise ValueError(f"inter.broker.listener.name={inter_broker}: expected one of {', '.join(names)}")


def check_served(listeners: tuple[Listener, ...]) -> None:
    """Refuse a protocol that is not spoken, and a port that is used twice."""
    for one in listeners:
        if one.protocol not in _SERVED:
            raise ValueError(
                f"listeners={one}: {one.protocol} is not supported yet; only {', '.join(_SERVED)} listeners are"
            )
    places = [(one.host, one.port) for one in listeners if one.port]
    for host, port in places:
        if places.count((host, port)) > 1:
            raise ValueError(f"listeners: {host}:{port} is used twice; give each listener a port of its own")


def _read_protocols(protocol_map: str) -> dict[str, str]:
    protocols = {}
    for entry in filter(None, (part.strip() for part in protocol_map.split(","))):
        name, colon, protocol = entry.upper().partition(":")
        if not colon or protocol not in _PROTOCOLS:
            raise ValueError(
                f"listener.security.protocol.map={entry}: expected NAME:PROTOCOL with one of {', '.join(_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols
