"""Conditions: `approved`, `the score is below 0.8`, `it is a bug or a question`.

The same words always give the same name: an article, `it` and `now` say nothing, a decision
(`approved`, `rejected`) is called so whatever it is about, and otherwise the thing and what is said
of it are the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from crewlog.model import Json
from crewlog.prompt.ast import Both, Cond, Either, Fact, Not
from crewlog.prompt.grammar.lexicon import singular
from crewlog.prompt.grammar.mentions import Roster
from crewlog.prompt.grammar.phrase import number, pattern
from crewlog.prompt.names import plain

_CHOICES = frozenset(
    [
        "kind",
        "type",
        "priority",
        "category",
        "severity",
        "status",
        "urgency",
        "language",
        "topic",
        "verdict",
        "level",
        "class",
        "mood",
        "tone",
        "sentiment",
        "sort",
        "label",
        "stage",
        "region",
        "risk",
        "intent",
        "outcome",
        "result",
        "decision",
        "answer",
        "department",
        "rating",
        "size",
        "colour",
        "color",
        "format",
        "channel",
        "genre",
        "impact",
    ]
)
"""Nouns of which one says which: `the priority is high`."""

_DECISIONS = {
    "approve": "approved",
    "reject": "rejected",
    "accept": "accepted",
    "decline": "declined",
    "refuse": "refused",
    "confirm": "confirmed",
    "agree": "agreed",
    "object": "objected",
    "sign off": "signed_off",
    "sign it off": "signed_off",
    "pass": "passed",
    "veto": "vetoed",
}
_BARE = frozenset([*_DECISIONS.values(), "turned down", "thrown out", "vetoed", "signed off"])
_OPERATORS = [
    (
        r"below|under|less than|lower than|smaller than|fewer than|beneath|short of|<|worse than",
        "<",
    ),
    (
        r"above|over|more than|higher than|greater than|larger than|bigger than|beyond|>|better than",
        ">",
    ),
    (
        r"at least|no less than|not less than|not below|or more than|>=|at or above|not under|minimum",
        ">=",
    ),
    (r"at most|no more than|not more than|not above|<=|at or below|not over|up to", "<="),
    (r"exactly|equal to|equals|==|=", "=="),
]
_OPERATOR = re.compile("|".join(f"(?P<o{i}>{words})" for i, (words, _) in enumerate(_OPERATORS)))
_WORDS = "|".join(words for words, _ in _OPERATORS)
_COMPARED = pattern(
    rf"(?:the |a |an |its |his |her |their |this |that )?(?:(?P<agent>{{A1}}) 's )?(?P<name>[a-z][a-z -]*?)"
    rf"(?: of (?:the |a |its )?(?:(?P<of>{{A1}})|[a-z ]+?))?"
    rf"(?: (?:is|are|was|has|have|gets?|stays?|drops?|falls?|goes|go|rises?|climbs?|comes?|remains?|lies|reach(?:es)?|turns? out|score[sd]?))?"
    rf"(?: still| only| now| to be| out| to){{0,4}} (?P<op>{_WORDS}) "
    r"(?:a |an |or equal to )?(?P<value>{N})(?P<percent> %| percent| per cent)?(?: [a-z]+)?(?P<more> or (?:more|better|higher|less|lower|above|below))?"
)
_EXCEEDS = pattern(
    r"(?:the |its |his |her )?(?:(?P<agent>{A1}) 's )?(?P<name>[a-z][a-z -]*?) (?P<op>exceeds?|reach(?:es)?|tops?|hits?) (?P<value>{N})(?P<percent> %| percent)?(?: [a-z]+)?"
)
_KIND = re.compile(
    r"(?:it|this|that|he|she|they|these)(?: is| are| 's)(?: just| only| really| about| clearly)*(?P<not> not)?(?: just| only)* "
    r"(?:a|an|one of the|some|about) (?P<what>[a-z][a-z0-9 -]*)"
)
_NOUN_KIND = re.compile(
    r"(?:the |a |an |this |that )?(?P<thing>[a-z][a-z -]*?) is(?P<not> not)? (?:a|an) (?P<what>[a-z][a-z0-9 -]*)"
)
_EQUALS = re.compile(
    r"(?:the |its )?(?P<name>[a-z][a-z -]*?) (?:==?|equals) (?P<what>[a-z0-9][a-z0-9 -]*)"
)
_CHOICE = re.compile(
    r"(?:the |its |a |his |her |their )?(?:@(?P<agent>[0-9]+) 's )?(?P<name>[a-z][a-z -]*?)"
    r"(?: of (?:the |a |it)[a-z ]*?)? (?:is|are|was|turns out to be|comes out as|reads)(?P<not> not)? (?:set to )?(?P<what>[a-z0-9][a-z0-9 -]*)"
)
_AGENT = pattern(
    r"(?P<agent>{A1}|she|he|it|they)(?: {ADV}){0,4}(?P<not> (?:does not|do not|did not|has not|have not|is not|was not|can not|will not|are not|never))? ?"
    r"(?:{ADV} ){0,4}(?P<verb>[a-z][a-z -]*?)(?: (?P<object>it|this|that|them|him|her|yes|(?:the |a |an |its |all |any |some |every )[a-z @0-9'-]+|@[0-9]+(?: 's [a-z ]+)?))?"
)
_SAYS = pattern(
    r"(?P<agent>{A1}|she|he|it) (?:thinks?|says?|finds?|decides?|concludes?|believes?|reports?|confirms?|judges?|"
    r"sees|notices|agrees|declares?|considers|feels|tells us|deems)(?: that| so that)? (?P<rest>(?:the |it |this |that |they |@|all |a |an |there ).*)"
)
_BE = r"(?:is|are|was|were|looks?|seems?|comes? (?:out|back)|turns? out(?: to be)?|gets?|got|has been|have been|becomes?|feels?|has|have|stays?|remains?|sounds?|proves?(?: to be)?)"
_STATE = re.compile(
    rf"(?:(?:the |a |an |its |his |her |their |all |all of the |our |any |this |that |every |each |both |these |those |some |enough ){{0,4}})"
    rf"(?:@(?P<agent>[0-9]+) 's )?(?P<thing>[a-z0-9@][a-z0-9@ '-]{{0,60}}?)(?: of (?:the |a |an |it|them)[a-z ]{{0,40}}?)? {_BE}(?P<not> not)?"
    r"(?: (?:all|now|still|both|finally|already|really|yet|too|been|fully|completely|being|good and|quite|there))*(?P<not2> not)? (?P<what>[a-z][a-z0-9 -]*)"
)
_ACTION = re.compile(
    r"(?:(?:the |a |an |its |all |all of the |our |any |this |both |some |every ){0,4})(?:@(?P<agent>[0-9]+) 's )?"
    r"(?P<thing>[a-z0-9][a-z0-9 -]*?)(?P<not> (?:do|does|did|can|will)(?: still)? not)? (?:all |still |finally |now )?(?P<what>[a-z][a-z-]+(?: (?:up|out|down|through|over|off|in))?)"
)
_EXISTS = re.compile(
    r"there (?:is|are)(?P<not> not| no)?(?: still| any| a| an| some| more)* (?P<what>[a-z][a-z -]*)"
)
_SHORT = re.compile(
    r"(?:it |this |that )?(?:is |are |was |has |has been |looks |seems |gets |got |comes out |comes back )?(?P<not>not )?(?:yet |been |really |all |still |already )*(?P<what>[a-z][a-z -]*)"
)
_SHORT_VERB = re.compile(
    r"(?:it|this|that|they|he|she) (?P<not>(?:does|do|did|can|has|have) not )?(?P<what>[a-z][a-z -]*)"
)
_TAIL = re.compile(
    r"(?: (?:yet|at all|now|too|enough|after all|this time|then|anymore|any more|about it|either|for now|already|as well|with (?:it|them|that|this|the result)|,.*))+$"
)
_NEGATIVE = frozenset(["no", "nothing", "none"])


@dataclass(slots=True)
class Reading:
    """A condition's words, with what their pronouns stand for."""

    roster: Roster
    subject: str | None = None
    """Who `it` and `she` are."""

    def condition(self, text: str) -> Cond | None:
        """The condition that a text says; none where it says none that can be decided."""
        text = text.strip(" ,")
        if not text or len(text) > 300:
            return None
        for word, make in ((" or ", Either), (" and ", Both)):
            if word in text and not re.search(
                r" or (?:more|better|higher|less|lower|above|below|equal)", text
            ):
                parts = [
                    p.strip(" ,") for p in text.replace(",", word).split(word) if p.strip(" ,")
                ]
                made = self._parts(parts)
                if made is not None:
                    return made[0] if len(made) == 1 else make(of=tuple(made))
        return self._one(text)

    def _parts(self, parts: list[str]) -> list[Cond] | None:
        made: list[Cond] = []
        for i, part in enumerate(parts):
            if i and (again := re.match(r"(?:if |unless |when )?(.*)", part)) is not None:
                part = again[1]
            if i and re.fullmatch(r"(?:a|an) [a-z -]+", part):
                part = f"it is {part}"
            elif i and " " not in part and isinstance(made[-1], Fact) and made[-1].operator == "==":
                made.append(made[-1].model_copy(update={"value": plain(part)}))
                continue
            one = self._one(part)
            if one is None:
                return None
            made.append(one)
        return made or None

    def _one(self, text: str) -> Cond | None:
        text = re.sub(r" \((.*)\)$", "", text)
        text = re.sub(r"^(?:that|but|only|and|it turns out that|it turns out) ", "", text)
        text = _TAIL.sub("", text).strip(" ,")
        for read in (
            self._compared,
            self._equals,
            self._says,
            self._kind,
            self._agent_does,
            self._short,
            self._choice,
            self._exists,
            self._state,
            self._action,
        ):
            cond = read(text)
            if cond is not None:
                return cond
        return None

    def _name(self, number: str | None) -> str | None:
        if number is None:
            return None
        if number in {"it", "she", "he", "they"}:
            return self.subject
        return self.roster.agent(int(number.lstrip("@")))

    def _compared(self, text: str) -> Cond | None:
        found = _COMPARED.fullmatch(text)
        operator = ""
        if found is not None:
            for i, (_, sign) in enumerate(_OPERATORS):
                match = _OPERATOR.fullmatch(found["op"])
                if match is not None and match[f"o{i}"] is not None:
                    operator = sign
        else:
            found = _EXCEEDS.fullmatch(text)
            if found is None:
                return None
            operator = ">" if found["op"].startswith("exceed") else ">="
        value = number(found["value"])
        if value is None:
            return None
        if found["percent"]:
            value /= 100
        name = _named(found["name"])
        agent = found["agent"] or (found.groupdict().get("of"))
        said = _whole(value)
        if not name:
            return None
        return Fact(name=name, operator=operator, value=said, agent=self._name(agent))  # pyright: ignore[reportArgumentType]

    def _equals(self, text: str) -> Cond | None:
        found = _EQUALS.fullmatch(text)
        if found is None:
            return None
        return Fact(name=_named(found["name"]), operator="==", value=_value(found["what"]))

    def _says(self, text: str) -> Cond | None:
        found = _SAYS.fullmatch(text)
        if found is None:
            return None
        inner = self.condition(found["rest"])
        agent = self._name(found["agent"])
        return None if inner is None else _decided_by(inner, agent)

    def _kind(self, text: str) -> Cond | None:
        found = _KIND.fullmatch(text)
        if found is None or len(found["what"].split()) > 4:
            return None
        fact = Fact(name="kind", operator="==", value=plain(found["what"]))
        return Not(of=fact) if found["not"] else fact

    def _agent_does(self, text: str) -> Cond | None:
        found = _AGENT.fullmatch(text)
        if found is None or (
            not found["agent"].startswith("@")
            and found["agent"] not in {"she", "he"}
            and not _decision(found["verb"])
        ):
            return None
        verb, thing = found["verb"], found["object"] or ""
        verb = re.sub(r"^(?:has|have|is|are|was|gets|sounds|looks|seems|feels) ", "", verb)
        negated = bool(found["not"])
        if verb.startswith("not "):
            verb, negated = verb[4:], not negated
        name = _decision(verb)
        if not name and verb in {"say", "says", "said"}:
            name = "approved" if thing in {"yes", "it is ok"} else ""
        if (
            not name
            and verb.split()[0]
            in {"find", "finds", "found", "see", "sees", "spots", "spot", "notices", "detects"}
            and thing
        ):
            name = f"{_named(thing)}_found"
        if not name and re.fullmatch(
            r"(?:happy|satisfied|pleased|content|convinced|fine|ok|okay|sure|confident|unhappy|dissatisfied|done)(?: .*)?",
            verb,
        ):
            name = plain(verb.split()[0])
        if not name:
            if found["agent"].startswith("@") and verb:
                words = re.sub(r"\b(?:it|the|a|an|any|some|all|its)\b", " ", f"{verb} {thing}")
                name = plain(re.sub(r"@[0-9]+|'s", " ", words))
            if not name:
                return None
        by = found["agent"]
        passive = re.match(r"(?:is|are|was|were|gets|has been) ", found["verb"]) or re.search(
            r" (?:is|are|was) not| has not", found["not"] or ""
        )
        # "it is approved" and "they pass" speak of the work; "she rejects it" of who decides
        decides = by.startswith("@") or by in {"she", "he"} or (found["object"] and not passive)
        fact = Fact(name=name, agent=self._name(by) if decides else None)
        return Not(of=fact) if negated else fact

    def _short(self, text: str) -> Cond | None:
        found = _SHORT.fullmatch(text)
        if found is None:
            return None
        what = found["what"]
        if (
            len(what.split()) > 1
            and what
            not in {
                "signed off",
                "turned down",
                "good enough",
                "too long",
                "too short",
                "up to date",
                "good to go",
            }
            and not re.match(r"(?:it|this|that) (?:is|looks|seems) ", text)
        ):
            return None
        if what in _NEGATIVE or what.split()[0] in {"does", "do", "can", "did", "the"}:
            return self._verb(text)
        fact = Fact(name=_flag(what))
        return Not(of=fact) if found["not"] else fact

    def _verb(self, text: str) -> Cond | None:
        found = _SHORT_VERB.fullmatch(text)
        if found is None or len(found["what"].split()) > 4:
            return None
        fact = Fact(name=_flag(_decision(found["what"]) or found["what"]))
        return Not(of=fact) if found["not"] else fact

    def _choice(self, text: str) -> Cond | None:
        found = _CHOICE.fullmatch(text)
        if (
            found is None
            or found["name"].split()[-1] not in _CHOICES
            or len(found["what"].split()) > 4
        ):
            return None
        if found["what"] in _BARE or found["what"] in {
            "clear",
            "ready",
            "right",
            "good",
            "ok",
            "available",
        }:
            return None
        value = _value(re.sub(r"^(?:a|an|the) ", "", found["what"]))
        fact = Fact(
            name=_named(found["name"]), operator="==", value=value, agent=self._name(found["agent"])
        )
        return Not(of=fact) if found["not"] else fact

    def _exists(self, text: str) -> Cond | None:
        found = _EXISTS.fullmatch(text)
        if found is None:
            return None
        fact = Fact(name=_named(found["what"]), about=_head(found["what"]))
        return Not(of=fact) if found["not"] else fact

    def _state(self, text: str) -> Cond | None:
        found = _STATE.fullmatch(text)
        if found is None or len(found["thing"].split()) > 5 or len(found["what"].split()) > 5:
            return None
        what = re.sub(r"^(?:a|an|the|any) ", "", found["what"])
        thing = re.sub(r"@([0-9]+)(?: 's)?", "", found["thing"]).strip()
        negated = bool(found["not"]) != bool(found["not2"])
        if what in _BARE or plain(what) in _BARE:
            fact = Fact(name=plain(what), agent=self._name(found["agent"]))
        elif thing in {"it", "this", "that", "everything", "", "they", "these", "all"}:
            fact = Fact(name=_flag(what), agent=self._name(found["agent"]))
        else:
            fact = Fact(
                name=plain(f"{thing} {what}"), agent=self._name(found["agent"]), about=_head(thing)
            )
        return Not(of=fact) if negated else fact

    def _action(self, text: str) -> Cond | None:
        found = _ACTION.fullmatch(text)
        if found is None or len(found["thing"].split()) > 4:
            return None
        thing, what = found["thing"], found["what"]
        if thing in {"it", "this", "that", "everything", "they"}:
            return self._verb(text)
        if thing != singular(thing) or found["not"]:
            base = what
        else:
            base = what if what.endswith(("s", "ed")) else ""
        if not base:
            return None
        if thing == singular(thing) and found["not"]:
            base = _third(base)
        fact = Fact(
            name=plain(f"{thing} {base}"), agent=self._name(found["agent"]), about=_head(thing)
        )
        return Not(of=fact) if found["not"] else fact


def _third(verb: str) -> str:
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x")) else "s")


def _decision(verb: str) -> str:
    if verb in _BARE:
        return plain(verb)
    for base, name in _DECISIONS.items():
        if verb in {base, base + "s", base + "es", name, base + "ed", base + "d"}:
            return name
        first, _, rest = base.partition(" ")
        if rest and verb in {f"{first}s {rest}", f"{first}ed {rest}"}:
            return name
    if verb in {"agrees", "agreed"}:
        return "agreed"
    if verb in {"turns down", "turn down"}:
        return "turned_down"
    return ""


def _flag(words: str) -> str:
    return plain(re.sub(r"^(?:a|an|the|any) ", "", words))


def _named(words: str) -> str:
    words = re.sub(r"@[0-9]+(?: 's)?", "", words)
    return plain(
        re.sub(r"^(?:(?:the|a|an|its|any|some|all|his|her|their|your|our) )+", "", words.strip())
    )


def _head(words: str) -> str:
    return words.rsplit(maxsplit=1)[-1] if words.split() else ""


def _value(words: str) -> Json:
    value = number(words)
    return plain(words) if value is None else _whole(value)


def _whole(value: float) -> Json:
    value = round(value, 10)
    return int(value) if value == int(value) else value


def _decided_by(cond: Cond, agent: str | None) -> Cond:
    """A condition whose facts an agent decides, where nobody else is named."""
    if isinstance(cond, Fact):
        return cond if cond.agent else cond.model_copy(update={"agent": agent})
    if isinstance(cond, Not):
        return Not(of=_decided_by(cond.of, agent))
    of = tuple(_decided_by(c, agent) for c in cond.of)
    return Both(of=of) if isinstance(cond, Both) else Either(of=of)
