"""SCRAM against the examples of its RFCs, and against servers that are not what they should be."""

from __future__ import annotations

import pytest

from bifrost.client.wire.scram import ScramExchange
from bifrost.errors import ProtocolError

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def exchange() -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.answer(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.finish(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_names_with_commas_and_equals_signs() -> None:
    assert ScramExchange("SCRAM-SHA-512", "a=b,c", "p", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        CHALLENGE.replace(b"4096", b"1"),
        CHALLENGE.replace(b"4096", b"9999999999"),
        CHALLENGE.replace(b"4096", b"many"),
        CHALLENGE.replace(b"W22Z", b"!!!!"),
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(ProtocolError, match="SCRAM"):
        exchange().answer(challenge)


@pytest.mark.parametrize("final", [b"", b"v=AAAA", b"e=invalid-proof", b"v="])
def test_a_server_that_does_not_know_the_password(final: bytes) -> None:
    scram = exchange()
    scram.answer(CHALLENGE)
    with pytest.raises(ProtocolError, match="SCRAM"):
        scram.finish(final)
