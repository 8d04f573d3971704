"""Where a pipeline's session comes from, as far as no Spark has to start for it."""

from __future__ import annotations

import pytest

from bifrost.client.errors import UnsupportedError
from bifrost.pipeline.connect import connected


def test_nothing_is_sent_to_a_server_that_runs_already() -> None:
    with (
        pytest.raises(UnsupportedError, match="a server that runs already: sc://elsewhere:15002"),
        connected("readings", "sc://elsewhere:15002", {}, {}, ship="venv"),
    ):
        pass
