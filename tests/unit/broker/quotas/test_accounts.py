"""Which limit counts for whom (KIP-55), and who shares one."""

from __future__ import annotations

import pytest

from bifrost.broker.quotas.core import accounts as accounts_module
from bifrost.broker.quotas.core.accounts import Accounts
from bifrost.broker.quotas.core.connection_rates import ConnectionRates
from bifrost.broker.quotas.core.meters import SampledRate, Window
from bifrost.controller.core.client_quotas import entity_of
from bifrost.controller.core.records import QuotaEntity
from bifrost.peers.names import PASSED_ON, node_name

WINDOW = Window(11, 1_000)
KEY = "producer_byte_rate"

ORDER: list[dict[str, str | None]] = [
    {"user": "u", "client-id": "c"},
    {"user": "u", "client-id": None},
    {"user": "u"},
    {"user": None, "client-id": "c"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
]
"""What Kafka's documentation lists, the first that is there counts."""


def limits(*entities: dict[str, str | None], key: str = KEY) -> dict[QuotaEntity, dict[str, float]]:
    """The n-th has the limit n + 1."""
    return {entity_of(entity): {key: float(number + 1)} for number, entity in enumerate(entities)}


def table(quotas: dict[QuotaEntity, dict[str, float]]) -> Accounts[SampledRate]:
    found = Accounts(KEY, WINDOW, SampledRate)
    found.set_limits(quotas)
    return found


def limit_of(accounts: Accounts[SampledRate], user: str, client_id: str | None) -> float | None:
    seat = accounts.find(user, client_id)
    return None if seat is None else seat.limit


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_limit_counts(first: int) -> None:
    assert limit_of(table(limits(*ORDER[first:])), "u", "c") == 1.0


@pytest.mark.parametrize("names", ORDER, ids=str)
def test_a_limit_is_for_those_whom_it_names(names: dict[str, str | None]) -> None:
    accounts = table(limits(names))
    assert limit_of(accounts, "u", "c") == 1.0
    is_for_all_users, is_for_all_clients = names.get("user") is None, names.get("client-id") is None
    assert (limit_of(accounts, "v", "c") is not None) == is_for_all_users
    assert (limit_of(accounts, "u", "d") is not None) == is_for_all_clients


def test_a_limit_by_another_key_hides_nothing() -> None:
    quotas = limits({"user": "u"}, key="consumer_byte_rate") | limits({"client-id": None})
    assert limit_of(table(quotas), "u", "c") == 1.0


def test_all_clients_of_a_user_share_its_limit() -> None:
    accounts = table({entity_of({"user": None}): {KEY: 100.0}})
    assert accounts.charge("u", "a", 1_000, 0) == 0
    assert accounts.charge("u", "b", 1_000, 0) == 10_000, "they have used 2000 together"
    assert accounts.charge("v", "a", 1_000, 0) == 0, "another user has a limit of its own"


@pytest.mark.parametrize("names", [{"client-id": None}, {"user": None, "client-id": None}], ids=str)
def test_each_client_id_has_a_limit_of_its_own_by_default(names: dict[str, str | None]) -> None:
    accounts = table({entity_of(names): {KEY: 100.0}})
    assert [accounts.charge("u", client, 1_000, 0) for client in "abc"] == [0, 0, 0]
    assert accounts.charge("u", "a", 100, 0) == 1_000


def test_what_was_used_counts_against_a_limit_that_is_set_later() -> None:
    accounts = table({entity_of({"client-id": "c"}): {KEY: 100.0}})
    accounts.charge("u", "c", 1_000, 0)
    accounts.set_limits({entity_of({"client-id": "c"}): {KEY: 50.0}})
    assert accounts.charge("u", "c", 0, 0) == 10_000


def test_a_limit_that_is_gone_limits_nobody() -> None:
    accounts = table(limits({"user": "u"}))
    accounts.charge("u", "c", 10_000, 0)
    accounts.set_limits({})
    assert not accounts.has_limits
    assert accounts.charge("u", "c", 10_000, 0) == 0


@pytest.mark.parametrize("client_id", [None, ""])
def test_a_client_without_an_id_has_the_limit_of_all(client_id: str | None) -> None:
    accounts = table({entity_of({"client-id": None}): {KEY: 100.0}})
    assert accounts.charge("u", client_id, 2_000, 0) == 10_000
    assert limit_of(table({entity_of({"client-id": "c"}): {KEY: 1.0}}), "u", client_id) is None


@pytest.mark.parametrize("client_id", [PASSED_ON, node_name(1, "fetcher"), node_name(7)])
def test_nodes_are_not_limited(client_id: str) -> None:
    assert limit_of(table(limits({"client-id": None}, {"user": None})), "u", client_id) is None


@pytest.mark.parametrize("client_id", ["broker-3", "node-1-consumer", "node-7", "bifrost"])
def test_clients_that_are_called_like_something_else_are_limited(client_id: str) -> None:
    assert limit_of(table(limits({"client-id": None}, {"user": None})), "u", client_id) is not None


def test_names_that_clients_make_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts_module, "ACCOUNTS_MAX", 3)
    accounts = table({entity_of({"client-id": None}): {KEY: 100.0}})
    for number in range(50):
        accounts.charge("u", "often", 10, 0)
        accounts.charge("u", f"made up {number}", 10, 0)
    assert len(accounts._seats) == len(accounts._meters) == 3
    assert accounts.charge("u", "often", 1_000, 0) > 0, "who is heard of often is remembered"


def rates(**by_address: float) -> ConnectionRates:
    found = ConnectionRates(WINDOW)
    names = {"default": None, "one": "10.0.0.1", "six": "0:0:0:0:0:0:0:1"}
    found.set_limits(
        {entity_of({"ip": names[name]}): {"connection_creation_rate": rate} for name, rate in by_address.items()}
    )
    return found


def test_an_address_may_come_so_often_and_is_kept_waiting_then() -> None:
    """KIP-612: never longer than one sample lasts."""
    found = rates(one=2.0)
    assert [found.admit("10.0.0.1", 0) for _ in range(20)] == [0] * 20
    assert found.admit("10.0.0.1", 0) == 500
    assert found.admit("10.0.0.1", 0) == 500, "who was not let in does not count"
    assert found.admit("10.0.0.2", 0) == 0
    assert found.admit("10.0.0.1", 20_000) == 0


def test_who_has_no_limit_of_its_own_has_the_default() -> None:
    found = rates(default=1.0, one=100.0)
    assert [found.admit("10.0.0.9", 0) for _ in range(11)] == [0] * 10 + [1_000]
    assert [found.admit("10.0.0.8", 0) for _ in range(10)] == [0] * 10, "each address counts for itself"
    assert [found.admit("10.0.0.1", 0) for _ in range(11)] == [0] * 11


def test_an_address_is_the_same_however_it_is_written() -> None:
    found = rates(six=0.1)
    assert [found.admit("::1", 0) for _ in range(2)] == [0, 1_000]


def test_limits_of_clients_are_not_limits_of_addresses() -> None:
    found = ConnectionRates(WINDOW)
    found.set_limits(limits(*ORDER))
    assert not found.has_limits
