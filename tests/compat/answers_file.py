"""Kafka's recorded answers: one JSON file per API, one line per field of an answer.

A field's value is written once where all versions agree, and per range of versions where they do not. Paths name lists
by position; `path#` is a list's length, so that a missing entry shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.compat.cache import folder, locked
from tests.compat.wire import Answer

FOLDER = Path(__file__).parent / "answers"

Fields = dict[str, dict[int, Any]]
"""path -> version -> value"""


def flatten(answers: Mapping[int, list[Answer]]) -> Fields:
    found: Fields = {}
    for version, conversation in answers.items():
        for number, answer in enumerate(conversation):
            start = f"{number + 1}:" if len(conversation) > 1 else ""
            for path, value in _leaves(answer, start):
                found.setdefault(path, {})[version] = value
    return found


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        dotted = "" if not path or path.endswith(":") else "."
        return [leaf for key, each in value.items() for leaf in _leaves(each, f"{path}{dotted}{key}")]
    if isinstance(value, list):
        items = [leaf for number, each in enumerate(value) for leaf in _leaves(each, f"{path}[{number}]")]
        return [(f"{path}#", len(value)), *items]
    return [(path, value)]


def load(api: str, name: str) -> Fields | None:
    """What Kafka said, or None when the question is new."""
    file = FOLDER / f"{api}.json"
    kept = json.loads(file.read_text()).get(name) if file.exists() else None
    if kept is None:
        return None
    first, last = kept["versions"]
    return {path: _expand(value, range(first, last + 1)) for path, value in kept["fields"].items()}


def _expand(value: Any, versions: range) -> dict[int, Any]:
    if not isinstance(value, dict):
        return dict.fromkeys(versions, value)
    spread = {}
    for key, each in value.items():
        first, _, last = key.removeprefix("v").partition("-")
        spread.update(dict.fromkeys(range(int(first), int(last or first) + 1), each))
    return spread


def save(api: str, name: str, versions: range, fields: Fields) -> None:
    with locked(folder() / "answers.lock"):
        file = FOLDER / f"{api}.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        whole = {path: _fold(values, versions) for path, values in fields.items()}
        kept[name] = {"versions": [versions.start, versions.stop - 1], "fields": whole}
        file.write_text(json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n")


def _fold(values: dict[int, Any], versions: range) -> Any:
    """One value when every version has it, else the value of each run of versions."""
    if set(values) == set(versions) and all(each == values[versions.start] for each in values.values()):
        return values[versions.start]
    runs: list[list[int]] = []
    for version in sorted(values):
        if runs and runs[-1][-1] == version - 1 and values[runs[-1][-1]] == values[version]:
            runs[-1].append(version)
        else:
            runs.append([version])
    return {f"v{run[0]}" if len(run) == 1 else f"v{run[0]}-{run[-1]}": values[run[0]] for run in runs}


def differences(kafka: Fields, other: Fields) -> list[str]:
    """One line per field that is not the same, with the versions concerned."""
    lines = []
    for path in sorted({*kafka, *other}):
        theirs, ours = kafka.get(path, {}), other.get(path, {})
        wrong = [version for version in sorted({*theirs, *ours}) if _at(theirs, version) != _at(ours, version)]
        if wrong:
            sample = wrong[-1]
            versions = ", ".join(f"v{version}" for version in wrong)
            lines.append(f"{path}: Kafka {_at(theirs, sample)}, here {_at(ours, sample)} ({versions})")
    return lines


def _at(values: dict[int, Any], version: int) -> str:
    return json.dumps(values[version]) if version in values else "nothing"
