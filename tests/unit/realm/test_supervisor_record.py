"""What a supervisor tells of its cluster does not depend on who was quickest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from bifrost.realm.plan import Ports, Shape, plan
from bifrost.realm.supervision import Policy
from bifrost.realm.supervisor import Supervisor, Watcher


def test_http_is_the_first_odins_whoever_was_ready_first(tmp_path: Path) -> None:
    async def story() -> None:
        shape = Shape.of(1, 3)
        nodes = plan(shape, tmp_path, Ports.counted_from(9092, shape, http=True))
        supervisor = Supervisor(nodes, tmp_path, cast("Watcher", None), policy=Policy(restarts=False))
        assert supervisor._record().http is None
        for name, port in (("odin-102", 9646), ("odin-101", 9645), ("odin-100", 9644)):
            supervisor._told[name] = {"bootstrap": "127.0.0.1:1", "http": f"http://127.0.0.1:{port}"}
        assert supervisor._record().http == "http://127.0.0.1:9644"
        assert [node.http for node in supervisor._record().nodes if not node.is_broker] == [
            "http://127.0.0.1:9644",
            "http://127.0.0.1:9645",
            "http://127.0.0.1:9646",
        ]

    asyncio.run(story())


def test_http_is_that_of_an_odin_that_runs(tmp_path: Path) -> None:
    async def story() -> None:
        shape = Shape.of(1, 3)
        nodes = plan(shape, tmp_path, Ports.counted_from(9092, shape, http=True))
        supervisor = Supervisor(nodes, tmp_path, cast("Watcher", None), policy=Policy(restarts=False))
        core = supervisor._core
        core.on_begin(0)
        for node in nodes:
            if not node.is_broker:
                supervisor._told[node.name] = {"http": f"http://{node.name}"}
            core.on_ready(node.name, "", 1)
        assert supervisor._record().http == "http://odin-100"
        core.on_exit("odin-100", "was killed", 2)
        assert supervisor._record().http == "http://odin-101"

    asyncio.run(story())
