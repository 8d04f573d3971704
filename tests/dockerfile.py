"""The Dockerfile in `deploy/`, read as Docker would: what can be said of it where no engine runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "deploy" / "docker" / "Dockerfile"


class Instruction(NamedTuple):
    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """In either form: a list in JSON, or words."""
        found: list[str] = json.loads(self.rest) if self.rest.startswith("[") else self.rest.split()
        return found


class Copied(NamedTuple):
    """Files that are taken into the image, from the project or from another stage."""

    sources: list[str]
    target: str
    stage: str | None


def instructions() -> list[Instruction]:
    text = "\n".join(line for line in PATH.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text)
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line]


def only(name: str) -> Instruction:
    """The instruction that there is one of."""
    (found,) = (each for each in instructions() if each.name == name)
    return found


def copied() -> list[Copied]:
    found = []
    for each in instructions():
        if each.name == "COPY":
            stage = next((word.removeprefix("--from=") for word in each.words if word.startswith("--from=")), None)
            *sources, target = (word for word in each.words if not word.startswith("--"))
            found.append(Copied(sources, target, stage))
    return found


def environment() -> dict[str, str]:
    """What every process of the image finds set."""
    return dict(word.split("=", 1) for word in only("ENV").words)


def health_check() -> list[str]:
    """The command that tells Docker whether the node is well."""
    _, _, command = only("HEALTHCHECK").rest.partition("CMD ")
    found: list[str] = json.loads(command)
    return found
