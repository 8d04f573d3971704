"""With `produce.validation=full` a node answers every question about Produce as Kafka does, those about records, too.

Kafka's answers are those that `test_wire_answers` checks against Kafka itself.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat import answers_file
from tests.compat.questions.catalogue import QUESTIONS, Question
from tests.compat.questions.stage import Stage
from tests.compat.servers import start_private
from tests.compat.test_wire_answers import DIFFERENCES, OPAQUE, Difference

_SOUND = "offsets that a reader would take for damage are refused; Kafka stores them"
_NO_ACCIDENT = "what does not decompress is an invalid record, and not an unknown error of the server"

HERE = (
    *(each for each in DIFFERENCES if each.reason != OPAQUE),
    Difference("produce-wrong_offset_delta", ".*", _SOUND),
    Difference("produce-(gzip|zstd)_of_garbage", r"1:.*\.(error_code|log_start_offset|error_message)", _NO_ACCIDENT),
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    server = start_private("bifrost", tmp_path_factory.mktemp("full"), produce_validation="full")
    found = Stage(server.bootstrap, f"full{uuid.uuid4().hex[:10]}")
    found.set()
    yield found
    server.stop()


def _about_produce() -> list[Any]:
    return [pytest.param(each, id=each.name) for each in QUESTIONS if each.api == "produce"]


@pytest.mark.xdist_group("full validation")
@pytest.mark.parametrize("question", _about_produce())
def test_the_answer_is_kafkas(question: Question, stage: Stage) -> None:
    kafka = answers_file.load(question.api, question.name)
    assert kafka is not None
    lines = answers_file.differences(kafka, answers_file.flatten(question.ask(stage)))
    known = [each for each in HERE if re.fullmatch(each.question, str(question))]
    unexpected = [line for line in lines if not any(each.covers(question, line) for each in known)]
    assert not unexpected, "\n".join(["", *unexpected])
    stale = [each for each in known if each.always and not any(each.covers(question, line) for line in lines)]
    assert not stale, f"no longer different: {stale}"
