"""Questions about limits for clients. What a question sets it takes away again; no client of a test is limited."""

from __future__ import annotations

import time
from typing import Any

from tests.compat.questions.catalogue import Answers, fixed, question
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer, Wire
from tests.waiting import PATIENCE_S

EXACTLY, THE_DEFAULT, ANY_NAME = 0, 1, 2
ODD_NAME = "nobody has this name: ü/%20+<default>"
RATE = "producer_byte_rate"

Part = tuple[str, str | None]
Op = tuple[str, float | None]


def _entry(parts: list[Part], ops: list[Op]) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
    }


def _try(name: str, parts: list[Part], *ops: Op) -> None:
    def function(stage: Stage, ask: Ask) -> Answers:
        return _sorted(ask(entries=[_entry(parts, list(ops))], validate_only=True))

    function.__name__ = name
    question("alter_client_quotas")(function)


def _sorted(answer: Answer) -> Answer:
    """Kafka keeps them in no order."""
    for entry in answer["entries"] or []:
        entry["entity"].sort(key=lambda part: str(part["entity_type"]))
        if "values" in entry:
            entry["values"].sort(key=lambda value: str(value["key"]))
    if answer["entries"]:
        answer["entries"].sort(key=lambda entry: str(entry["entity"]))
    return answer


_try("user", [("user", "u")], (RATE, 1024.0))
_try("default_user", [("user", None)], (RATE, 1024.0))
_try("client_id", [("client-id", "c")], ("consumer_byte_rate", 1024.0))
_try("default_client_id", [("client-id", None)], ("request_percentage", 12.5))
_try("ip", [("ip", "192.0.2.7")], ("connection_creation_rate", 10.0))
_try("ip_of_six", [("ip", "2001:db8::7")], ("connection_creation_rate", 10.0))
_try("default_ip", [("ip", None)], ("connection_creation_rate", 10.0))
_try("no_ip", [("ip", "no ip")], ("connection_creation_rate", 10.0))
_try("all_for_clients", [("user", "u")], (RATE, 1.0), ("consumer_byte_rate", 2.0), ("request_percentage", 0.5),
     ("controller_mutation_rate", 0.25))  # fmt: skip
_try("user_by_connections", [("user", "u")], ("connection_creation_rate", 10.0))
_try("ip_by_bytes", [("ip", "192.0.2.7")], (RATE, 10.0))
_try("ip_with_user", [("ip", "192.0.2.7"), ("user", "u")], ("connection_creation_rate", 10.0))
_try("ip_with_client_id", [("ip", "192.0.2.7"), ("client-id", "c")], ("connection_creation_rate", 10.0))
_try("no_entity", [], (RATE, 1.0))
_try("unknown_type", [("group", "g")], (RATE, 1.0))
_try("empty_type", [("", "g")], (RATE, 1.0))
_try("empty_user", [("user", "")], (RATE, 1.0))
_try("empty_client_id", [("client-id", "")], (RATE, 1.0))
_try("empty_ip", [("ip", "")], ("connection_creation_rate", 1.0))
_try("type_twice", [("user", "u"), ("user", "v")], (RATE, 1.0))
_try("unknown_key", [("user", "u")], ("no_such_rate", 1.0))
_try("empty_key", [("user", "u")], ("", 1.0))
_try("unknown_key_taken_away", [("user", "u")], ("no_such_rate", None))
_try("taken_away_what_is_not_there", [("user", "u")], (RATE, None))
_try("key_twice", [("user", "u")], (RATE, 1.0), (RATE, 2.0))
_try("set_and_taken_away", [("user", "u")], (RATE, 1.0), (RATE, None))
_try("zero", [("user", "u")], (RATE, 0.0))
_try("negative", [("user", "u")], (RATE, -1.0))
_try("fraction_of_a_byte", [("user", "u")], (RATE, 1.5))
_try("almost_whole", [("user", "u")], (RATE, 1.0000000001))
_try("fraction_of_a_connection", [("ip", "192.0.2.7")], ("connection_creation_rate", 1.5))
_try("tiny_percentage", [("user", "u")], ("request_percentage", 1e-9))
_try("large_percentage", [("user", "u")], ("request_percentage", 1e12))
_try("more_than_a_long", [("user", "u")], (RATE, 1e19))
_try("infinite_rate", [("user", "u")], (RATE, float("inf")))
_try("infinite_percentage", [("user", "u")], ("request_percentage", float("inf")))
_try("more_connections_than_an_int", [("ip", "192.0.2.7")], ("connection_creation_rate", 1e10))
_try("good_beside_bad", [("user", "u")], (RATE, 1024.0), ("consumer_byte_rate", -1.0))
_try("no_ops", [("user", "u")])
_try("odd_name", [("user", ODD_NAME)], (RATE, 1.0))

fixed("alter_client_quotas", "nothing", entries=[], validate_only=False)


@question("alter_client_quotas")
def entity_twice(stage: Stage, ask: Ask) -> Answers:
    user: list[Part] = [("user", "u")]
    return ask(entries=[_entry(user, [(RATE, 1.0)]), _entry(user, [(RATE, 2.0)])], validate_only=True)


@question("alter_client_quotas")
def good_entity_beside_bad(stage: Stage, ask: Ask) -> Answers:
    wanted = [_entry([("user", "u")], [(RATE, 1.0)]), _entry([("user", "v")], [(RATE, -1.0)])]
    return _sorted(ask(entries=wanted, validate_only=True))


def _component(kind: str, match_type: int, match: str | None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match_type, "match": match}


def _look(name: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
    fixed("describe_client_quotas", name, components=[_component(*one) for one in components], strict=strict)


_look("who_is_not_there", ("user", EXACTLY, "nobody at all"))
_look("ip_that_is_not_there", ("ip", EXACTLY, "192.0.2.99"), strict=True)
_look("unknown_type", ("group", EXACTLY, "g"))
_look("empty_type", ("", EXACTLY, "g"))
_look("type_twice", ("user", EXACTLY, "u"), ("user", ANY_NAME, None))
_look("exactly_nobody", ("user", EXACTLY, None))
_look("default_with_a_name", ("user", THE_DEFAULT, "u"))
_look("any_with_a_name", ("user", ANY_NAME, "u"))
_look("unknown_match", ("user", 7, "u"))
_look("negative_match", ("user", -1, "u"))
_look("ip_with_user", ("ip", ANY_NAME, None), ("user", ANY_NAME, None))
_look("ip_with_client_id", ("ip", THE_DEFAULT, None), ("client-id", THE_DEFAULT, None))


_A, _B = "asked-a", ODD_NAME
_SET: list[tuple[list[Part], list[Op]]] = [
    ([("user", _A)], [(RATE, 1e15), ("request_percentage", 1234.5)]),
    ([("user", _A), ("client-id", _B)], [("consumer_byte_rate", 2e15)]),
    ([("user", _A), ("client-id", None)], [("consumer_byte_rate", 3e15)]),
    ([("client-id", _B)], [("controller_mutation_rate", 1e9)]),
    ([("ip", "192.0.2.77")], [("connection_creation_rate", 1e9)]),
]


def _alter(bootstrap: str, wanted: list[tuple[list[Part], list[Op]]]) -> Answer:
    """Change limits, and wait until the broker has heard of all of it, which Kafka's may a moment later."""
    with Wire(bootstrap) as connection:
        entries = [_entry(parts, ops) for parts, ops in wanted]
        answer = connection.ask("alter_client_quotas", 1, entries=entries, validate_only=False)
        deadline = time.monotonic() + PATIENCE_S
        while any(not _is_known(connection, parts, ops) for parts, ops in wanted):
            assert time.monotonic() < deadline, "the broker never heard of it"
        return _sorted(answer)


def _is_known(connection: Wire, parts: list[Part], ops: list[Op]) -> bool:
    filters = [_component(kind, THE_DEFAULT if name is None else EXACTLY, name) for kind, name in parts]
    found = connection.ask("describe_client_quotas", 1, components=filters, strict=True)["entries"]
    values = {value["key"]: value["value"] for entry in found for value in entry["values"]}
    return all(values.get(key) == value for key, value in ops)


@question("describe_client_quotas")
def what_is_set(stage: Stage, ask: Ask) -> Answers:
    """All ways to look at what is set, and that nothing is left of what is taken away."""
    looks: list[tuple[list[tuple[str, int, str | None]], bool]] = [
        ([("user", EXACTLY, _A)], False),
        ([("user", EXACTLY, _A)], True),
        ([("user", ANY_NAME, None), ("client-id", EXACTLY, _B)], False),
        ([("user", ANY_NAME, None), ("client-id", ANY_NAME, None)], True),
        ([("user", EXACTLY, _A), ("client-id", THE_DEFAULT, None)], True),
        ([("client-id", EXACTLY, _B)], False),
        ([("client-id", EXACTLY, _B)], True),
        ([("user", THE_DEFAULT, None)], False),
        ([("ip", EXACTLY, "192.0.2.77")], True),
        ([("ip", THE_DEFAULT, None)], False),
    ]
    asked = [{"components": [_component(*one) for one in parts], "strict": strict} for parts, strict in looks]
    altered = _alter(stage.bootstrap, _SET)
    try:
        seen = [_sorted(ask(**one)) for one in asked]
    finally:
        _alter(stage.bootstrap, [(parts, [(key, None) for key, _ in ops]) for parts, ops in _SET])
    return [altered, *seen, _sorted(ask(**asked[0]))]


@question("describe_client_quotas")
def what_is_changed(stage: Stage, ask: Ask) -> Answers:
    """One limit is set, changed, and stays when another of the same user is taken away."""
    user: list[Part] = [("user", "asked-c")]
    look = {"components": [_component("user", EXACTLY, "asked-c")], "strict": True}
    seen = []
    steps: list[list[Op]] = [
        [(RATE, 1e15)], [(RATE, 2e15), ("consumer_byte_rate", 5e15)], [(RATE, None)], [("no_such_rate", None)],
        [("consumer_byte_rate", None)],
    ]  # fmt: skip
    for ops in steps:
        seen += [_alter(stage.bootstrap, [(user, ops)]), _sorted(ask(**look))]
    return seen
