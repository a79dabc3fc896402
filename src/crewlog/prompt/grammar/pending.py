"""Subordinate clauses: conditions, waits and lists, kept for the clause they belong to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from crewlog.prompt.ast import Both, Cond, Not, Waits, Words
from crewlog.prompt.grammar.lexicon import plural
from crewlog.prompt.grammar.phrase import Phrase, number, pattern
from crewlog.prompt.grammar.state import State
from crewlog.prompt.names import plain

_DONE = (
    r"(?:done|finished|ready|through|complete|completed|finishes|finish|completes|ends?|ended|back|over|stopped|"
    r"wraps? up|wrapped up|delivered|delivers?|in|reported|reports?|reported back|reports back|returned|returns?|"
    r"finished (?:with )?(?:it|that|their work|its work|his work|her work|work|their part|working)|concluded|handed in|handed over|"
    r"good to go|at the end|out|stops?|come back|comes back|got there|free|had their turn|had its turn|had a turn|submitted|submits?|"
    r"done (?:with )?(?:it|that|their work|its work|his work|her work|work|their part|its part|so|working|their thing|its thing|his thing|her thing|their bit|their jobs?|its job|writing|reading|reviewing)|signed off)"
)
_IS = r"(?:(?:is|are|has|have|'s|been|both|all|each|finally|fully|completely|had|gets?|got|comes?|was|were|then) )*+"
_AGENTS_DONE = pattern(
    rf"(?:both |all of |all |either |each of |any of |one of )?(?P<of>{{A}}) {_IS}{_DONE}(?: (?:and only then|with .+|first|[a-z]+ing .+))?"
)
_AGENTS = pattern(
    r"(?P<of>{A})(?: 's (?:turn|work|part|job|step|bit|go|pass|phase))?(?: (?:is|has been|are) (?:done|over|finished|complete|completed|through))?"
)
_ACTS = pattern(
    r"(?P<of>{A}) (?:has |have |is |are )?(?:all |both |then |finally |also )*(?P<verb>(?!not\b)[a-z-]+)(?P<rest> .*)?"
)
_ALL_DONE = re.compile(
    rf"(?:both|all|all (?:two|three|four|five|six|of them|of these|agents|the others)|both of them|they|they (?:both|all)|these|the two|the three|everyone|everybody|all of (?:them|that|those|it)|"
    rf"the (?:two|three|four|others|rest|last two|others))(?: of them)? {_IS}{_DONE}(?: (?:and only then|.{{1,40}}))?"
)
_THAT_DONE = re.compile(
    rf"(?:that|this|it|all that|all this|everything|all|it all|this step|this part|the work|the job) {_IS}(?:{_DONE}|happened|taken care of|settled|out of the way)(?: .*)?"
)
_JOINED = pattern(
    rf"(?:(?P<any>any|either|one|any one|the first|the first one|the fastest|whichever|at least one|someone|somebody|a single one|the quickest)|(?:at least |any )?(?P<some>{{N}}))"
    rf"(?: (?:one )?of (?:them|these|those|the (?:[a-z]+ )?[a-z]+|(?P<of>{{A}}))| agents?| results?)? {_IS}{_DONE}(?: .*)?"
)
_FIRST = pattern(
    r"(?:whoever (?:is|gets there|comes(?: in)?|finishes|has it|is done|is ready|is finished|gets done) (?:first|done first)(?: .*)?|(?:the )?first (?:one |of them )?(?:to (?:finish|come back|be done|be ready|deliver|report)|is done|finishes|comes in|is back|is in|is ready|has finished|is finished)(?: .*)?|one has finished)"
)
_EACH = pattern(
    r"for (?:each|every|each and every|every single)(?: one)?(?: of)? ?(?:the |these |those |its |such )?(?:(?P<maker>{A1}) 's )?(?:new |single )?(?P<noun>[a-z][a-z -]{0,40}?)(?: of (?:the )?(?P<of>{A1})(?: 's)?| (?:that|which) .*| on the list| found| listed| (?:it|he|she|they) .*| from (?P<from>{A1})(?: .*)?)?"
)
_AVAILABLE = pattern(
    r"(?:only )?(?:if|when|as long as|provided|provided that|in case) {T:tools} (?:is|are) (?:available|there|offered|installed|configured|set up|present|enabled)"
)
_IF = re.compile(
    r"(?P<word>if|unless|in case|provided that|provided|assuming|as long as|until|till|when|whenever|once|as soon as|the moment|after|while|whilst|before|should)(?: |$)"
)
_READY = re.compile(
    r"(?:^|_)(?:ready|done|complete|completed|finished|available|in|there|set|exists?|exist|arrived|final|settled|written|built|merged|up)$"
)


@dataclass(slots=True)
class Pending:
    """What waits for its clause."""

    condition: Cond | None = None
    waits: Waits | None = None
    ready: Cond | None = None
    each: str | None = None
    maker: str | None = None
    needs: tuple[str, ...] = ()
    then: bool = False
    until: bool = False
    kind: Literal["if", "while", "before"] = "if"
    clause: Phrase | None = None
    """Of `while` and `before`: the clause itself."""
    words: list[Words] = field(default_factory=list[Words])

    def __bool__(self) -> bool:
        return bool(self.words)

    def merge(self, other: Pending) -> None:
        """Takes in another."""
        if self.condition is not None and other.condition is not None:
            self.condition = Both(of=(self.condition, other.condition))
        else:
            self.condition = self.condition or other.condition
        self.waits = self.waits or other.waits
        self.ready = self.ready or other.ready
        self.each, self.maker = self.each or other.each, self.maker or other.maker
        self.needs = (*self.needs, *other.needs)
        self.then, self.until = self.then or other.then, self.until or other.until
        self.words.extend(other.words)


def subordinate(state: State, phrase: Phrase) -> Pending | None:
    """What a subordinate clause says; none where nothing can be made of it."""
    text = phrase.text
    if not phrase:
        return None
    words = [phrase.words]
    if (found := _EACH.fullmatch(text)) is not None:
        maker = state.names(found["maker"] or found["of"] or found["from"] or "")
        each = plain(plural(found["noun"].strip()))
        return Pending(each=each, maker=maker[0] if maker else None, words=words)
    if (found := _AVAILABLE.fullmatch(text)) is not None:
        return Pending(needs=state.tool_names(found["tools"]), words=words)
    if _FIRST.fullmatch(text):
        return Pending(waits=Waits(join="any"), words=words)
    found = _IF.match(text)
    if found is None:
        return None
    word, rest = found["word"], phrase.part(found.end())
    if word in {"while", "whilst"}:
        return Pending(kind="while", clause=rest, words=words)
    if word == "before":
        return Pending(kind="before", clause=rest, words=words)
    if word in {
        "if",
        "unless",
        "in case",
        "provided",
        "provided that",
        "assuming",
        "as long as",
        "until",
        "till",
        "should",
    }:
        return _condition(state, word, rest.text, words)
    return _waits(state, word, rest, words)


def _condition(state: State, word: str, text: str, words: list[Words]) -> Pending | None:
    text = text.removeprefix("and only if ").removeprefix("and until ")
    if text.startswith("not ") and word == "if" and " " not in text[4:]:
        pass
    if word == "should":
        text = re.sub(r"^(@[0-9]+|it|the [a-z ]+?) (?:be )?", r"\1 ", text)
    condition = state.condition(text)
    if condition is None:
        return None
    if word in {"unless", "until", "till"}:
        condition = condition.of if isinstance(condition, Not) else Not(of=condition)
    return Pending(condition=condition, until=word in {"until", "till"}, words=words)


def _waits(state: State, word: str, rest: Phrase, words: list[Words]) -> Pending | None:
    text = rest.text
    if _THAT_DONE.fullmatch(text):
        return Pending(then=True, words=words)
    if (found := _AGENTS_DONE.fullmatch(text)) is not None or (
        word == "after" and (found := _AGENTS.fullmatch(text)) is not None
    ):
        any_of = " or " in found["of"] or re.match(r"(?:either|any of|one of) ", text)
        waits = Waits(of=state.names(found["of"]), join="any" if any_of else "all")
        return Pending(waits=waits, words=words)
    if _ALL_DONE.fullmatch(text):
        return Pending(waits=Waits(), words=words)
    if (found := _JOINED.fullmatch(text)) is not None:
        count = number(found["some"] or "")
        join: object = "any" if found["any"] or count == 1 else int(count or 1)
        waits = Waits.model_validate({"of": state.names(found["of"] or ""), "join": join})
        return Pending(waits=waits, words=words)
    if (
        word != "when"
        and word != "whenever"
        and (found := _ACTS.fullmatch(text)) is not None
        and not _decision(state, text)
    ):
        return Pending(waits=Waits(of=state.names(found["of"])), words=words)
    if (
        word == "when"
        and (found := _ACTS.fullmatch(text)) is not None
        and re.match(r"(?:has|have) ", text.partition(" ")[2])
        and not _decision(state, text)
    ):
        return Pending(waits=Waits(of=state.names(found["of"])), words=words)
    condition = state.condition(text)
    if condition is None:
        return None
    fact = condition.of if isinstance(condition, Not) else condition
    name, operator = getattr(fact, "name", ""), getattr(fact, "operator", None)
    if word in {"when", "whenever"} and (operator is not None or not _READY.search(name)):
        return Pending(condition=condition, words=words)
    return Pending(ready=condition, words=words)


def _decision(state: State, text: str) -> bool:
    """Whether `once the checker …` speaks of a decision (`approves`) and not of an end."""
    fact = state.condition(text)
    fact = fact.of if isinstance(fact, Not) else fact
    return getattr(fact, "name", "") in {
        "approved",
        "rejected",
        "accepted",
        "declined",
        "refused",
        "confirmed",
        "agreed",
        "signed_off",
        "vetoed",
        "happy",
        "satisfied",
        "turned_down",
    }
