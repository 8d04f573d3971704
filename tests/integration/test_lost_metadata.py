"""Metadata that was lost takes no records along: their logs are set aside, and an operator can take them back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bifrost.errors import ErrorCode
from bifrost.testing import Cluster
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire, batch

METADATA = "__cluster_metadata-0"


def strays(cluster: Cluster) -> list[Path]:
    return sorted(cluster.node_dir(0).glob("*-stray"))


def test_a_topic_that_the_metadata_forgot_can_be_taken_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Cluster() as cluster:
        home = cluster.node_dir(0)
        cluster.stop(0)
        shutil.copytree(home / METADATA, tmp_path / "old")
        cluster.restart(0)
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "orders", 2)
            for number in range(10):
                assert wire.produce("orders", batch(b"%d" % number)).base_offset == number
        cluster.stop(0)
        shutil.copytree(home / METADATA, tmp_path / "new")

        restore(tmp_path / "old", home / METADATA)
        cluster.restart(0)
        first, second = strays(cluster)
        assert [path.name.split(".")[0] for path in (first, second)] == ["orders-0", "orders-1"]
        assert f"stray log kept directory={home}/orders-0 as={first} reason='unknown to the metadata'" in caplog.text
        with Wire(cluster.bootstrap) as wire:
            assert wire.describe("orders").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            create_topic(wire, "orders")
            assert wire.read("orders") == [], "another topic, which has nothing of the first"
        caplog.clear()
        cluster.restart(0)
        assert f"directory={home} count=2 first={first.name}" in caplog.text
        cluster.stop(0)

        restore(tmp_path / "new", home / METADATA)
        shutil.rmtree(home / "orders-0")
        first.rename(home / "orders-0")
        second.rename(home / "orders-1")
        cluster.restart(0)
        with Wire(cluster.bootstrap) as wire:
            assert [record.value for record in wire.read("orders")] == [b"%d" % number for number in range(10)]


def restore(backup: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(backup, place)
