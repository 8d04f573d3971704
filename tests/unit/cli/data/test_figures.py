"""Histograms, paces and settings in Kafka's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.cli.data.histogram import Histogram, draw, sparkline
from bifrost.cli.data.pace import Pace
from bifrost.cli.data.properties import for_librdkafka, parse_assignments
from bifrost.client.errors import ConfigError


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]))
def test_percentiles_are_those_of_a_sorted_list_to_a_64th(values: list[int], percent: float) -> None:
    histogram = filled(values)
    ranks = sorted(values)
    index = next((i for i in range(len(ranks)) if i + 1 >= len(ranks) * percent / 100), len(ranks) - 1)
    exact = ranks[index]
    assert exact <= histogram.percentile_us(percent) <= exact * (1 + 1 / 64) + 1
    assert (histogram.count, histogram.min_us, histogram.max_us) == (len(values), min(values), max(values))
    assert histogram.mean_us == sum(values) / len(values)


def test_a_histogram_of_nothing() -> None:
    assert draw(Histogram(), 80) == []
    assert Histogram().summary_ms()["p99"] == 0


def test_a_histogram_is_drawn_in_steps_of_1_2_5() -> None:
    lines = draw(filled([1_500] * 60 + [3_000] * 30 + [40_000] * 10), 60)
    assert [line.strip().split("  ")[0] for line in lines] == [
        "1 - 2 ms", "2 - 5 ms", "5 - 10 ms", "10 - 20 ms", "20 - 50 ms",
    ]  # fmt: skip
    assert "60.0 %" in lines[0]
    longest = lines[0].count("█")
    assert [line.count("█") for line in lines] == [longest, longest // 2, 0, 0, longest // 6]
    assert max(map(len, lines)) <= 60


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(40, 200))
def test_a_drawing_shows_everything_and_fits(values: list[int], width: int) -> None:
    lines = draw(filled(values), width)
    assert max(map(len, lines)) <= width
    shares = [float(line.rpartition(" %")[0].rpartition("  ")[2]) for line in lines]
    assert sum(shares) == pytest.approx(100, abs=0.06 * len(lines))


def test_a_sparkline_shows_the_newest() -> None:
    assert sparkline([9, 0, 4, 8], 3) == "▁▅█"
    assert sparkline([], 10) == ""


def test_a_pace_keeps_the_rate_and_does_not_make_up_for_long_pauses() -> None:
    pace = Pace(100, 0.0)
    assert pace.batch == 5
    assert pace.wait_s(5, 0.0) == pytest.approx(0.05)
    assert pace.wait_s(5, 0.05) == pytest.approx(0.05)
    assert pace.wait_s(5, 0.17) == 0, "late by a little: made up for"
    assert pace.wait_s(5, 60.0) == 0
    sent = 0
    while pace.wait_s(5, 60.0) == 0:
        sent += 5
    assert sent <= 100, "after a pause of a minute, at most a second's worth comes at once"


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(0, 0.0)
    assert (pace.batch, pace.wait_s(1000, 0.0)) == (1000, 0.0)
    assert Pace(0.5, 0.0).wait_s(1, 0.0) == 2


def test_settings_of_the_java_client() -> None:
    settings, left_out = for_librdkafka(
        {"acks": "1", "buffer.memory": "33554432", "key.serializer": "x", "send.buffer.bytes": "-1"}
    )
    assert settings == {
        "acks": "1", "enable.idempotence": "false",
        "queue.buffering.max.kbytes": "32768", "socket.send.buffer.bytes": "0",
    }  # fmt: skip
    assert for_librdkafka({"acks": "-1"}) == ({"acks": "-1"}, [])
    assert left_out == ["key.serializer"]
    with pytest.raises(ConfigError, match=r"buffer\.memory is a number, not 'much'"):
        for_librdkafka({"buffer.memory": "much"})


def test_assignments() -> None:
    assert parse_assignments(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}
    for bad in ("a", "=b"):
        with pytest.raises(ConfigError, match="--set takes NAME=VALUE"):
            parse_assignments([bad], "--set")


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" password="s=cr;t";'


def test_how_java_clients_log_in_and_whom_they_trust() -> None:
    found, left_out = for_librdkafka(
        {
            "sasl.jaas.config": LOGIN,
            "ssl.truststore.location": "/ca.pem",
            "ssl.truststore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert (found, left_out) == (
        {
            "sasl.username": "anna",
            "sasl.password": "s=cr;t",
            "ssl.ca.location": "/ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
        },
        [],
    )


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"ssl.truststore.location": "trust.jks"}, "is a JKS file, which only Java can read"),
        ({"sasl.jaas.config": "Krb5LoginModule required;"}, "has no username and password"),
    ],
)
def test_what_only_java_can_read_is_refused(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        for_librdkafka(properties)
