"""What is wrong with a value from outside is told in our words, whatever it is."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from crewlog.validation_errors import describe_value, field_error_text, validation_error_text
from crewlog.wire import Answer, Change, EditState, InterruptCommand, MessageCommand, StartRun

RAW = ("Input should", "Value error", "Field required", "Extra inputs", "String should", "Tuple")


class Odd(BaseModel):
    """Values of every kind."""

    number: float = Field(default=1, gt=0, lt=10)
    count: int = 1
    text: str = Field(default="abc", min_length=2, max_length=5)
    which: Literal["a", "b"] = "a"
    items: list[int] = Field(default_factory=list, max_length=2)
    pairs: dict[str, int] = Field(default_factory=dict)
    sure: bool = False

    @field_validator("text")
    @classmethod
    def _calm(cls, value: str) -> str:
        if value == "loud":
            raise ValueError("it is too loud")
        return value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"number": 0}, "'number' must be more than 0, not the number 0"),
        ({"number": 10}, "'number' must be less than 10, not the number 10"),
        ({"number": "x"}, "'number' must be a number, not the text 'x'"),
        ({"count": 1.5}, "'count' must be a whole number, not the number 1.5"),
        ({"count": []}, "'count' must be a whole number, not a list"),
        ({"text": ""}, "'text' is empty"),
        ({"text": "a"}, "'text' needs 2 characters"),
        ({"text": "abcdef"}, "'text' has more than 5 characters"),
        ({"text": "loud"}, "'text': it is too loud"),
        ({"which": "c"}, "'which' must be a or b, not the text 'c'"),
        ({"items": [1, 2, 3]}, "'items' has more than 2 items"),
        ({"items": [1, {}]}, "'items.1' must be a whole number, not a mapping"),
        ({"pairs": 3}, "'pairs' must be a mapping of names to values, not the number 3"),
        ({"sure": "perhaps"}, "'sure' must be true or false, not the text 'perhaps'"),
    ],
)
def test_each_rule_has_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Odd.model_validate(given)
    assert validation_error_text(caught.value) == said


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (MessageCommand, {"id": "c", "text": ""}),
        (MessageCommand, {"id": 3, "to": None, "txt": "x"}),
        (EditState, {"id": "c"}),
        (EditState, {"id": "c", "set": [1]}),
        (InterruptCommand, 7),
        (Answer, {"id": "c", "interrupt": "i1", "decisions": []}),
        (Answer, {"id": "c", "interrupt": "i1", "decisions": [{"type": "edit"}]}),
        (Change, {"id": "c", "operations": [{"op": "no_such"}, {"name": "x"}]}),
        (Change, {"id": "c", "prompt": "p", "definition": {}}),
        (StartRun, {"crew": "a", "fork": {"run": "r", "position": 0}}),
    ],
)
def test_nothing_that_is_sent_is_answered_in_pydantics_words(model: Any, given: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    said = validation_error_text(caught.value, "the command")
    assert said
    for raw in RAW:
        assert raw not in said, said


def test_a_sentence_of_ours_stands_alone() -> None:
    with pytest.raises(ValidationError) as caught:
        EditState.model_validate({"id": "c"})
    (fault,) = caught.value.errors()
    assert field_error_text(fault, "the command") == "`set` or `delete` must name something"


def test_values_are_called_what_people_call_them() -> None:
    given = [None, True, 3, "", "x", [], {}]
    assert [describe_value(each) for each in given] == [
        "empty",
        "true",
        "the number 3",
        "an empty text",
        "the text 'x'",
        "a list",
        "a mapping",
    ]


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (
            {"crew": 5},
            "'crew' must be a text or a mapping of names to values, not the number 5",
        ),
        ({"crew": {1: 2}}, "'crew.1' must be a text, not the number 1"),
        (
            {"crew": "c", "split": 5},
            "'split' must be a mapping of keys to values, not the number 5",
        ),
    ],
)
def test_a_start_is_refused_without_the_insides_of_pydantic(start: Any, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        StartRun.model_validate(start)
    said = validation_error_text(caught.value)
    assert told in said
    assert not any(inside in said for inside in ("constrained", "dict[", "[key]"))
