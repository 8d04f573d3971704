"""Which cluster is meant, and what is said about files and addresses that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bifrost.client.clusters import Connection, clusters, config_path, resolve
from bifrost.client.errors import ConfigError

FILE = """
default = "local"

[clusters.local]
bootstrap = "near:1"

[clusters.prod]
bootstrap = ["a:1", "b:2"]
security.protocol = "SASL_SSL"
"sasl.username" = "björn"
socket.keepalive.enable = true
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("BIFROST_BOOTSTRAP", "BIFROST_CLUSTER", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config.toml"
    monkeypatch.setenv("BIFROST_CONFIG", str(path))
    return path


def test_the_first_that_says_anything_decides(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve() == Connection("localhost:9092", {}, None)
    config.write_text(FILE)
    assert resolve() == Connection("near:1", {}, "local")
    monkeypatch.setenv("BIFROST_CLUSTER", "prod")
    assert resolve().name == "prod"
    monkeypatch.setenv("BIFROST_BOOTSTRAP", "env:1")
    assert resolve() == Connection("env:1", {}, None)
    assert resolve(cluster="local").bootstrap == "near:1"
    assert resolve("given:1").bootstrap == "given:1"


def test_settings_of_a_named_cluster(config: Path) -> None:
    config.write_text(FILE)
    found = resolve(cluster="prod")
    assert found.bootstrap == "a:1,b:2"
    assert found.config == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "björn",
        "socket.keepalive.enable": "true",
    }
    assert str(found) == "prod (a:1,b:2)"
    assert list(clusters()) == ["local", "prod"]


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BIFROST_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path() == tmp_path / "bifrost" / "config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_path() == tmp_path / ".config" / "bifrost" / "config.toml"


@pytest.mark.parametrize("address", ["host", "host:9092", "127.0.0.1:1,b:65535", "[::1]:9092", "SSL://host:9093"])
def test_addresses(address: str) -> None:
    assert resolve(address).bootstrap == address


@pytest.mark.parametrize(
    "address", ["", "host:", "host:port", "host:0", "host:65536", ":9092", "a:1,,b:2", "a b:1", []]
)
def test_what_is_no_address(address: str | list[str]) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap: .*Write it as host:port"):
        resolve(address)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("[clusters.prod]\nbootstrap='a:1'", "prd", "no cluster prd in FILE. Did you mean prod?"),
        ("[clusters.prod]\nbootstrap='a:1'", "xyz", "no cluster xyz in FILE. It names: prod."),
        ("", "xyz", "no cluster xyz in FILE. It names none."),
        ("[clusters.x]", "x", "FILE: cluster x has no address. Add a line"),
        ("[clusters.x]\nbootstrap=1", "x", "FILE: clusters.x.bootstrap: '1' is not an address."),
        ("clusters=1", "x", "FILE: clusters are not tables."),
        ("default=", "x", "FILE is not TOML: "),
        ("default=1", None, "FILE: default is not the name of a cluster."),
        ("default='x'", None, "FILE: default: no cluster x in FILE."),
    ],
)
def test_what_is_wrong_with_a_file(text: str, name: str | None, expected: str, config: Path) -> None:
    config.write_text(text)
    with pytest.raises(ConfigError) as raised:
        resolve(cluster=name)
    assert str(raised.value).replace(str(config), "FILE").startswith(expected)


def test_a_file_that_is_not_there_or_not_readable(config: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no cluster prod in .*There is no such file; make it with \[clusters.prod\]"
    ):
        resolve(cluster="prod")
    config.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve()


def test_an_address_and_a_name() -> None:
    with pytest.raises(ConfigError, match=r"both an address and the name of a cluster were given. Give one of them"):
        resolve("a:1", cluster="prod")
