"""Which of several names a text means, where it says so in words and not as it was asked to.

A text that begins with just one name as a whole word, and a separator behind it, means that name:
`reject - it fails`. See `_first`.

Any other text is taken apart into clauses. A clause means a name where it is nothing but that name,
a word that hands over (`route to`, `next:`, `is best`) and words that say nothing; it rules a name
out by a word against it, before the name or behind it. A text means a name where just that one is
meant and nothing speaks against it: no other name that is not ruled out, no `or`, no `if`, no
`however`.

All else is not clear. A model is asked again then, which costs a call; to take what it did not
mean costs a user the wrong agent. So these lists are short, and what is in none of them is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

LONGEST_TEXT = 20_000
"""Characters of a text in which names are looked for."""
SEPARATORS = re.compile(r"[\s_-]+")
"""What parts the words of a name."""
_MOST_NAMES = 5_000
_FIRST_SIGN = 0xE000  # private use: no text of a model has a meaning there
_SIGN = re.compile("[\ue000-\uf8ff]")
_N = "[\ue000-\uf8ff]"
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINKS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
FINALLY = re.compile(r"\bfinal (?:answer|decision|choice|reply)\b\W{0,6}[:=]", re.IGNORECASE)
"""What stands behind the last of these is the answer; what stands before it led there."""
_SENTENCE = re.compile(r"(?<![.!;])[.!;]++(?=[\s\"'*_`)\]]|$)|\n+")
_CLAUSE = re.compile(
    r",|[\u2013\u2014()\[\]{}]|\s-+\s|//|/\*|\*/|(?=\bbut\b)|(?=\bso\b)|"
    r"(?=\b(?:since|because|as|given that|due to|while|whereas)\b)"
)
_REASON = re.compile(r"(?:since|because|as|given that|due to|while|whereas)\b")
_RULED_OUT = re.compile(
    r"\b(?:(?:not|never|nor|neither|instead of|rather than|unlike|than|except|without|apart from)"
    r"\s+(?:(?:to|the|our|by|for|via|with|an?)\s+)*|(?<!hand )over\s+(?:the\s+)?)"
    rf"{_N}"
    rf"(?:(?:\s*,\s*|\s+)(?:(?:and|or|nor)\s+)?(?:(?:to|the)\s+)*{_N})*"
)
_NOT = re.compile(
    r"\b(?:not|never|no|nor|neither|none|nobody|nothing|nowhere|cannot|cant|wont|dont|doesnt|isnt|"
    r"unable|without|except|unlike|avoid\w*|skip\w*|exclud\w+|bypass\w*|ignor\w+|against|wrong\w*|"
    r"refus\w+|reject\w+|stop\w*|instead|rather|hardly|barely|less|least|worse|worst|bad\w*|"
    r"poor\w*|unsuit\w*|unfit\w*|fail\w*|lack\w*|useless|incapable|impossible|forbid\w*|forbidden|"
    r"wrongly|nope|nah)\b|n't\b"
)
_AWAY = re.compile(
    r"\b(?:busy|unavailable|away|absent|offline|down|out|overloaded|sick|closed|gone|left|disabled|"
    r"used up|too)\b"
)
_OTHER_TIMES = re.compile(
    r"\b(?:later|afterwards|already|tried|earlier|before|previous\w*|formerly|was|were|had|been|"
    r"done)\b"
)
_DOUBT = re.compile(
    r"\b(?:or|either|if|unless|maybe|perhaps|possibly|probably|might|could|may|actually|wait|hm+|"
    r"sorry|correction|scratch|reconsider\w*|second thoughts?|reflection|though|although|however|"
    r"yet|otherwise|else|both|first|second|then|also|too|only|until|whether|depend\w*|unsure|"
    r"unclear|uncertain|consider\w*|once|when\w*|examples?|e\.g|such|like|opposite|disregard|false|"
    r"joke|kidding|"
    r"anyone|anybody|everyone|everybody|any|others?|another|better|more|oops|never ?mind|"
    r"suppos\w+|would have|"
    r"should have|ought|doubt\w*|hesitat\w*|alternativ\w+|split|partly|partially|pretend\w*|"
    # The same in languages that models fall into.
    r"nein|nicht|kein\w*|nie|niemals|oder|aber|doch|sondern|statt|non|pas|jamais|aucun\w*|mais|ou|"
    r"plut[oô]t|ningun\w*|ning[uú]n|nunca|jam[aá]s|tampoco|sino|pero|nem|n[aã]o|mas|niet|geen|maar|"
    r"ikke|inte|nej|men|nie|ale|niente|nessun\w*|ma|per[oò]|anche|invece|auch|lieber|eher|erst)\b|"
    r"\?|[\u0370-\u1cff\u2e80-\ud7ff\uf900-\ufaff]"
)
_TAKEN_BACK = re.compile(
    r"(?:\A|[.!;:,\n])\W{0,8}(?:no|nope|nein|non|not)\b(?=\s*[,.!:;\u2013\u2014-]|\s*\Z)"
)
"""A no that stands alone."""
_RETRACTS = re.compile(
    r"\b(?:actually|wait|scratch|second thoughts?|on reflection|ignore|disregard|correction|"
    r"never ?mind|oops|sorry|kidding|however|although|but|instead(?! of)|unless|or rather|"
    r"or better|no longer|not final|wrong|incorrect|made (?:this|it|that) up|if(?! you\b))\b|\?|"
    rf"{_TAKEN_BACK.pattern}"
)
_TAKES_BACK = re.compile(
    r"\b(?:actually|wait|scratch|second thoughts?|on reflection|ignore|disregard|correction|"
    r"never ?mind|oops|sorry|kidding|or rather|not final|do not use|don't use)\b"
)
"""Of data that is no choice between a few: much may be said beside it."""
_NOT_GOOD = re.compile(
    r"\b(?:fail\w*|reject\w*|not (?:yet|pass\w*|good|done|ready|right|finished|complete\w*)|"
    r"(?:do|does|did|must|should|can) ?not|cannot|missing|broken|unfinished)\b|n't\b"
)
"""What stands behind no yes."""
YES = "yes"
_GOES_ON = re.compile(
    r"\A[\s`\"')*_]*(?:is(?! my\b| the (?:answer|best|right))|isn't|was|wasn't|are|"
    r"aren't|would|wouldn't|can't|cannot|could|won't|will not|may|might|must not|should not|"
    r"shouldn't|or|and not|does|doesn't)\b"
)
_NO_ANSWER = re.compile(
    r"(?:\b(?:not|never|no|neither|nor|instead of|rather than|wrong|example|e\.g\.?|such as|like|"
    r"if|unless|considered|cannot|avoid)\b|n't\b)[^.,;\n]{0,30}\Z|"
    r"\b(?:sent|wrote|said|says|answered|replied|was|were|or|or else)\W*\Z"
)
_LABELS = (
    r"(?:(?:the|my|our|so|therefore|thus|final|best|is|selected|chosen|recommended|next|most|"
    r"appropriate|suitable)\s+)*"
    r"(?:next(?: agent| step| speaker)?|agent|answer|reply|decision|choice|route|routing|target|"
    r"strategy|recommendation|selection|selected|chosen|result|assignee|handoff|hand-off|handover|"
    r"hand over|hand off|transfer|go)(?:\s+(?:to|up|chosen|selected))?"
)
_LABEL = re.compile(
    rf"{_LABELS}\s*(?:is|should be|will be|must be|=>|->|→|[:=])?\s*(?:to\s+)?(?:the\s+)?{_N}"
)
_NO_NAME = re.compile(rf"{_LABELS}\s*(?:[:=]|->|=>)\s*\S.*")
"""A label with something else than a name: `next: nobody`."""
_ALONE = re.compile(
    r"(?:(?:so|ok|okay|therefore|thus|hence|but|to|the|our|we|agent|use|→|->|=>|yes|for|i say)\s*)*"
    rf"{_N}(?:\s+(?:please|agent|team|it is|this|one|now|next|specialist))*"
)
_FILLERS = (
    r"(?:(?:so|ok|okay|and|but|therefore|thus|hence|now|please|yes|i|we|you|it|this|that|the|a|one|"
    r"i'd|i'll|i'm|we'll|we'd|let's|lets|let|us|me|will|would|should|shall|must|think|believe|say|"
    r"going|is|it's|clearly|best|to|user|customer|client|request|question|message|case|task|"
    r"ticket|issue|matter|job|conversation|be|clear|simple|here|definitely|certainly|recommend|"
    r"suggest)\s+)*"
)
_TO = (
    r"(?:route|routes|routing|send|sends|sending|hand|hands|handing|transfer|transferring|forward|"
    r"forwarding|delegate|delegating|assign|assigning|pass|passing|give|giving|belongs)\s+"
    r"(?:(?:this|that|it|them|him|her|the|user|customer|client|request|question|message|case|task|"
    r"ticket|issue|matter|job|conversation|everything|all|of|on|off|over|directly|straight)\s+)*to"
)
_CHOOSE = (
    r"choose|choosing|pick|picking|select|selecting|use|using|call|go with|go to|recommend|for"
)
_TAIL = r"(?:\s+(?:agent|team|specialist|desk|now|please|next|directly))*"
_CUE = re.compile(
    rf"{_FILLERS}(?:{_TO}|{_CHOOSE})\s+(?:(?:the|our|agent)\s+)*{_N}{_TAIL}"
    r"(?:\s+(?:for|to|who|which|with|about|on|regarding)\s.*)?"
)
_SUBJECT = re.compile(
    rf"{_FILLERS}{_N}{_TAIL}\s+(?:(?:should|must|will|can|shall|is to|has to|needs to)"
    r"(?:\s+(?:handle|take|do|answer|help|deal|go on|go next|continue|reply|look|work|be next))?"
    r"(?:\s+(?:this|it|that|with|over|care|of|on|next|now|into|after))*|"
    r"(?:handles|takes|does|answers) (?:this|it|that|over|care of (?:this|it|that))|fits|goes next|"
    r"is (?:(?:clearly|definitely|the|a|most)\s+)*(?:(?:best|right|correct|suitable)\s+"
    r"(?:one|agent|choice|place|fit)|best|suitable|next|right for)"
    r"(?:\s+(?:the|this|it|that|one|for|here))*)"
)
_DESCRIBES = re.compile(
    rf"(?:the\s+)?{_N}{_TAIL}\s+(?:is for|handles|deals with|covers|manages|repairs|fixes|"
    r"looks after|works on)\s+(?!this|it\b|that|these)\S.*"
)
_REPORTS = re.compile(
    r"(?:the |our )?(?:user|customer|client|person|message|request|question|they|he|she)\s+"
    r"(?:mention|ask|say|said|want|writ|wrote|talk|speak|spoke|complain)\w*\s.*"
)
_STORY = re.compile(r"(?:the |our )?(?:user|customer|client|person)(?:'s)?\s.*")
_YES = re.compile(r"\W*(?:yes|since|because)\b")
_NOT_JUST = re.compile(r"\b(?:only|just|merely|simply|anyone|anybody|if|unless|or|then)\b")
_TOGETHER = re.compile(rf"\W*(?:and|or|plus|&)\s+(?:(?:to|the)\s+)*{_N}")
_ALSO = re.compile(r"\bas (?:well|soon|long|much|far)\b")
_BEFORE = " \t\r\n*_`#>-"
"""What may stand before the name that a text begins with; a quotation mark is looked at."""
_BEGINS = re.compile(
    rf"(?P<quote>[\"'\u201c\u2018]?)[*_`]*(?P<name>{_N})[\"'\u201d\u2018*_`)\]]*"
    r"(?:[^\S\n]*+(?:[;:,!\n\u2013\u2014]|\.(?=[\s\"'*_`)\]]|\Z)|--|(?<=\s)-\s|\Z)[\"'*_`]*|"
    r"\s+(?P<words>(?:the|this|that|it|them|these|those|because|since|due to)\b))"
)
"""A name, and what makes it the answer: a separator, or an object or a reason."""
_CONDITION = re.compile(
    r"\W*(?:but\s+)?(?:only\s+)?(?:or|if|unless|provided|assuming|once|until|maybe|perhaps|"
    r"but (?:not|only))\b"
)
_ABSENT = re.compile(
    r"\s*(?:(?:it|he|she|they|nobody|no one)\s+(?:is|are)\s+)?(?:busy|unavailable|away|absent|"
    r"offline|out(?! of)|overloaded|sick|closed|there)\b"
)
"""Said of who is named: `a: it is busy`."""
_INSTEAD = re.compile(rf"\bor\W+(?:(?:to|the|rather)\s+)*{_N}")
_LISTED = re.compile(rf"(?:\A|[\n;,|]|\.\s)[ \t\r\"'*_`#>-]*+{_N}[\"'*_`]*\s*[:=|]")
"""A name with something of its own behind it: `a: 0.2; b: 0.8`."""
_QUOTES = re.compile(r"[\"`*_<>|\\]+|(?<![a-z])'|'(?![a-z])")
_MARKUP = " \t\r*_`'\"#>-.:,;!<=|"


@dataclass
class _Marks:
    """What a text says of its names, by their signs."""

    meant: set[str] = field(default_factory=set[str])
    against: set[str] = field(default_factory=set[str])
    beside: set[str] = field(default_factory=set[str])
    """Mentioned, and nothing more: where another one is meant, this may be, too."""
    unclear: bool = False


def answer_of(text: str) -> str:
    """A text without the thoughts before it; what is nothing but thoughts is no answer."""
    text = _THOUGHTS.sub("", text)
    return "" if _THINKS.search(text) else text


def named_in(text: str, names: Sequence[str]) -> str | None:
    """The one name that a text means, of several; none where that is not clear.

    Args:
        text: What a model said.
        names: The names that it may mean.
    """
    text = answer_of(text[:LONGEST_TEXT])
    final = [found.end() for found in FINALLY.finditer(text)]
    text = text[final[-1] :] if final else text
    if names and len(names) <= _MOST_NAMES and (sign := _first(text, names)):
        return names[ord(sign) - _FIRST_SIGN]
    found = _marks(text, names)
    if found.unclear or len(found.meant) != 1 or found.meant & found.against:
        return None
    (sign,) = found.meant
    return None if found.beside - found.meant else names[ord(sign) - _FIRST_SIGN]


def _first(text: str, names: Sequence[str]) -> str:
    """The sign of the name that a text begins with, and means by that; empty where none.

    A separator follows the name, and then whatever is said of it, or an object or a reason, and
    then no doubt. Neither counts where more names begin the text, where the rest means another
    one or is against this one, and where a condition follows.
    """
    begin = _signed(_smooth(text), names).lstrip(_BEFORE)
    if (found := _BEGINS.match(begin)) is None:
        return ""
    sign, rest = found["name"], begin[found.end() :]
    others = {*_SIGN.findall(rest)} - {sign}
    if found["words"]:
        sentence = _CLAUSE.split(_SENTENCE.split(f"{found['words']}{rest}", maxsplit=1)[0])[0]
        doubts = (_NOT, _AWAY, _OTHER_TIMES, _DOUBT)
        sure = not any(each.search(sentence) for each in doubts) and not _RETRACTS.search(rest)
        return sign if sure and not others else ""
    if any(each.match(rest) for each in (_CONDITION, _TOGETHER, _ABSENT)):
        return ""
    if _LISTED.search(rest) or _TAKEN_BACK.search(rest):
        return ""
    if others and (found["quote"] or _TAKES_BACK.search(rest) or _INSTEAD.search(rest)):
        return ""
    said = _marks(rest, names, signed=True)
    return "" if said.meant - {sign} or sign in said.against else sign


def taken_back(
    before: str, after: str, names: Sequence[str] = (), name: str = "", *, choice: bool = True
) -> bool:
    """Whether the words beside a reply's data speak against what it says.

    Args:
        before: What stands before the data.
        after: What stands behind it.
        names: The names that the data may have.
        name: The one that it has; `YES` of a yes, empty where it has none.
        choice: Whether it says which of a few, or yes or no: a `but` behind it counts then.
    """
    before, after = _smooth(before[-200:]).rstrip(" `*_\"':{[(\n"), _smooth(after[:LONGEST_TEXT])
    if _NO_ANSWER.search(before) or _GOES_ON.match(after):
        return True
    if (_RETRACTS if choice else _TAKES_BACK).search(after):
        return True
    if choice and name == YES and _NOT_GOOD.search(after):
        return True
    if not names or not name:
        return False
    found, sign = _marks(after, names), _sign_of(name, names)
    return (
        sign in found.against
        or bool((found.meant | found.beside) - {sign})
        or _TOGETHER.match(_signed(after, names)) is not None
    )


def _marks(text: str, names: Sequence[str], *, signed: bool = False) -> _Marks:
    found = _Marks()
    if not names or len(names) > _MOST_NAMES:
        return found
    if not signed:
        text = _signed(_smooth(text), names)
    for sentence in _SENTENCE.split(text):
        _of_sentence(sentence, found)
    return found


def _smooth(text: str) -> str:
    text = _SIGN.sub("", text).replace("\u2019", "'").replace("```", "\n")
    return text.lower()


def _signed(text: str, names: Sequence[str]) -> str:
    """The text with a sign instead of each name: no word of a name is taken for one of ours."""
    signs = {_alike(name): chr(_FIRST_SIGN + i) for i, name in enumerate(names)}
    parts = [[re.escape(word) for word in SEPARATORS.split(name.lower()) if word] for name in names]
    parts.sort(key=lambda words: -sum(map(len, words)))
    pattern = "|".join("[ _-]?".join(words) for words in parts if words)
    if not pattern:
        return text
    return re.sub(
        rf"(?<![\w-])(?:{pattern})(?![\w-])", lambda at: signs.get(_alike(at[0]), ""), text
    )


def _of_sentence(sentence: str, found: _Marks) -> None:
    def ruled_out(at: re.Match[str]) -> str:
        found.against.update(_SIGN.findall(at[0]))
        return " "

    found.unclear |= _ALSO.search(sentence) is not None
    parts = _CLAUSE.split(_RULED_OUT.sub(ruled_out, sentence))
    clauses = [each.strip(_MARKUP) for part in parts for each in _labelled(part)]
    reason = False
    for number, clause in enumerate([each for each in clauses if each]):
        begins = _REASON.match(clause) is not None
        # `Since it is late, …` ends at its comma; `…, since it is late, …` at the sentence's end.
        reason = reason or (begins and number > 0)
        _of_clause(" ".join(clause.split()), found, reason=reason or begins)


def _labelled(clause: str) -> Iterator[str]:
    """A clause, cut at a colon that stands behind a name: `not a: b`."""
    while (at := re.search(rf"(?<={_N})[\"'`*_ ]*:", clause)) is not None:
        rest = clause[at.end() :]
        if not _SIGN.search(rest) and rest.strip() and not _YES.match(rest):
            break  # `a: it is busy` says something of it
        yield clause[: at.start()]
        clause = rest
    yield clause


def _of_clause(clause: str, found: _Marks, *, reason: bool) -> None:
    signs = _SIGN.findall(clause)
    against = _NOT.search(clause) or _AWAY.search(clause)
    doubt = _DOUBT.search(clause)
    if not signs:
        but = clause.startswith("but ") or clause == "but"
        aside = reason or _STORY.fullmatch(clause) is not None
        found.unclear |= bool(not aside and (against or doubt or but))
        found.unclear |= bool(_RETRACTS.search(clause) or _NO_NAME.fullmatch(clause))
    elif against:
        found.against.update(signs)
        found.unclear |= _NOT_JUST.search(clause) is not None
    elif _OTHER_TIMES.search(clause):
        return
    elif doubt:
        found.unclear = True
    elif _means(_QUOTES.sub("", _REASON.sub("", clause)).strip(_MARKUP), reason=reason):
        found.meant.update(signs)
    elif not reason and not _DESCRIBES.fullmatch(clause) and not _REPORTS.fullmatch(clause):
        found.beside.update(signs)


def _means(clause: str, *, reason: bool) -> bool:
    """Whether a clause names one, and says that it is to be that."""
    if len(_SIGN.findall(clause)) != 1:
        return False
    ways = (_CUE, _SUBJECT) if reason else (_ALONE, _LABEL, _CUE, _SUBJECT)
    return any(way.fullmatch(clause) for way in ways)


def _alike(name: str) -> str:
    return SEPARATORS.sub("", name).lower()


def _sign_of(name: str, names: Sequence[str]) -> str:
    return chr(_FIRST_SIGN + names.index(name)) if name in names else ""
