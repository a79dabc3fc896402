"""What leads a clause: words of order, of doubt and of politeness, and what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crewlog.prompt.grammar.phrase import Phrase

_END = r"(?= |$)"


def _longest_first(ways: str) -> str:
    """Alternatives so that `first of all` is tried before `first`."""
    out, depth = [""], 0
    for sign in ways:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            out.append("")
        else:
            out[-1] += sign
    return "|".join(sorted(out, key=len, reverse=True))


LEADS: list[tuple[str, re.Pattern[str]]] = [
    (mark, re.compile(rf"(?:{_longest_first(text)}){_END}"))
    for mark, text in [
        (
            "",
            (
                r",|\.|–|:|;|and|but|so|oh|ok|okay|well|right|please|now|also|additionally"
                r"|besides|moreover|furthermore|further|plus|yet|too|though|although|albeit"
                r"|either way|in either case|in both cases|whatever happens|on the other hand"
                r"|first off(?= ,)|honestly|basically|obviously|of course|by the way|btw"
                r"|anyway|in addition|i mean|you know|i guess|i think|i would say|let us say"
                r"|let us|kindly|just|simply|actually|really|hey|like|note that|remember"
                r"|remember that|make sure that|make sure|ensure that|ensure|importantly"
                r"|working in parallel|working side by side|working together"
                r"|working at the same time|working simultaneously|in this crew|for now"
                r"|as usual|as always|however|thus|hence|alright|still|the idea is|the idea"
                r"|the plan is|what i would like is|what i need|what i want is|i would like"
                r"|i want|only then|from here|from there|in short|to be clear|mind you"
            ),
        ),
        (
            "after_that",
            (
                "after that|after this|after which|thereafter|thereupon|after this step"
                "|after that step|once that is over|once this is over|afterwards"
                "|after all that|after it all|thereafter|if that does not help|if that fails"
            ),
        ),
        (
            "then",
            (
                "then|next|next up|next in line|finally|lastly|last|last of all"
                "|last but not least|at the end|in the end|at the very end|eventually"
                "|subsequently|later|later on|second|secondly|third|thirdly|fourth|fourthly"
                "|fifth|fifthly|sixth|following that|following this|once (?:that|this|it"
                "|all that|all of that|all this|everything) (?:is|has been) (?:done|finished"
                "|complete|ready|over|through)|when (?:that|this|it|all that|all of that"
                "|all this|everything) (?:is|has been) (?:done|finished|complete|ready|over"
                "|through)|with that done|that done|(?:when|once) (?:done|finished|through)"
                "|to finish|to finish up|to end|to conclude|as a last step|as the last step"
                "|as a final step|in a second step|in a next step|as a next step|step [0-9]+"
                "|in turn|from then on|to wrap up|at the very last|as the very last step"
                "|in the last step|in the final step|to round (?:it|things) off|at last"
                "|immediately after(?:wards)?|right after(?: that)?|shortly after(?:wards)?"
                "|only after that|once more|once again|again|a second time"
            ),
        ),
        (
            "first",
            (
                "first|firstly|first of all|to start with|to begin with|to start|to begin"
                "|initially|at first|at the start|at the beginning|to kick (?:things )?off"
                "|for starters|in the first step|as a first step|as the first step"
                "|it (?:all )?(?:starts|begins) with|we (?:start|begin)(?: off| out)? with"
                "|(?:start|begin)(?: off| out)? with|starting(?: off)? with"
                "|it all begins with|everything starts with"
            ),
        ),
        (
            "beside",
            (
                "meanwhile|in the meantime|in the meanwhile|at the same time|simultaneously"
                "|in parallel(?: (?:to|with) (?:that|this|it))?|parallel to (?:that|this)"
                "|alongside(?: (?:that|this|it))?|concurrently|while (?:it|he|she|they|that"
                "|this)(?: is| are)?(?: (?:doing|working|busy|happening|going|running|at"
                "|under way|on|does|do|happens|works?|runs?|goes)[^,@;]{0,30}?)?(?= @| ,)"
                "|side by side|at once|all the while|during (?:that|this)(?: time)?"
            ),
        ),
        (
            "start",
            (
                "from the start|from the very start|right away|straight away"
                "|from the beginning|right from the start|immediately"
                "|independently of (?:that|this|everything else)"
            ),
        ),
        (
            "otherwise",
            (
                "otherwise|or else|else|failing that|if not(?= ,| back| @| it (?:goes|is)"
                "| return| go| we | you | ask| stop| send| start|$)|in any other case"
                "|in all other cases|in every other case|in other cases"
                "|for (?:everything|anything|all) else|if (?:it|that|this) is not(?= ,|$)"
                "|(?:if|when) (?:it|that|this|they|she|he) (?:does|do|did|has|have|is"
                "|are) not(?= ,|$)"
                "|if none of (?:these|those|them|that)(?: apply| applies| is the case)?(?= ,|$| @)"
                "|anything else|everything else|(?:in|with) the rest|or|if neither(?= ,|$| @)|when not"
                "|if the answer is no|if still not|if it is neither"
            ),
        ),
        ("if_so", r"if so|if yes|in that case|in this case|if (?:it|that) (?:is|does)(?= ,|$)"),
    ]
]
TRAILS = re.compile(
    "(?: (?:,|–|please|obviously|thanks|of course|btw|by the way"
    "|for heaven 's sake|if you like|if you please|pls|and that is that"
    "|and that is it|and only then|, (?:right|ok|okay|well|you know|i guess"
    "|i think|i would say|really|actually|always|would you|will you|though|anyway"
    "|mind you|too|as well|ever|then|in any case|like)))+$"
)


@dataclass(slots=True)
class Led:
    """A phrase without what leads it."""

    phrase: Phrase
    marks: set[str] = field(default_factory=set[str])


_BRANCHES = frozenset(["otherwise", "if_so", "start"])
"""Marks of leads that stand for a condition, and open their clause themselves."""


def lead_at(text: str, place: int) -> str:
    """The longest words of order or of no meaning that stand at a place; empty where none do."""
    if text.startswith(("only ", "otherwise "), place):
        return "only" if text.startswith("only ", place) else ""
    best = max(_length(said, text, place) for mark, said in LEADS if mark not in _BRANCHES)
    return text[place : place + best]


def lead_ends(words: Sequence[str]) -> int:
    """How many of the last of some words lead what follows them: `last of all`; 0 if none do."""
    for size in range(min(len(words), _LONGEST_LEAD), 1, -1):
        text = " ".join(words[-size:])
        if any(compiled.fullmatch(text) for mark, compiled in LEADS if mark in _ORDER):
            return size
    return 0


_ORDER = frozenset(["then", "first", "after_that", "beside"])
_LONGEST_LEAD = 6
"""Words."""


def _length(compiled: re.Pattern[str], text: str, place: int) -> int:
    found = compiled.match(text, place)
    return found.end() - place if found is not None else 0


_LATER = re.compile(
    "(?<! who)(?<! what)(?<! which)(?<! works)(?<! goes)(?<! comes)(?<! is)(?<! work)(?<! go)(?<! come) (?:after that"
    "|after this|afterwards|thereafter|subsequently|next)$"
)
"""`The copywriter drafts the page after that`."""


def led(phrase: Phrase) -> Led:
    """Strips the words that lead a phrase, and those that trail it."""
    out = Led(phrase)
    place, text = 0, phrase.text
    moved = True
    while moved and place < len(text):
        moved = False
        if text[place] in "@#$~":
            break
        best = 0
        mark = ""
        for name, compiled in LEADS:
            found = compiled.match(text, place)
            if found is not None and found.end() - place > best:
                best, mark = found.end() - place, name
        if best and not _kept(text[place:], mark):
            moved = True
            if mark:
                out.marks.add(mark)
            place += best + 1
    end = len(text)
    if (later := _LATER.search(text, min(place, end))) is not None and later.start() > place:
        out.marks.add("after_that")
        end = later.start()
        text = text[:end]
    if (trail := TRAILS.search(text, min(place, end))) is not None and trail.start() > place:
        end = trail.start()
    out.phrase = phrase.part(place, end) if place < end else Phrase(())
    return out


_ONLY = re.compile(
    r"(?:just|simply) @[0-9]+ (?:, |and |@[0-9]+ |alone ){0,9}(?:may|can|has|have|gets?|sees?)\b"
)
"""`Just the coder may deploy`: it means only."""


def _kept(text: str, mark: str) -> bool:
    """Whether words that could lead are the clause itself: `next comes the typesetter`."""
    if _ONLY.match(text):
        return True
    return text.startswith(
        ("next to ", "first to ", "last to ", "so that ", "right to ", "now and ")
    ) or (
        mark in {"then", ""} and re.match(r"(?:once|again|later|still|well|too)$", text) is not None
    )
