"""The compatibility matrix says what the compat tests do: a tick for each client that a test really runs with.

A row names its test in a comment. Which clients run it is asked of pytest's own collection, and what a client does not
offer of the adapters in `tests/compat`. When the two part, the failure shows the row as it should be.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from functools import cache
from types import SimpleNamespace

from tests.docs.blocks import ROOT

COLUMNS = {
    "confluent-kafka": "confluent",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
    "Java": "java",
    "franz-go": "franz-go",
    "kafkajs": "kafkajs",
    "kcat": "kcat",
}
NEWER = "-848"
TICK, LACKING, UNTESTED = "✓", "\N{EN DASH}", ""

WANTS = {
    "null as the value of a header": "null-header-values",
    "timestamps of its own": "timestamps",
    "static members": "static",
    "cooperative rebalances": "cooperative",
    "a pattern, also for topics that come later": "later-topics",
    "commits when it says so": "manual-commit",
    "deletes offsets": "delete-offsets",
}
"""Rows that need something of the client that not every client has."""

_ROW = re.compile(r"^\| (?P<feature>[^|]+?) <!-- (?P<file>\w+\.py)::(?P<test>\w+) --> \|(?P<cells>(?:[^|]*\|){7})$")


@cache
def compat() -> SimpleNamespace:
    """What `tests/compat` knows of its clients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python, when it is imported
        from tests.compat.clients.base import AdminClient
        from tests.compat.clients.group_admin import GROUP_ADMINS
        from tests.compat.conftest import CLIENTS
        from tests.compat.members.flavours import FLAVOURS

    return SimpleNamespace(clients=CLIENTS, admins=GROUP_ADMINS, flavours=FLAVOURS, admin_client=AdminClient)


@cache
def collected() -> dict[tuple[str, str], frozenset[str]]:
    """The clients of each test, by file and name."""
    command = [sys.executable, "-m", "pytest", "tests/compat", "--collect-only", "-q", "-p", "no:randomly"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    names = {*compat().clients, *compat().flavours, *compat().admins}
    either = "|".join(sorted(names, key=len, reverse=True))
    clients = re.compile(rf"^tests/compat/(\w+\.py)::(\w+)\[bifrost-(?:[^\]]*?-)??({either})(?:-[^\]]*)?\]$")
    found: dict[tuple[str, str], set[str]] = {}
    for line in result.stdout.splitlines():
        item = clients.match(line)
        if item is not None:
            found.setdefault((item[1], item[2]), set()).add(item[3])
    return {key: frozenset(names) for key, names in found.items()}


def matrix() -> list[tuple[str, re.Match[str]]]:
    """The rows, each with the heading above it."""
    heading, rows = "", []
    for line in (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        row = _ROW.match(line)
        if row is not None:
            rows.append((heading, row))
    return rows


def cell(client: str, heading: str, row: re.Match[str]) -> str:
    newer = "KIP-848" in heading
    name = client + NEWER if newer else client
    if name not in collected().get((row["file"], row["test"]), frozenset()):
        is_admins = row["file"] == "test_topic_admin.py" and not issubclass(
            compat().clients[client], compat().admin_client
        )
        return LACKING if is_admins else UNTESTED
    return LACKING if WANTS.get(row["feature"]) in lacks(name, heading, row) else TICK


def lacks(name: str, heading: str, row: re.Match[str]) -> frozenset[str]:
    if row["file"] == "test_group_admin.py":
        return frozenset(compat().admins[name].lacks)
    if "roup" in heading:
        flavour = compat().flavours[name]
        # What the broker assigns is cooperative by itself.
        return frozenset(flavour.lacks - ({"cooperative"} if flavour.protocol == "consumer" else set()))
    return frozenset(compat().clients[name].lacks)


def test_every_row_of_the_matrix_says_what_is_tested() -> None:
    wrong = []
    for heading, row in matrix():
        assert (row["file"], row["test"]) in collected(), f"no such test runs with clients: {row[0]}"
        right = " | ".join(cell(client, heading, row) for client in COLUMNS.values())
        if right != " | ".join(each.strip() for each in row["cells"].split("|")[:-1]):
            wrong.append(f"{heading}: | {row['feature']} <!-- {row['file']}::{row['test']} --> | {right} |")
    assert wrong == [], "these rows should be"


def test_the_matrix_leaves_out_no_client_and_no_test_that_runs_with_all() -> None:
    assert set(COLUMNS.values()) == set(compat().clients)
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    headings = re.findall(r"^\| with what \|.*$", page, re.MULTILINE)
    assert [heading.split("|")[2:9] for heading in headings] == [[f" {name} " for name in COLUMNS]] * 6
    with_all = {key for key, names in collected().items() if names >= set(compat().clients)}
    assert with_all <= {(row["file"], row["test"]) for _, row in matrix()}


def test_the_versions_are_those_that_are_tested() -> None:
    from tests.compat import oracle

    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    franz = re.search(r"twmb/franz-go v(\S+)", (ROOT / "tests/compat/go/go.mod").read_text())
    assert franz is not None
    kafkajs = json.loads((ROOT / "tests/compat/js/package.json").read_text())["dependencies"]["kafkajs"]
    versions = [pins[name] for name in list(COLUMNS)[:3]] + [oracle.VERSION, franz[1], kafkajs, "the system's"]
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert f"| version | {' | '.join(versions)} |" in page
