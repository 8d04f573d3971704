"""What tests ask of a cluster's logs, by itself: no process is started for it."""

from __future__ import annotations

from pathlib import Path

from tests.faults.realm import ODINS, Realm
from tests.faults.test_data_links import fenced


def test_what_nodes_said_before_does_not_count(tmp_path: Path) -> None:
    realm = Realm(tmp_path)
    first, second, silent = ODINS
    realm.log_path(first).write_text("broker fenced id=1 epoch=7\n")
    said = realm.from_now_on(*ODINS)
    assert fenced(said) == set()
    for odin, line in ((first, "broker fenced id=2 epoch=9\n"), (second, "broker fenced id=0 epoch=8\n")):
        with realm.log_path(odin).open("a") as log:
            log.write(line)
    assert fenced(said) == {"0", "2"}
    assert realm.said([first], "fenced") == ["broker fenced id=1 epoch=7", "broker fenced id=2 epoch=9"]
    assert realm.said([silent], "") == []
    realm.cluster.close()
