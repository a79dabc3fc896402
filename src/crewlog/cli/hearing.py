"""What a line means that somebody types as an answer: an option, an edit, or words.

A yes and a no are taken in the words in which people say them, where the question has one: that is
what they type first. Words are an answer too where a call is asked about, and they refuse it. So a
slip must not pass for words: a single word that is no option is asked back, and so is a sentence
that begins like a yes. Whoever means a word as the reason says `reject WORD`.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from crewlog.errors import UsageError
from crewlog.wire import InterruptView

_CREWS_OWN = frozenset({"ask", "tool_approval", "approval"})
"""The kinds of questions that a crew's author foresaw; the others tell of trouble."""
_LIKE_YES = frozenset({"approve", "approved", "edit", "stop", "yes", "y", "ok", "okay"})
"""Words that begin no reason to refuse a call."""
_YES = frozenset({"y", "yes", "ok", "okay", "approved"})
"""What people type for the option that means yes, all of the line."""
_NO = frozenset({"n", "no", "rejected"})
_MEANS_YES = frozenset({"approve", "yes", "ok", "go", "go on", "proceed", "accept", "true"})
"""Options that mean yes by themselves, also beside several others."""
_MEANS_NO = frozenset({"reject", "no", "refuse", "decline", "false"})
_ARGS = ("{", "@")
"""How arguments begin behind `edit`: JSON, or a file with it."""
_ID = re.compile(r"i\d+")


class Heard(NamedTuple):
    """An answer, understood."""

    decision: str
    """An option, `edit`, or words."""
    reason: str = ""
    """Why, behind `reject`."""
    args: str | None = None
    """The arguments behind `edit`, as `--args` takes them; none opens an editor."""


def chosen(question: InterruptView, typed: str) -> str:
    """The decision that somebody typed: an option's number or its start, or words."""
    text = typed.strip()
    options = list(question.options)
    if text.isdigit() and 1 <= int(text) <= len(options):
        return options[int(text) - 1]
    same = [option for option in options if option.lower() == text.lower()]
    if same:
        return same[0]
    if (meant := _yes_or_no(question, text)) is not None:
        return meant
    begin = [option for option in options if text and option.lower().startswith(text.lower())]
    return begin[0] if len(begin) == 1 else text


def _yes_or_no(question: InterruptView, text: str) -> str | None:
    """The option that a yes or a no means; none where the question has none that is clear."""
    said, options = text.lower().rstrip(".!"), question.options
    if question.kind not in _CREWS_OWN or said not in _YES | _NO:
        return None
    own = _MEANS_YES if said in _YES else _MEANS_NO
    named = [option for option in options if option.lower() in own]
    if named:
        return named[0]
    # Of two, the first means yes, and the last no; of more, a "no" may mean any of the others.
    return None if len(options) != 2 else options[0] if said in _YES else options[1]


def heard(question: InterruptView, line: str) -> Heard:
    """What a line says about a question.

    Args:
        question: The question.
        line: What was typed: `approve`, `edit {…}`, `reject WORDS`, `respond WORDS`, or words.

    Raises:
        UsageError: it asks about a call, and the line might be a slip.
    """
    decision = chosen(question, line)
    if decision in question.options:
        return Heard(decision)
    first, _, rest = decision.partition(" ")
    verb, rest = first.lower(), _unquoted(rest.strip())
    if verb == "respond" and question.takes_text and rest:
        return Heard(rest)
    if verb == "reject" and rest and "reject" in question.options:
        return Heard("reject", rest)
    if question.text_option and (not rest or _begins_like_another(question, verb)):
        raise _slip(question, decision)
    if question.kind != "tool_approval":
        return Heard(decision)
    if verb == "edit" and (not rest or rest.startswith(_ARGS)):
        return Heard("edit", args=rest or None)
    if not rest or re.split(r"\W", verb)[0] in _LIKE_YES:
        raise _slip(question, decision)
    return Heard(decision)


def _begins_like_another(question: InterruptView, verb: str) -> bool:
    """Whether words begin with an answer that they are not: `go, it is fine`."""
    word = re.split(r"\W", verb)[0]
    others = {option.lower() for option in question.options} - {question.text_option.lower()}
    return word in others | _YES | {"approve", "reject"}


def _unquoted(text: str) -> str:
    """Words without the quotes that a shell would have taken away."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1].strip() if quoted else text


def _slip(question: InterruptView, typed: str) -> UsageError:
    named = options_of(question)
    close = difflib.get_close_matches(typed.lower(), named, 1, 0.6)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    words = f"Words go to {question.text_option}: a sentence, or respond WORDS."
    if not question.text_option:
        words = "Words refuse the call and are its reason: a sentence, or reject WORDS."
    return UsageError(
        f"{typed!r} is none of the options: {', '.join(named)}",
        remedy=f"{hint}{words}",
        place=f"question {question.id}",
    )


def options_of(question: InterruptView) -> list[str]:
    """A question's options by name; a call's arguments may be edited too."""
    named = list(question.options)
    if question.kind == "tool_approval":
        named[1:1] = ["edit"]
    return named


def is_id(text: str) -> bool:
    """Whether something is spelled as questions are numbered: `i2`."""
    return _ID.fullmatch(text) is not None


def heard_before(question: InterruptView, answer: str) -> Heard | None:
    """What an answer that was given in advance, before the question was known, says about it.

    One of its options by name always answers it. `approve` and `reject` stand for options, and
    words for an answer, only where the crew itself asks: whoever approves in advance did not mean
    that a step that fails is done again, or that a limit is lifted. What might be a slip answers
    nothing, and an editor opens for nobody in advance.

    Args:
        question: The question.
        answer: What was said in advance.

    Returns:
        None where it does not answer this question.
    """
    if answer in question.options:
        return Heard(answer)
    if question.kind not in _CREWS_OWN or question.limit_reached:
        return None
    if answer in {"approve", "reject"}:
        return Heard(answer)
    if not question.takes_text or not answer.strip():
        return None
    try:
        meant = heard(question, answer)
    except UsageError:
        return None
    return None if meant == Heard("edit") else meant
