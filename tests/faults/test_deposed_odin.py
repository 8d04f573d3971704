"""An Odin that leads no more and lives: cut off from the others it has an image of how things were, in which a dead
broker leads. Whoever asks it over HTTP is asked to wait, from the first moment on, and never told of the past."""

from __future__ import annotations

import pytest

from tests.faults.conftest import StartRealm
from tests.faults.realm import BROKERS, ODINS, Realm
from tests.integration.http_client import Answer, ask
from tests.waiting import eventually

TOPIC = "orders"
CERTAIN = (
    f"/v1/leader?topic={TOPIC}",
    f"/v1/leader?topic={TOPIC}&partition=0",
    f"/v1/topics/{TOPIC}",
    f"/v1/topics/{TOPIC}/seq",
    "/v1/quorum",
)
"""What is said there is so, or nothing is said."""
SETTINGS = {
    "http.listener": "127.0.0.1:0",
    "controller.quorum.request.timeout.ms": 1000,  # every answer that nobody can give takes this long
}
OTHERS = {"everybody": (*BROKERS, *ODINS), "the other Odins": ODINS}


def answers(realm: Realm, odin: int, path: str) -> Answer:
    return ask(realm.node(odin).http_url, path)


def assert_says_wait(answer: Answer, path: str) -> None:
    assert answer.status == 503, f"{path}: {answer.status} {answer.body!r}"
    assert answer.json["status"] == "HOGO LO", path
    assert answer.json["waiting_for"], path
    assert int(answer.headers["Retry-After"]) >= 1, path
    assert not {"leader", "leaders", "partitions", "seq"} & answer.json.keys(), path


def named_leader(realm: Realm, odin: int) -> int | None:
    """Of the topic's only partition; None if it asks for patience."""
    answer = answers(realm, odin, CERTAIN[0])
    if answer.status != 200:
        assert_says_wait(answer, CERTAIN[0])
        return None
    (told,) = answer.json["leaders"]
    leader: int = told["leader"]
    return leader


@pytest.mark.parametrize("cut_from", OTHERS)
def test_an_odin_that_was_deposed_and_lives_names_nobody(start_realm: StartRealm, cut_from: str) -> None:
    realm = start_realm(links="proxy", odin_settings=SETTINGS)
    realm.create(TOPIC, partitions=1)
    deposed, old_leader = realm.active_odin(), realm.leader(TOPIC)
    eventually(lambda: named_leader(realm, deposed) == old_leader)
    assert answers(realm, deposed, "/v1/quorum").json["leader"] == deposed
    with realm.parted((deposed,), OTHERS[cut_from]):
        # Before anybody, itself included, has noticed anything.
        assert_says_wait(answers(realm, deposed, CERTAIN[0]), CERTAIN[0])
        eventually(lambda: set(realm.odins_that_lead()) - {deposed}, "another Odin is elected")
        (active,) = set(realm.odins_that_lead()) - {deposed}
        realm.kill(old_leader)
        eventually(lambda: named_leader(realm, active) not in (None, old_leader), "another broker leads")
        for path in CERTAIN:
            assert_says_wait(answers(realm, deposed, path), path)
        made = ask(realm.node(deposed).http_url, "/v1/topics", "POST", {"topic": "late", "partitions": 1})
        assert_says_wait(made, "POST /v1/topics")
        eventually(lambda: answers(realm, deposed, "/readyz").status == 503)
        assert "bifrost_quorum_active 0\n" in answers(realm, deposed, "/metrics").body.decode()
        new_leader = named_leader(realm, active)
    # What waited on the way arrives now, answers to questions from before the election among it.
    eventually(lambda: named_leader(realm, deposed) is not None, "it answers again")
    assert named_leader(realm, deposed) == new_leader
    assert answers(realm, deposed, "/v1/quorum").json["leader"] == active
    assert answers(realm, deposed, "/v1/topics/late").status == 404
    for path in CERTAIN:
        assert answers(realm, deposed, path).status == 200, path
