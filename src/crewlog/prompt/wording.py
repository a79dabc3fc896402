"""What agents are told: their prompts, made of the words that the prompt says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crewlog.definition.findings import listed


def agent_prompt(name: str, sentences: Sequence[str], decides: Sequence[str]) -> str:
    """The prompt of an agent that a prompt speaks of.

    Args:
        name: Its name.
        sentences: What is said of it, in the prompt's words.
        decides: What it must set before it ends, as sentences.
    """
    parts = [f"You are the {name.replace('_', ' ')}."]
    said = [_sentence(text) for text in dict.fromkeys(sentences) if text.strip()]
    if said:
        parts.append(f"Your part: {' '.join(said)}")
    return " ".join([*parts, *decides])


def task_text(sentences: Sequence[str]) -> str:
    """What an agent is to do in a phase."""
    return " ".join(_sentence(text) for text in dict.fromkeys(sentences) if text.strip())


def _sentence(text: str) -> str:
    flat = " ".join(text.split()).strip(" ,;:-\u2013\u2014")
    return flat if flat[-1:] in {".", "!", "?", "…"} else f"{flat}."


def duties(
    flags: Sequence[str], outputs: Mapping[str, Sequence[object]], lists: Sequence[str]
) -> list[str]:
    """What an agent must set so that the flow can go on, as sentences.

    Args:
        flags: Flags, true or false.
        outputs: Outputs, with the values that conditions ask for.
        lists: Outputs that are lists.
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
            found.append(
                f"Before you end, set the output '{key}' to "
                f"{listed([*words, 'another word'], 'or')}."
            )
    return found
