"""What a path does that its pure function cannot: wait until it may say no."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from tests.unit.broker.stand_ins import on_loop
from tests.unit.controller.stand_ins import cluster_of, create_one

from bifrost.controller.core.topics import NewTopic
from bifrost.controller.http import routes


@on_loop
async def test_a_topic_is_missing_only_once_this_odin_knows_what_all_know() -> None:
    image = cluster_of(0)

    async def until_current() -> None:
        create_one(image, NewTopic("new"))

    async def end_offsets(topics: list[str]) -> dict[str, list[int]]:
        return {name: [7 for _ in image.topics[name].partitions] for name in topics}

    side: Any = SimpleNamespace(image=image, until_current=until_current, end_offsets=end_offsets)
    paths: list[Any] = routes.read_routes(side).routes
    (seq,) = (one.endpoint for one in paths if one.path == "/v1/topics/{topic}/seq")
    assert json.loads((await seq("new")).body)["seq"] == [7]
