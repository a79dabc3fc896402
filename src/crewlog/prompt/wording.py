"""The prompts of agents, made of the words of the user's prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from crewlog.definition.findings import listed

_MEANS = re.compile(r"\s+(?:with|using|via|by)\s")
_LIST = r"((?:[\w-]+,\s+){0,20}[\w-]+,?\s+or\s+[\w-]+)"


def agent_prompt(name: str, sentences: Sequence[str], decides: Sequence[str]) -> str:
    """The prompt of an agent that the user's prompt names.

    Args:
        name: Its name.
        sentences: The words about it, from the user's prompt.
        decides: What it must set before it ends, as sentences.
    """
    parts = [f"You are the {name.replace('_', ' ')}."]
    said = [_sentence(text) for text in _once(sentences)]
    if said:
        parts.append(f"Your part: {' '.join(said)}")
    return " ".join([*parts, *decides])


def task_text(sentences: Sequence[str]) -> str:
    """What an agent is to do in a phase."""
    return " ".join(_sentence(text) for text in _once(sentences))


def _once(sentences: Sequence[str]) -> list[str]:
    """Each sentence once; `sends it` not beside `sends it with send_mail`, which says it, too."""
    flat = {_sentence(text)[:-1].casefold(): text for text in reversed(sentences) if text.strip()}
    fuller = {each[: found.start()] for each in flat if (found := _MEANS.search(each))}
    return [text for each, text in reversed(flat.items()) if each not in fuller]


def _sentence(text: str) -> str:
    flat = " ".join(text.split()).strip(" ,;:-\u2013\u2014")
    return flat if flat[-1:] in {".", "!", "?", "…"} else f"{flat}."


def duties(
    flags: Sequence[str],
    outputs: Mapping[str, Sequence[object]],
    lists: Sequence[str],
    said: Sequence[str] = (),
) -> list[str]:
    """What an agent must set so that the flow can go on, as sentences.

    Args:
        flags: Flags, true or false.
        outputs: Outputs, with the values that conditions ask for.
        lists: Outputs that are lists.
        said: The words about the agent; they may list all values of an output.
    """
    found = [f"Before you end, set the flag '{flag}' to true or false." for flag in flags]
    found += [f"Before you end, set the output '{key}' to a list." for key in lists]
    for key, values in outputs.items():
        if key in lists:
            continue
        if key == "unsure":
            found.append(
                "Before you end, set the output 'unsure' to true if a person should look at what "
                "you made, else to false."
            )
            continue
        if key == "confidence":
            found.append(
                "Before you end, set the output 'confidence' to how sure you are, from 0 to 1."
            )
            continue
        words = [str(value) for value in dict.fromkeys(map(str, values))]
        numbers = all(isinstance(value, int | float) for value in values)
        if not words or numbers:
            found.append(f"Before you end, set the output '{key}' to a number.")
        else:
            every = _all_values(key, words, said) or [*words, "another word"]
            found.append(f"Before you end, set the output '{key}' to {listed(every, 'or')}.")
    return found


def _all_values(key: str, asked: Sequence[str], said: Sequence[str]) -> list[str]:
    """The values of `sets severity to low, medium or high`, where those asked for are of them."""
    name = r"[\s_-]".join(map(re.escape, key.split("_")))
    pattern = re.compile(
        rf"\b{name}\b\W{{1,3}}(?:(?:to|as|is|either|one\s+of)\s+){{0,2}}{_LIST}", re.IGNORECASE
    )
    spelt = {value.casefold(): value for value in asked}
    for text in said:
        found = pattern.search(text)
        words = re.split(r",?\s+or\s+|,\s+", found[1]) if found else []
        if spelt.keys() <= {word.casefold() for word in words}:
            return [spelt.get(word.casefold()) or word for word in words]
    return []


_SAYS = re.compile(r"\s(?:is|are|was|were|has|have|says)\s")
"""What makes a sentence of a condition; `not approved` is none."""
_ASKED = re.compile(
    r"(?:(?:please|then|otherwise|and),?\s+)*(?:ask|consult)\s+(?:me|us)\b\s*(?:for\s+help\b\s*)?",
    re.IGNORECASE,
)
_WHETHER = re.compile(
    r"(?:whether|if)\s+(?P<who>\S.{0,200}?)\s+(?P<verb>may|can|should|must|is|are|will)\s+(?P<rest>.+)",
    re.IGNORECASE,
)
_TO = re.compile(r"(?:(?:whether|if)\s+)?to\s+(?P<what>.+)", re.IGNORECASE)
_WHICH = re.compile(
    r"(?P<word>what|which|who|how|where|when)\b(?P<of>.{0,60}?)\s+to\s+(?P<do>.+)", re.IGNORECASE
)
_BEFORE = re.compile(r"before\s+(?P<who>(?:the|an?|any|anyone)\b.+)", re.IGNORECASE)
_APPROVE = re.compile(
    r"(?:I|we)\s+(?P<do>approve|confirm|accept|release)\s+(?P<what>.+)", re.IGNORECASE
)


def question_text(said: str, condition: str = "") -> str:
    """What people are asked, made of the prompt's words: `ask me what to do` is no question.

    Args:
        said: The words, or a question.
        condition: The case in which it is asked, in words that people read.
    """
    flat = " ".join(said.split()).strip(" ,;:.-\u2013\u2014")
    flat = re.sub(r",?\s+(?:and|or|but)$", "", flat)
    if flat.endswith("?"):
        return flat
    asked = _ASKED.match(flat)
    found = _question(flat[asked.end() :] if asked else flat, asked=asked is not None)
    if not condition:
        return found
    whole = _SAYS.search(condition) is not None
    case = _capital(condition) if whole else f"Noted: {condition.removeprefix('the ')}"
    return f"{case}. {found}"


def _question(text: str, *, asked: bool) -> str:
    if approve := _APPROVE.fullmatch(text):
        what, _, after = approve["what"].partition(" before ")
        question = f"{_capital(approve['do'])} {what}?"
        return f"{question} Next: {after}." if after else question
    if not asked:
        return _capital(f"{text}: go on?") if text else "Go on?"
    if before := _BEFORE.fullmatch(text):
        return f"Next: {before['who']}. Go on?"
    if to := _TO.fullmatch(text):
        return f"{_capital(to['what'])}?"
    if whether := _WHETHER.fullmatch(text):
        return f"{_capital(whether['verb'])} {whether['who']} {whether['rest']}?"
    if which := _WHICH.fullmatch(text):
        if (which["word"].lower(), which["do"]) == ("what", "do"):
            return "What should be done?"
        return f"{_capital(which['word'])}{which['of']} should the crew {which['do']}?"
    return f"{_capital(text)}: go on?" if text else "Go on?"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
