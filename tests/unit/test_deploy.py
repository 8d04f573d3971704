"""What is in `deploy/` fits the program: settings that it takes, options that it has, one address for each name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from bifrost.cli.main import app
from bifrost.settings import Settings, parse_properties, parse_settings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
TOKEN = "${BIFROST_HTTP_TOKEN:?choose a token for the HTTP side of the Odins}"
FILES = sorted((DEPLOY / "config").glob("*.properties"))


def parse_command(arguments: list[str]) -> Any:
    """As `bifrost` does before it begins: its name and its options. Raises what it would refuse them with."""
    bifrost: Any = get_command(app)
    context = bifrost.make_context("bifrost", list(arguments))
    name, command, rest = bifrost.resolve_command(context, list(arguments))
    return command.make_context(name, list(rest), parent=context)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_settings_file_is_taken_as_it_is(path: Path) -> None:
    settings, notes = parse_settings(parse_properties(path.read_text(encoding="utf-8")))
    assert notes == []
    roles = {"broker": ("broker",), "controller": ("controller",), "both": ("broker", "controller")}
    assert settings.process_roles == roles[path.stem]


def test_broker_and_controller_belong_to_one_cluster() -> None:
    broker, controller = (
        parse_properties((DEPLOY / "config" / f"{name}.properties").read_text(encoding="utf-8"))
        for name in ("broker", "controller")
    )
    assert broker["controller.quorum.voters"] == controller["controller.quorum.voters"]
    assert controller["controller.quorum.voters"].startswith(f"{controller['node.id']}@")


def has_copies(settings: Settings) -> bool:
    """Whether any one of three brokers may fail, as in a cluster of `bifrost up`, and nothing acknowledged is lost."""
    copies = settings.default_replication_factor, settings.offsets_topic_replication_factor
    return copies == (3, 3) and settings.min_insync_replicas == 2


@pytest.mark.parametrize("name", ["broker", "controller"])
def test_partitions_of_a_cluster_have_copies(name: str) -> None:
    text = (DEPLOY / "config" / f"{name}.properties").read_text(encoding="utf-8")
    assert has_copies(parse_settings(parse_properties(text))[0])


def services() -> dict[str, dict[str, Any]]:
    composed = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = composed["services"]
    return found


@pytest.mark.parametrize("name", sorted(services()))
def test_a_container_is_given_settings_that_make_sense(name: str) -> None:
    service = services()[name]
    command, *assignments = service["command"]
    assert command == "server"
    assert set(assignments[::2]) == {"--set"}
    given = [each.replace(TOKEN, "secret") for each in assignments[1::2]]
    settings, notes = parse_settings(dict(each.split("=", 1) for each in given))
    assert notes == []
    assert has_copies(settings)
    assert name in {f"heimdall-{settings.node_id}", f"odin-{settings.node_id}"}
    assert service["hostname"] == name
    assert service["volumes"] == [f"{name}:/var/lib/bifrost"]
    ports = [one.port for one in (*settings.broker_listeners, *settings.controller_listeners)]
    assert int(service["environment"]["BIFROST_HEALTH_PORT"]) in ports
    assert parse_command(service["command"]).params["assignments"] == tuple(assignments[1::2])
    for published in service.get("ports", []):
        outside, inside = published.split(":")[1:]
        if settings.http is not None:
            assert int(inside) == settings.http.port
            assert settings.http_token
            continue
        assert int(inside) in ports
        assert f"HOST://localhost:{outside}" in settings.advertised_listeners
    voters = dict(voter.split("@") for voter in settings.controller_quorum_voters)
    assert voters == {odin.removeprefix("odin-"): f"{odin}:9192" for odin in services() if odin.startswith("odin-")}


def test_the_unit_starts_a_command_that_there_is() -> None:
    unit = (DEPLOY / "systemd" / "bifrost@.service").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *arguments = command.split()
    assert program == "/opt/bifrost/bin/bifrost"
    for path in FILES:
        parsed = parse_command([each.replace("%i", path.stem) for each in arguments])
        assert (parsed.info_name, parsed.params["config"]) == ("server", f"/etc/bifrost/{path.name}")
    directory = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)
    assert directory == ["bifrost"], "which is /var/lib/bifrost, where the settings files keep data"
    for path in FILES:
        settings, _ = parse_settings(parse_properties(path.read_text(encoding="utf-8")))
        assert all(each.startswith("/var/lib/bifrost/") for each in settings.log_directories)
