"""Regular expressions over topic names, with RE2's syntax and RE2's promise of linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.coordinator.core.patterns import InvalidPatternError, Pattern, compile_pattern
from bifrost.coordinator.core.patterns.automaton import KEPT_MAX

MATCHES = [
    ("orders", ["orders"], ["order", "orders1", "xorders", "Orders"]),
    ("orders.*", ["orders", "orders-eu", "orders.us"], ["my-orders"]),
    (r"orders\..*", ["orders.us"], ["orders", "ordersXus"]),
    ("a|b|", ["a", "b", ""], ["ab", "c"]),
    ("^(?:eu|us)-[a-z]+$", ["eu-orders", "us-bills"], ["eu-", "asia-orders", "eu-1"]),
    ("(?i)OrDers", ["orders", "ORDERS"], ["bills"]),
    ("(?i:O)rders", ["orders", "Orders"], ["ORDERS"]),
    ("a(?i)b|c", ["ab", "aB", "C"], ["Ab"]),
    ("[[:digit:]]{2,3}", ["12", "123"], ["1", "1234", "ab"]),
    (r"[^\d_]+", ["a.b-c"], ["a1", "a_b"]),
    ("[]a-]+", ["a-a"], ["b"]),
    (r"\w+\.\w+", ["a_1.b"], ["a-b"]),
    (r"\p{Lu}\p{Ll}+", ["Orders"], ["orders", "ORDERS"]),
    (r"\PN", ["a", "-"], ["1"]),
    (r"\Qa.b\E+", ["a.b", "a.bbb"], ["axb", "a.ba.b"]),
    (r"\x61\x{62}\143", ["abc"], ["ab"]),
    (r"a\b-\bb", ["a-b"], ["a--b"]),
    (r"a\Bb", ["ab"], ["a-b"]),
    ("(?P<region>eu|us)-(?<name>.+)", ["eu-x"], ["eu-"]),
    ("(a|b|[cd]){1000}", ["abcd" * 250], ["abcd"]),
    ("a{,2}", [], ["a", "aa"]),
    ("(a*)*", ["", "aaa"], ["b"]),
    ("((a{0,3}){0,3}){2}", ["", "a" * 18], ["a" * 19]),
    ("é", [], ["e", "a"]),
    (".*", ["", "a.b-c_d"], []),
    ("x*", ["", "xxx"], ["xxy"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), MATCHES)
def test_a_name_matches_as_a_whole_or_not(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert [name for name in yes if not compiled.matches(name)] == []
    assert [name for name in no if compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", r"(a)\1", r"(?P<n>a)\k<n>", "(?P=n)", "(?P>n)", "(?R)"),
        *("a**", "a*+", "a++", "a{2}{3}", "*a", "a|*", "(*)", "+", "?", "{2}"),
        *("a{1001}", "a{2,1}", "(", ")", "(a", "a)", "(?", "(?i", "(?x)", "(?i-)", "(?P<n>a)(?P<n>b)", "(?P<>a)"),
        *("[", "[a", "[z-a]", r"[a-\d]", "[[:nothing:]]", "\\", r"\Z", r"\q", r"\8", r"\x6", r"\x{110000}", r"\p{Foo}"),
        *("((a{100}){100}){100}", "(" * 101 + ")" * 101, "((((){1000}){1000}){1000}){1000}"),
    ],
)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPatternError):
        compile_pattern(pattern)


parts = st.sampled_from(["a", "b", "-", "[ab]", "[^a]", ".", r"\d", r"\w", "(?:ab)", "x"])
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
pieces = st.builds(lambda part, repeat: part + repeat, parts, repeats)
branches = st.lists(pieces, max_size=4).map("".join)
patterns = st.lists(branches, min_size=1, max_size=3).map("|".join)
names = st.text(alphabet="abx-19", max_size=8)


@given(pattern=patterns, tried=st.lists(names, max_size=8))
def test_what_python_can_match_too_matches_alike(pattern: str, tried: list[str]) -> None:
    compiled = compile_pattern(pattern)
    for name in tried:
        assert compiled.matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)*x", "a?" * 60 + "a" * 60 + "b", "(a|ab|b)*c"])
def test_no_pattern_makes_a_name_expensive(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matcher that backtracks would need more steps for these than there is time."""
    moves = 0
    move = Pattern._move

    def counted(*arguments: object) -> object:
        nonlocal moves
        moves += 1
        return move(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Pattern, "_move", counted)
    compiled = compile_pattern(pattern)
    for _ in range(50):
        assert not compiled.matches("a" * 248)
    assert moves <= 248


def test_what_is_kept_of_a_pattern_is_bounded() -> None:
    compiled = compile_pattern(".*a" + ".{12}")
    bits = [format(number, "014b").replace("0", "a").replace("1", "b") for number in range(4 * KEPT_MAX)]
    for name in bits:
        assert compiled.matches(name) == (name[1] == "a")
    assert len(compiled._kept) <= KEPT_MAX
