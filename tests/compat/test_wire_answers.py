"""Every question is answered as Apache Kafka answers it, field by field, at every version.

Kafka's answers are recorded in `answers/`; run against Kafka itself, this test checks the record. What Bifrost answers
differently on purpose is in DIFFERENCES with its reason; a difference that is no longer there fails the test too.
To record anew: BIFROST_RECORD_ANSWERS=1 with `-m oracle`.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass

import pytest
from tests.compat import answers_file
from tests.compat.questions import configs, fetch, offsets, produce, topics
from tests.compat.questions.catalogue import QUESTIONS, Question
from tests.compat.questions.stage import Stage
from tests.compat.servers import Server

assert all((configs, fetch, offsets, produce, topics)), "imported for the questions they register"

RECORD = "BIFROST_RECORD_ANSWERS" in os.environ


@dataclass(frozen=True)
class Difference:
    """An answer that is not Kafka's on purpose; `question` and `path` are regular expressions."""

    question: str
    path: str
    reason: str

    def covers(self, question: Question, line: str) -> bool:
        path = line.split(": Kafka ", maxsplit=1)[0]
        return bool(re.fullmatch(self.question, str(question)) and re.fullmatch(self.path, path))


_OPAQUE = "a batch is not opened on the way in (produce.validation=header), so what only its records show is not seen"

DIFFERENCES: tuple[Difference, ...] = (
    Difference("produce-(both_above_records|both_below_records|torn_record)", ".*", _OPAQUE),
    Difference("produce-(gzip|zstd)_of_garbage", ".*", _OPAQUE),
    Difference("produce-wrong_max_timestamp", "3:stored.*", _OPAQUE),
)


@pytest.fixture(scope="session")
def stage(broker: Server) -> Stage:
    found = Stage(broker.bootstrap, f"stage{uuid.uuid4().hex[:10]}")
    found.set()
    return found


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_the_answer_is_kafkas(question: Question, broker: Server, stage: Stage) -> None:
    fields = answers_file.flatten(question.ask(stage))
    if RECORD and broker.name == "kafka":
        answers_file.save(question.api, question.name, question.versions, fields)
    kafka = answers_file.load(question.api, question.name)
    assert kafka is not None, "Kafka has not been asked this yet"
    lines = answers_file.differences(kafka, fields)
    known = (
        [] if broker.name == "kafka" else [each for each in DIFFERENCES if re.fullmatch(each.question, str(question))]
    )
    unexpected = [line for line in lines if not any(each.covers(question, line) for each in known)]
    assert not unexpected, "\n".join(["", *unexpected])
    stale = [each for each in known if not any(each.covers(question, line) for line in lines)]
    assert not stale, f"no longer different: {stale}"
