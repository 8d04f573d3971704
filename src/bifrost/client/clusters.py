"""Where the cluster is: an argument, the environment, the configuration file, or this machine.

The first of these that says anything decides:

1. the arguments `bootstrap` and `cluster`
2. `BIFROST_BOOTSTRAP`, then `BIFROST_CLUSTER`
3. `default` in the configuration file
4. `localhost:9092`

The configuration file is `$BIFROST_CONFIG`, or else `bifrost/config.toml` in `$XDG_CONFIG_HOME` (`~/.config`):

    default = "local"

    [clusters.local]
    bootstrap = "localhost:9092"

    [clusters.prod]
    bootstrap = ["kafka-1:9093", "kafka-2:9093"]
    security.protocol = "SASL_SSL"      # any setting of librdkafka
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bifrost.client.errors import ConfigError, nearest

DEFAULT_BOOTSTRAP = "localhost:9092"
_ADDRESS = "Write it as host:port, such as localhost:9092."


class Connection(NamedTuple):
    """How to reach a cluster."""

    bootstrap: str
    """`host:port`, or several of them with commas between."""
    config: dict[str, str]
    """Settings of librdkafka that the configuration file has for this cluster, without the address."""
    name: str | None
    """The cluster's name in the configuration file, if that is where it was found."""

    def __str__(self) -> str:
        return f"{self.name} ({self.bootstrap})" if self.name else self.bootstrap


def resolve(bootstrap: str | Sequence[str] | None = None, *, cluster: str | None = None) -> Connection:
    """Decide which cluster is meant. ConfigError says what is wrong and in which file."""
    if bootstrap is not None and cluster is not None:
        raise ConfigError("both an address and the name of a cluster were given", "Give one of them.")
    if bootstrap is not None:
        return Connection(_addresses(bootstrap, "bootstrap"), {}, None)
    if cluster is not None:
        return _named(cluster, "")
    if address := os.environ.get("BIFROST_BOOTSTRAP"):
        return Connection(_addresses(address, "BIFROST_BOOTSTRAP"), {}, None)
    if name := os.environ.get("BIFROST_CLUSTER"):
        return _named(name, "BIFROST_CLUSTER: ")
    path = config_path()
    default = _read(path).get("default")
    if default is None:
        return Connection(DEFAULT_BOOTSTRAP, {}, None)
    if not isinstance(default, str):
        raise ConfigError(f"{path}: default is not the name of a cluster", 'Write it as default = "NAME".')
    return _named(default, f"{path}: default: ")


def config_path() -> Path:
    """The configuration file, whether it exists or not."""
    if named := os.environ.get("BIFROST_CONFIG"):
        return Path(named).expanduser()
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "bifrost" / "config.toml"


def clusters() -> dict[str, Connection]:
    """Every cluster that the configuration file names."""
    return {name: _named(name, "") for name in _tables(config_path())}


def _named(name: str, source: str) -> Connection:
    path = config_path()
    tables = _tables(path)
    if name not in tables:
        hint = nearest(name, tables) or (f"It names: {', '.join(tables)}." if tables else "It names none.")
        if not path.exists():
            hint = f'There is no such file; make it with [clusters.{name}] and a line bootstrap = "host:port".'
        raise ConfigError(f"{source}no cluster {name} in {path}", hint)
    settings = _flat(tables[name])
    address = settings.pop("bootstrap", None) or settings.pop("bootstrap.servers", None)
    if address is None:
        raise ConfigError(f"{path}: cluster {name} has no address", 'Add a line bootstrap = "host:port".')
    place = f"{path}: clusters.{name}.bootstrap"
    return Connection(_addresses(address, place), {key: _text(value) for key, value in settings.items()}, name)


def _tables(path: Path) -> dict[str, Mapping[str, Any]]:
    tables = _read(path).get("clusters", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError(f"{path}: clusters are not tables", "Start each with a line [clusters.NAME].")
    return tables


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", "Correct the file.") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Check its permissions.") from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """TOML reads `security.protocol` as a table in a table; librdkafka wants the name in one piece."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _addresses(given: object, source: str) -> str:
    """Checks what can be checked without a network: librdkafka would retry a misspelt address forever."""
    parts = given.split(",") if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [given]
    addresses = [part.strip() if isinstance(part, str) else "" for part in parts]
    for address, part in zip(addresses, parts):
        host, port = split_address(address)
        if not host or not (port is None or (port.isdecimal() and 0 < int(port) < 65536)):
            raise ConfigError(
                f"{source}: {str(part)!r} is not an address", "Write it as host:port, such as localhost:9092."
            )
    if not addresses:
        raise ConfigError(f"{source}: no address", "Write it as host:port, such as localhost:9092.")
    return ",".join(addresses)


def split_address(address: str) -> tuple[str, str | None]:
    """Host and port; the port may be missing, the host may be [::1], and a protocol in front is librdkafka's matter."""
    rest = address.partition("://")[2] or address
    if rest.startswith("["):
        host, bracket, port = rest.partition("]")
        return (host[1:], port.removeprefix(":") if port else None) if bracket else ("", None)
    host, colon, port = rest.rpartition(":")
    if " " in rest:
        return "", None
    return (host, port) if colon else (rest, None)
