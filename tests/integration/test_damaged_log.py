"""A bit that flips in a log on disk: nobody is handed the record as if it had been written so."""

from __future__ import annotations

from pathlib import Path

import pytest

from bifrost import Consumer, CorruptDataError, Producer
from bifrost.testing import Cluster


def test_a_consumer_raises_where_a_checksum_is_wrong(tmp_path: Path) -> None:
    """librdkafka would not look by itself."""
    with Cluster(data_dir=tmp_path) as cluster:
        with Producer(bootstrap=cluster.bootstrap) as producer:
            for number in range(3):
                producer.send("orders", f"value-{number}", partition=0)
                producer.flush()
        (log,) = cluster.node_dir(0).glob("orders-0/*.log")
        with log.open("r+b") as file:
            file.seek(log.read_bytes().index(b"value-1"))
            file.write(b"w")
        with Consumer("orders", bootstrap=cluster.bootstrap, from_beginning=True) as consumer:
            found: list[object] = []
            for _ in range(2):  # who goes on reading gets what came before, and then meets it again
                with pytest.raises(CorruptDataError, match="orders-0 cannot be read from offset 1 on") as caught:
                    found.extend(message.value for message in consumer)
            assert found == [b"value-0"]
            assert "bifrost log dump" in str(caught.value)
