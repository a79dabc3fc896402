"""Words to names: agents, flags, outputs and crews are called by the words that speak of them."""

from __future__ import annotations

import re
import unicodedata

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_ARTICLES = re.compile(
    r"^(?:the|a|an|our|your|my|each|every|another|one|this|that|their|its)\s+", re.IGNORECASE
)
LONGEST = 60


def plain(text: str) -> str:
    """Small letters, digits and single `_`; letters with accents lose them."""
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _NOT_IN_NAMES.sub("_", folded.lower()).strip("_")[:LONGEST].strip("_")


def agent_name(words: str) -> str:
    """`the UI designer` is `ui_designer`, `the Audio agent` is `audio`.

    Empty where the words hold no letter that a name can begin with.
    """
    text = words.strip()
    while (found := _ARTICLES.match(text)) is not None:
        text = text[found.end() :]
    name = plain(text)
    for last in ("_agents", "_agent"):
        if name.endswith(last) and len(name) > len(last):
            name = name[: -len(last)]
    return name if name[:1].isalpha() else f"agent_{name}" if name else ""


def crew_name(words: str) -> str:
    """`Release notes` is `release-notes`."""
    name = plain(words).replace("_", "-")
    return name if name[:1].isalpha() else ""
