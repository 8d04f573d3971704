"""The image is made of files that there are, runs a command that there is, and says where it can be reached."""

from __future__ import annotations

import tomllib

import pytest

from bifrost.settings import Settings, parse_properties, parse_settings
from tests import dockerfile
from tests.dockerfile import ROOT
from tests.unit.test_deploy import FILES, parse_command


def settings_of(path: str) -> Settings:
    (source,) = (each.sources[0] for each in dockerfile.copied() if each.target == path)
    settings, notes = parse_settings(parse_properties((ROOT / source).read_text(encoding="utf-8")))
    assert notes == []
    return settings


def test_everything_that_is_copied_is_there_and_not_kept_out() -> None:
    first, *patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert first == "*", "everything is kept out that is not let in"
    let_in = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    stages = [each.words[-1] for each in dockerfile.instructions() if each.name == "FROM" and "AS" in each.words]
    for each in dockerfile.copied():
        if each.stage is not None:
            assert each.stage in stages
            continue
        for source in each.sources:
            assert (ROOT / source).exists(), f"COPY {source}"
            assert any(f"{source}/".startswith(f"{name}/") for name in let_in), f"COPY {source}"


def test_what_the_build_reads_is_copied_before_it() -> None:
    names = [each.name for each in dockerfile.instructions()]
    before = names.index("RUN")
    sources = {
        word for each in dockerfile.instructions()[:before] if each.name == "COPY" for word in each.words[:-1]
    }  # fmt: skip
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= sources
    install = dockerfile.instructions()[before].rest
    assert "--constraint constraints.txt" in install
    assert "constraints.txt" in sources


def test_the_image_runs_a_command_that_there_is() -> None:
    assert dockerfile.only("ENTRYPOINT").words == ["bifrost"]
    command = parse_command(dockerfile.only("CMD").words)
    assert command.info_name == "server"
    config = command.params["config"]
    assert settings_of(str(config)).process_roles == ("broker", "controller")


@pytest.mark.parametrize("arguments", [["server", "--confg", "x"], ["serve"], ["server", "x"]])
def test_a_command_that_there_is_not_would_be_noticed(arguments: list[str]) -> None:
    with pytest.raises(Exception, match=r"No such|unexpected extra"):
        parse_command(arguments)


def test_ports_that_are_told_are_those_of_the_settings_files() -> None:
    ports = set()
    for path in FILES:
        settings, _ = parse_settings(parse_properties(path.read_text(encoding="utf-8")))
        ports |= {one.port for one in (*settings.broker_listeners, *settings.controller_listeners)}
        ports |= {settings.http.port} if settings.http is not None else set()
    assert {int(word) for word in dockerfile.only("EXPOSE").words} == ports


def test_health_is_asked_where_the_image_listens_unless_told_otherwise() -> None:
    settings = settings_of(str(parse_command(dockerfile.only("CMD").words).params["config"]))
    assert int(dockerfile.environment()["BIFROST_HEALTH_PORT"]) in [one.port for one in settings.broker_listeners]
    assert "os.environ['BIFROST_HEALTH_PORT']" in dockerfile.health_check()[-1]


def test_data_are_where_the_volume_is_and_the_user_may_write() -> None:
    (volume,) = dockerfile.only("VOLUME").words
    settings = settings_of(str(parse_command(dockerfile.only("CMD").words).params["config"]))
    assert all(path.startswith(f"{volume}/") for path in settings.log_directories)
    user = dockerfile.only("USER").rest
    made = next(each.rest for each in dockerfile.instructions() if "install --directory" in each.rest)
    assert f"--owner {user}" in made
    assert made.endswith(f" {volume}")
