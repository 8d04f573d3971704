"""One node over HTTP: what is refused and how, who is let in, what a stream does when it cannot know, what it costs."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bifrost.controller.http.door import HttpDoor
from bifrost.testing.embedded import EmbeddedNode
from tests.integration.command import Command, environment, run
from tests.integration.http_client import Stream, ask, url_of
from tests.waiting import eventually

TOKEN = "a token that nobody guesses"


def node_with(folder: Path, **settings: str) -> EmbeddedNode:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return EmbeddedNode({"node.id": "0", "log.dirs": str(folder), "http.listener": "127.0.0.1:0", **named})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    """Shared by tests that leave it as they found it."""
    node = node_with(tmp_path_factory.mktemp("http"))
    node.start()
    assert ask(node, "/v1/topics", "POST", {"topic": "orders", "partitions": 2}).status == 201
    yield node
    assert node.metrics.unexpected_errors == 0
    node.stop()


def test_the_cluster_in_a_few_numbers(node: EmbeddedNode) -> None:
    found = ask(node, "/v1/cluster").json
    expected = {"node": 0, "role": "leader", "active_controller": 0, "brokers_alive": 1, "brokers_fenced": 0}
    assert {name: found[name] for name in expected} == expected
    assert (found["partitions_without_leader"], found["partitions_under_replicated"]) == (0, 0)
    assert found["topics"] >= 1
    assert found["partitions"] >= found["topics"] + 1
    assert found["cluster_id"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error", "words"),
    [
        ("GET", "/v1/nothing", None, 404, "RESOURCE_NOT_FOUND", "/docs"),
        ("PUT", "/v1/topics", b"{}", 405, "INVALID_REQUEST", "PUT"),
        ("GET", "/v1/topics/none", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", "none"),
        ("GET", "/v1/topics/none/seq", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", "none"),
        ("GET", "/v1/configs/topics/none", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", "none"),
        ("GET", "/v1/brokers/7", None, 404, "BROKER_ID_NOT_REGISTERED", "7"),
        ("GET", "/v1/brokers/seven", None, 400, "INVALID_REQUEST", "broker"),
        ("GET", "/v1/topics?limit=0", None, 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/topics?limit=501", None, 400, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/leader", None, 400, "INVALID_REQUEST", "topic"),
        ("GET", "/v1/leader?topic=none", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", "none"),
        ("GET", "/v1/leader?topic=orders&partition=2", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", "2"),
        ("GET", "/v1/leader?topic=orders&partition=-1", None, 400, "INVALID_REQUEST", "partition"),
        ("GET", "/v1/events?after=yesterday", None, 400, "INVALID_REQUEST", "OFFSET.PLACE"),
        ("POST", "/v1/topics", b"", 400, "INVALID_REQUEST", "body"),
        ("POST", "/v1/topics", b"\xff{", 400, "INVALID_REQUEST", "body"),
        ("POST", "/v1/topics", {"topic": "orders"}, 409, "TOPIC_ALREADY_EXISTS", "orders"),
        ("POST", "/v1/topics", {"topic": "a/b"}, 400, "INVALID_TOPIC_EXCEPTION", ""),
        ("POST", "/v1/topics", {"topic": "x", "partitions": 0}, 400, "INVALID_PARTITIONS", ""),
        ("POST", "/v1/topics", {"topic": "x", "partitions": 1 << 40}, 400, "INVALID_REQUEST", "range"),
        ("POST", "/v1/topics", {"topic": "x", "replication_factor": 9}, 400, "INVALID_REPLICATION_FACTOR", ""),
        ("POST", "/v1/topics", {"topic": "x", "partitons": 3}, 400, "INVALID_REQUEST", "partitons"),
        ("POST", "/v1/topics", {"topic": "x", "configs": {"segment.byte": 1}}, 400, "INVALID_CONFIG", "segment.bytes"),
        ("POST", "/v1/topics", b" " * (1 << 20) + b"{}", 413, "MESSAGE_TOO_LARGE", "bytes"),
        ("DELETE", "/v1/topics/none", None, 404, "UNKNOWN_TOPIC_OR_PARTITION", "none"),
        ("PATCH", "/v1/configs/topics/orders", {}, 400, "INVALID_REQUEST", "at least one"),
        ("PATCH", "/v1/configs/topics/orders", [], 400, "INVALID_REQUEST", "object"),
        ("PATCH", "/v1/configs/topics/none", {"segment.bytes": 1 << 20}, 404, "UNKNOWN_TOPIC_OR_PARTITION", "none"),
        ("PATCH", "/v1/configs/brokers/9", {"max.connections": 1}, 404, "BROKER_ID_NOT_REGISTERED", "9"),
        ("PATCH", "/v1/configs/brokers", {"node.id": 1}, 400, "INVALID_REQUEST", "node.id"),
    ],
)
def test_bad_input_is_answered_with_kafkas_error_and_what_is_wrong(
    node: EmbeddedNode, method: str, path: str, body: Any, status: int, error: str, words: str
) -> None:
    answer = ask(node, path, method, body)
    assert (answer.status, answer.json["error"]) == (status, error), answer.body
    assert words in answer.json["message"]


def test_nothing_is_created_that_is_only_to_be_checked(node: EmbeddedNode) -> None:
    checked = ask(node, "/v1/topics", "POST", {"topic": "checked", "validate_only": True})
    assert checked.status == 200
    assert ask(node, "/v1/topics/checked").status == 404


def test_topics_come_in_pages(node: EmbeddedNode) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        assert ask(node, "/v1/topics", "POST", {"topic": name, "assignments": [[0], [0]]}).status == 201
    found, after = [], "page"
    while after is not None:
        page = ask(node, f"/v1/topics?limit=2&after={after}").json
        assert len(page["topics"]) <= 2
        found += [topic["topic"] for topic in page["topics"]]
        after = page["next_after"]
    assert found == names
    assert list(ask(node, "/v1/seq?limit=5&after=page").json["seq"]) == names
    for name in names:
        assert ask(node, f"/v1/topics/{name}", "DELETE").status == 204


def test_configs_of_brokers_are_set_and_removed(node: EmbeddedNode) -> None:
    everywhere = ask(node, "/v1/configs/brokers", "PATCH", {"log.preallocate": False, "message.max.bytes": 9000}).json
    assert everywhere["configs"] == {"log.preallocate": "false", "message.max.bytes": "9000"}
    assert ask(node, "/v1/configs/brokers/0", "PATCH", {"message.max.bytes": "9001"}).status == 200
    stored = ask(node, "/v1/configs").json
    assert stored["every_broker"] == everywhere["configs"]
    assert stored["brokers"] == {"0": {"message.max.bytes": "9001"}}
    ask(node, "/v1/configs/brokers/0", "PATCH", {"message.max.bytes": None})
    ask(node, "/v1/configs/brokers", "PATCH", {"message.max.bytes": None, "log.preallocate": None})
    assert ask(node, "/v1/configs").json["every_broker"] == {}


@pytest.mark.parametrize("name", ["rebound.example", "rebound.example:80", "127.0.0.1.rebound.example:1", ""])
def test_a_name_that_merely_leads_here_is_not_answered(node: EmbeddedNode, name: str) -> None:
    refused = ask(node, "/v1/cluster", headers={"Host": name})
    assert (refused.status, refused.json["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    for own in ("localhost", "LOCALHOST:1", "[::1]:9644", "127.0.0.1"):
        assert ask(node, "/v1/cluster", headers={"Host": own}).status == 200, own


def test_a_page_of_another_site_changes_nothing(node: EmbeddedNode) -> None:
    body = {"topic": "foreign"}
    assert ask(node, "/v1/topics", "POST", body, headers={"Origin": "https://elsewhere.example"}).status == 403
    assert ask(node, "/v1/topics", "POST", body, headers={"Origin": "null"}).status == 403
    assert ask(node, "/v1/topics/foreign").status == 404
    assert ask(node, "/v1/topics", "POST", body, headers={"Origin": url_of(node)}).status == 201
    assert ask(node, "/v1/topics/foreign", "DELETE").status == 204


def test_the_description_names_every_path_and_its_page_loads_nothing_from_elsewhere(node: EmbeddedNode) -> None:
    described = ask(node, "/openapi.json").json
    assert {"/v1/leader", "/v1/events", "/v1/topics/{topic}/seq", "/metrics"} <= set(described["paths"])
    shapes = described["components"]["schemas"]
    references = _references(described)
    assert references
    assert all(one.rpartition("/")[2] in shapes for one in references)
    page = ask(node, "/docs")
    assert b"http://" not in page.body
    assert b"https://" not in page.body
    assert b"src=" not in page.body
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def _references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [found for one in part for found in _references(one)]
    if isinstance(part, dict):
        here = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return here + [found for one in part.values() for found in _references(one)]
    return []


def test_a_silent_stream_says_that_it_lives_and_is_counted_until_it_ends(node: EmbeddedNode) -> None:
    with Stream(node) as stream:
        eventually(lambda: stream.comments > 0)
        assert node.metrics.http_streams == 1
    eventually(lambda: node.metrics.http_streams == 0)


def test_whoever_has_missed_more_than_is_kept_is_told_so_and_how_things_stand(tmp_path: Path) -> None:
    node = node_with(tmp_path, http_events_max="3")
    node.start()
    for number in range(7):
        assert ask(node, "/v1/topics", "POST", {"topic": f"t{number}"}).status == 201
    with Stream(node, after="1.1") as stream:
        eventually(lambda: "state.end" in stream.kinds())
        assert stream.kinds() == ["reset", "state", "state", "state.end"]
        assert [event.id is None for event in stream.events] == [True, True, True, False]
        brokers, topics = stream.events[1].data["brokers"], stream.events[2].data["topics"]
        assert [one["broker"] for one in brokers] == [0]
        assert [one["topic"] for one in topics] == [f"t{number}" for number in range(7)]
        end = stream.last_id
        ask(node, "/v1/topics/t0", "DELETE")
        eventually(lambda: stream.kinds()[-1] == "topic.deleted")
    with Stream(node, after=end) as resumed:
        eventually(lambda: resumed.kinds() == ["topic.deleted"])
    with Stream(node, after="999999.1") as lost:
        eventually(lambda: "state.end" in lost.kinds())
        assert "999999.1" in lost.events[0].data["reason"]
    node.kill()


def test_streams_end_when_the_node_stops(tmp_path: Path) -> None:
    node = node_with(tmp_path)
    node.start()
    with Stream(node) as stream:
        eventually(lambda: stream.kinds() == ["hello"])
        node.stop()
        eventually(lambda: stream.has_ended)


def test_nothing_is_built_before_somebody_asks(tmp_path: Path) -> None:
    """It costs a third of a second and 20 MB."""
    node = node_with(tmp_path)
    for come in (False, True, True):
        node.start()
        assert node._node is not None
        door = node._node._http
        assert door is not None
        assert door._server is None
        if come:
            with ThreadPoolExecutor(20) as many:
                answers = list(many.map(lambda _: ask(node, "/healthz").status, range(20)))
            assert answers == [200] * 20
            assert door._server is not None
        where = urlsplit(url_of(node))
        node.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((where.hostname, where.port))


def test_what_cannot_be_built_is_told_and_costs_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(HttpDoor, "_build", lambda _: (_ for _ in ()).throw(ImportError("no FastAPI here")))
    node = node_with(tmp_path)
    node.start()
    with pytest.raises(OSError):
        ask(node, "/healthz")
    eventually(lambda: "unexpected error request=HTTP" in caplog.text, "it is told")
    assert node.is_running
    node.stop()
    assert not node.is_running


@pytest.mark.parametrize("requests", [0, 2000])
def test_those_who_neither_ask_nor_read_are_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    monkeypatch.setattr("bifrost.controller.http.server._SILENCE_S", 0.5)
    node = node_with(tmp_path)
    node.start()
    assert node._node is not None
    assert ask(node, "/healthz").status == 200
    assert node._node._http is not None
    assert node._node._http._server is not None
    connections = node._node._http._server._server.server_state.connections
    eventually(lambda: not connections)
    where = urlsplit(url_of(node))
    with socket.create_connection((where.hostname, where.port)) as silent:
        silent.settimeout(0.2)
        eventually(lambda: connections, "it is let in")
        try:
            silent.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
        except OSError:
            pass  # nobody takes any more of it: as wanted
        eventually(lambda: not connections, "it is hung up on")
    assert ask(node, "/healthz").status == 200
    node.kill()


def test_a_token_is_asked_for_wherever_there_is_one(tmp_path: Path) -> None:
    node = node_with(tmp_path, http_token=TOKEN)
    node.start()
    for path in ("/v1/cluster", "/v1/events", "/metrics", "/v1/nothing"):
        for wrong in (None, "", "Bearer", f"Basic {TOKEN}", "Bearer wrong", f"Bearer {TOKEN}x"):
            refused = ask(node, path, headers={} if wrong is None else {"Authorization": wrong})
            assert (refused.status, refused.json["error"]) == (401, "SASL_AUTHENTICATION_FAILED"), (path, wrong)
            assert refused.headers["WWW-Authenticate"] == "Bearer"
            assert TOKEN.encode() not in refused.body
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(node, "/v1/cluster", headers=right).status == 200
    assert ask(node, "/v1/topics", "POST", {"topic": "t"}, headers=right).status == 201
    for free in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert ask(node, free).status == 200
    node.stop()


def test_a_taken_port_is_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = run("server", "--set", f"log.dirs={tmp_path}", "--set", "listeners=PLAINTEXT://127.0.0.1:0",
                      "--set", f"http.listener={address}")  # fmt: skip
    assert refused.returncode == 1
    assert f"cannot speak HTTP on http://{address}" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_command_tells_where(tmp_path: Path) -> None:
    arguments = ("--set", f"log.dirs={tmp_path}", "--set", "listeners=PLAINTEXT://127.0.0.1:0")
    with Command("server", *arguments, "--set", "http.listener=127.0.0.1:0") as command:
        assert ask(command.told["http"], "/healthz").status == 200
        assert urlsplit(command.told["http"]).port


def test_a_node_without_http_loads_nothing_of_it(tmp_path: Path) -> None:
    program = f"""
import sys
from bifrost.testing.embedded import EmbeddedNode
node = EmbeddedNode({{"node.id": "0", "log.dirs": {str(tmp_path)!r}}})
node.start()
node.stop()
print(sorted(name for name in ("fastapi", "pydantic", "starlette", "uvicorn", "anyio", "bifrost.controller.http")
             if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_who_comes_when_too_many_are_there_is_asked_to_wait_like_everybody_else(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bifrost.controller.http import server

    parts = urlsplit(url_of(node))
    assert ask(node, "/healthz").status == 200
    monkeypatch.setattr(server, "_CONNECTIONS_MAX", 1)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as there:
        there.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert there.recv(12) == b"HTTP/1.1 200"
        refused = ask(node, "/v1/brokers")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert (refused.json["status"], refused.json["waiting_for"]) == ("HOGO LO", "others to go")
    eventually(lambda: ask(node, "/v1/brokers").status == 200, "they have gone")
