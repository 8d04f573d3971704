"""How long a broker waits for a controller that does not answer."""

from __future__ import annotations

from random import Random

from bifrost.broker.membership import membership, replication_channel
from bifrost.settings import parse_settings
from tests.unit.broker.stand_ins import on_loop
from tests.unit.broker.test_odin import NoWayThere, Watching


@on_loop
async def test_a_busy_controller_has_half_a_session_and_there_is_another_half_to_be_heard_by_another() -> None:
    """Not the patience of voters with each other: brokers hung up on a controller that had more to do than that."""
    settings, _ = parse_settings({"broker.session.timeout.ms": "9000", "controller.quorum.request.timeout.ms": "2000"})
    odin = Watching().odin
    heartbeats, _ = membership(settings, odin, NoWayThere(), Random(1))
    for channel in (heartbeats, replication_channel(settings, odin, NoWayThere())):
        assert channel._patience_s == 4.5
