"""Who does what to what: a clause as logical frames, one for each predicate.

`write_file may be used by the writer, but not by the checker` is two frames of the verb `use`: of
the writer, and of the checker, denied. Voice, order and ellipsis end here, so that what reads
frames need not know them:

- the passive, `let`, `give`, `allow` and the like have their logical subject as subject;
- `is allowed to`, `has the right to`, `gets to` … are `may`; `is forbidden to` is `may`, negated;
- a predicate without a subject has that of the one before it, and one without a verb its verb.

Subordinate clauses and prepositions stand in `args` by their first word, as they were said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from crewlog.prompt.grammar.phrase import Phrase, Unit
from crewlog.prompt.grammar.predicate import AROUND, Frame, Noun, bound, nobody_but, noun
from crewlog.prompt.grammar.tokens import Token, phrase_of, tokens
from crewlog.prompt.grammar.verbs import ASK, FAIL, GO_ON, KNOWN, STOP, finite, lemma, participle
from crewlog.prompt.grammar.voices import logical

_MAY = frozenset(
    [
        "allowed",
        "permitted",
        "free",
        "able",
        "entitled",
        "welcome",
        "authorised",
        "authorized",
        "trusted",
        "cleared",
        "licensed",
        "eligible",
        "empowered",
        "enabled",
        "qualified",
    ]
)
_MAY_NOT = frozenset(
    ["forbidden", "barred", "banned", "prohibited", "unable", "disallowed", "excluded", "blocked"]
)
_MUST = frozenset(
    ["supposed", "expected", "meant", "required", "obliged", "bound", "to", "have"]
) - {"to", "have"}
_RIGHT = frozenset(
    [
        "right",
        "permission",
        "leave",
        "licence",
        "license",
        "clearance",
        "authority",
        "authorisation",
        "authorization",
        "privilege",
    ]
)
_BE = frozenset(["is", "are", "be", "been", "was", "were", "being", "am", "gets", "get"])


def frames(phrase: Phrase) -> list[Frame]:
    """The frames of a clause or several, in order; none where the structure cannot be told."""
    found = _Reader(tokens(phrase)).read()
    return [replace(f, phrase=f.phrase or phrase) for f in found]


_LINKS = frozenset(["comma", "and", "but", "stop"])
_BEFORE_VERB = frozenset(
    [
        "first",
        "usually",
        "carefully",
        "thoroughly",
        "critically",
        "later",
        "finally",
        "afterwards",
        "next",
        "once",
        "solely",
    ]
)
_SOMETHING = frozenset(["something", "one", "that", "things", "what"])
_OPENING = frozenset(["the", "a", "an", "my", "our", "its", "any", "every", "each", "all"])
_NOUNS = frozenset(["no", "agent", "tool", "act", "all", "none", "pronoun", "i", "me", "model"])

# -- reading ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    """A group of verbs: `may not be used`."""

    modal: str = ""
    negated: bool = False
    adverbs: list[str] = field(default_factory=list[str])
    passive: bool = False
    only: bool = False
    sole: bool = False
    """`is the only one who`."""
    verb: str = ""
    end: int = 0
    finite: bool = False


class _Reader:
    """Reads tokens from left to right, a predicate at a time."""

    def __init__(self, parts: list[Token]) -> None:
        self.parts = parts

    def read(self) -> list[Frame]:
        times = self._times()
        self._cleft()
        self._causative()
        self._topic()
        self._except_first()
        aside = self._aside()
        start, fronted = self._fronted(0)
        if not fronted:
            fronted = self._inserted()
        if not fronted:
            start, fronted = self._fronted_noun()
        out: list[Frame] = []
        named: Frame | None = None
        for begin, end in self._pieces(start):
            made = self._piece(begin, end, out[-1] if out else named)
            if made is None and not out and self._noun_end(begin) == end:
                named = Frame(subject=noun(self.parts[begin:end]))
                continue
            if made is None:
                return []
            out.append(made)
        if aside and out:
            denied = replace(out[0], subject=noun(aside), negated=not out[0].negated)
            out.append(replace(denied, phrase=phrase_of(aside)))
        return [replace(f, args={**fronted, **f.args}, adverbs=(*times, *f.adverbs)) for f in out]

    def _except_first(self) -> None:
        """`Except for the coder, nobody may use it`: nobody except the coder may."""
        end = self._noun_end(1)
        if self._kind(0) != "except" or end == 1 or self._kind(end) != "comma":
            return
        behind = self._noun_end(end + 1)
        if behind > end + 1 and self._kind(end + 1) in {"all", "none"}:
            parts = self.parts
            self.parts = [*parts[end + 1 : behind], *parts[:end], *parts[behind:]]

    def _aside(self) -> list[Token]:
        """Takes out whom the subject excludes: `the coder, but not the tester, may use it`."""
        at = self._noun_end(0)
        begin = at + (self._kind(at) == "comma")
        if not at or self._kind(begin) != "but" or self._kind(begin + 1) != "not":
            return []
        end = self._noun_end(begin + 2)
        behind = end + (self._kind(end) == "comma")
        if end == begin + 2 or not self._starts_verbs(behind):
            return []
        taken = self.parts[begin + 2 : end]
        self.parts = [*self.parts[:at], *self.parts[behind:]]
        return taken

    def _causative(self) -> None:
        """`Have the fixer ask me`: it must."""
        end = self._noun_end(1)
        asks = self._text(end) in ASK and self._kind(end) == "word"
        if self._text(0) in {"have", "make"} and self._kind(1) == "agent" and asks:
            place = self.parts[0].units[0]
            must = Token("modal", "must", (Unit("must", place.start, place.end),))
            self.parts = [*self.parts[1:end], must, *self.parts[end:]]

    def _cleft(self) -> None:
        """`It is the coder who may use it`: the coder may."""
        if self._kind(0) != "pronoun" or self._text(1) not in {"is", "are", "was"}:
            return
        first = 2 + (self._kind(2) == "not")
        end = self._noun_end(first)
        if end > first and self._kind(end) == "who" and self._kind(end + 1) != "comma":
            denied = self.parts[2:first]
            self.parts = [*self.parts[first:end], *denied, *self.parts[end + 1 :]]

    def _topic(self) -> None:
        """`Using it needs my approval`, `deploy is something only the coder may use`."""
        first = self._text(0)
        if first.endswith("ing") and lemma(first) in KNOWN and self._kind(1) in {"tool", "act"}:
            end = self._noun_end(1)
            if self._starts_verbs(end) or self._text(end) in {"needs", "requires"}:
                self.parts = self.parts[1:]
        if self._kind(0) not in {"tool", "act"}:
            return
        end = self._noun_end(0)
        if self._text(end) not in {"is", "are"} or self._text(end + 1) not in _SOMETHING:
            return
        at = end + 2 + (self._kind(end + 2) == "who")
        behind = self._noun_end(at)
        modal = self._kind(behind) in {"modal", "not"} or finite(self._text(behind))
        if behind > at and modal and not self._has_objects(behind, len(self.parts)):
            parts = [t for t in self.parts[at:] if t.text not in {"do", "use"}]
            place = self.parts[end].units[0]
            use = Token("word", "use", (Unit("use", place.start, place.end),))
            self.parts = [*parts, use, *self.parts[:end]]

    def _fronted_noun(self) -> tuple[int, dict[str, Phrase]]:
        """`For the reviewer, deploy is taboo`."""
        if self._kind(0) != "prep" or self.parts[0].value not in {"for", "to", "with"}:
            return 0, {}
        end = self._noun_end(1)
        if end == 1 or self._kind(end) != "comma" or not self._opens_clause(end + 1):
            return 0, {}
        return end + 1, {self.parts[0].value: phrase_of(self.parts[1:end])}

    def _times(self) -> tuple[str, ...]:
        """Takes words of time away that lead: `for now, …`."""
        at = 0
        while self._kind(at) == "time" or (at and self._kind(at) == "comma"):
            at += 1
        said = tuple(t.text for t in self.parts[:at] if t.kind == "time")
        self.parts = self.parts[at:]
        return said

    def _inserted(self) -> dict[str, Phrase]:
        """Takes a clause away that stands behind the subject: `the writer, when unsure, asks`."""
        at = self._noun_end(0)
        if not at or self._kind(at) not in {"comma", "sub"}:
            return {}
        at += self._kind(at) == "comma"
        if self._kind(at) != "sub":
            return {}
        end = next((i for i in range(at, len(self.parts)) if self._kind(i) == "comma"), None)
        if end is None or end + 1 == len(self.parts) or not self._starts_verbs(end + 1):
            return {}
        inside = {self.parts[at].value: phrase_of(self.parts[at + 1 : end])}
        first = at - (self._kind(at - 1) == "comma")
        self.parts = [*self.parts[:first], *self.parts[end + 1 :]]
        return inside

    # -- pieces: where one predicate ends and the next begins

    def _kind(self, at: int) -> str:
        return self.parts[at].kind if at < len(self.parts) else ""

    def _text(self, at: int) -> str:
        return self.parts[at].text if 0 <= at < len(self.parts) else ""

    def _fronted(self, at: int) -> tuple[int, dict[str, Phrase]]:
        """A subordinate clause before the main one."""
        out: dict[str, Phrase] = {}
        while self._kind(at) == "sub":
            end = self._end_of_fronted(at + 1)
            if end is None:
                break
            out[self.parts[at].value] = phrase_of(self.parts[at + 1 : end])
            at = end + (self._kind(end) == "comma")
        return at, out

    def _end_of_fronted(self, at: int) -> int | None:
        bare: int | None = None
        for i in range(at + 1, len(self.parts)):
            if self._kind(i) == "stop":
                return bare
            main = self._opens(i + 1) or self._is_command(i + 1) or self._kind(i + 1) == "sub"
            if self._kind(i) == "comma" and main:
                return i
            asks = self._kind(i) == "word" and lemma(self._text(i)) in ASK and i > at + 1
            commands = asks and self._kind(i + 1) in {"me", "prep"} and not finite(self._text(i))
            if bare is None and (commands or self._kind(i) == "i"):
                bare = i
        return bare

    def _pieces(self, start: int) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        begin = at = start
        while at < len(self.parts):
            after = at
            if self._kind(at) == "but" and self._kind(at - 1) in {"all", "none"} and at > begin:
                at += 1
                continue  # "anyone but the auditor"
            while self._kind(after) in _LINKS or self._also(after):
                after += 1
            if self._kind(at) == "stop" and at > begin and after < len(self.parts):
                out.append((begin, at))
                begin = at = after
                continue
            if after > at > begin and after < len(self.parts) and self._begins(begin, at, after):
                out.append((begin, at))
                begin = at = after
                continue
            at = max(after, at + 1)
        end = len(self.parts)
        while end > begin and self._kind(end - 1) in _LINKS:
            end -= 1
        if end > begin:
            out.append((begin, end))
        return out

    def _also(self, at: int) -> bool:
        """`And so may the tester`, `and neither may the tester`."""
        inverted = self._kind(at + 1) == "modal" and self._noun_end(at + 2) > at + 2
        named = self._kind(at + 2) in {"agent", "only", "all", "pronoun"}
        return self._text(at) in {"so", "neither", "nor"} and inverted and named

    def _begins(self, begin: int, at: int, after: int) -> bool:
        """Whether another predicate begins behind links."""
        opener = self._opens(after)
        links = {self._kind(i) for i in range(at, after)}
        if opener == "clause":
            return self._has_verb(begin, at)
        if opener == "gap":
            return self._has_verb(begin, at)
        if opener == "elided":
            return self._has_verb(begin, at) or (links == {"comma"} and self._kind(after) == "who")
        if opener == "not":
            return self._has_verb(begin, at)
        return opener == "command" and self._has_verb(begin, at)

    def _has_verb(self, begin: int, end: int) -> bool:
        group = self._subject_and_group(begin, end)
        return group is not None and (bool(group.verb) or bool(group.modal))

    def _opens(self, at: int) -> str:
        """What begins here: a clause, a predicate without subject, a gap, a command, or nothing."""
        kind, text = self._kind(at), self._text(at)
        if kind == "who":
            return "elided"
        if kind in {"not", "prep"}:
            behind = self._kind(at + 1)
            if kind == "not" and (behind in {"agent", "tool", "act", "all", "pronoun"}):
                return "not"
            by = at + (kind == "not")
            if self._kind(by) == "prep" and self.parts[by].value in {"by", "for", "to"}:
                named = self._kind(by + 1) in {"agent", "all", "none"}
                return "not" if named and (kind == "not" or self.parts[by].value == "by") else ""
        if kind in {"modal", "not"}:
            return "elided"
        if kind == "only" and self._kind(at + 1) in {"sub", "prep"}:
            return "elided"
        if kind == "word" and (finite(text) or text in {"is", "are", "has", "have"}):
            return "elided" if self._text(at - 1) != "'s" else ""
        if kind == "word" and lemma(text) == text and text in KNOWN:
            return "command" if self._commands(at) else ""
        return self._opens_clause(at)

    def _commands(self, at: int) -> bool:
        text, behind = self._text(at), self._kind(at + 1)
        if text in {"let", "give", "keep", "hide", "show", "make", "have"}:
            return behind in {"agent", "tool", "act", "all", "none", "only"}
        return text in ASK and (behind == "me" or self._text(at + 1) in {"with", "for", "my"})

    def _opens_clause(self, at: int) -> str:
        end = self._noun_end(at)
        if end == at and self._text(at) in _OPENING:
            end = self._verb_at(at, min(at + 7, len(self.parts))) or at
            inside = {self._kind(i) for i in range(at, end)}
            return "clause" if end > at and not inside & (_LINKS | {"sub", "prep"}) else ""
        if end == at:
            return ""
        kind = self._kind(end)
        if kind in {"modal", "not"} or (
            kind == "word"
            and (finite(self._text(end)) or self._text(end) in {"have", "need", "get"})
        ):
            return "clause"
        if self._kind(at) == "i" and kind == "word":
            return "clause"
        if kind == "word" and lemma(self._text(end)) in KNOWN and self._kind(at) == "all":
            return "clause"
        named = self._kind(at) in {"agent", "only"}
        return "gap" if named and kind in {"tool", "act"} else ""

    def _noun_end(self, at: int) -> int:
        """Where a noun phrase of agents, tools, quantifiers or pronouns ends."""
        begin = last = at
        while at < len(self.parts):
            kind, text = self._kind(at), self._text(at)
            if text == "'s":
                return begin
            if kind in _NOUNS:
                if last > begin and kind in {"tool", "act"} and self._kind(at - 1) == "agent":
                    return at
                last = at = at + 1
            elif (
                (kind == "only" and last == begin)
                or kind == "except"
                or (kind == "but" and self._kind(at - 1) in {"none", "all"})
                or text in AROUND
            ):
                at += 1
            elif at > begin and text == "alone":
                last = at = at + 1
            elif kind in {"and", "comma"} and at > begin and self._continues(at):
                at += 1
            elif kind == "word" and at == begin + 1 and self._kind(begin) == "no":
                while self._kind(at) == "word":
                    last = at = at + 1
            elif kind == "comma" and self._kind(at - 1) == "none" and self._starts_verbs(at + 1):
                return at + 1
            else:
                break
        return last

    def _continues(self, at: int) -> bool:
        """Whether a link joins two nouns of a kind."""
        after = at + 1
        while self._kind(after) in {"and", "comma"} or self._text(after) in AROUND:
            after += 1
        left = self._kind(at - 1) if self._text(at - 1) != "alone" else "agent"
        right = self._kind(after)
        if right == "none" and self.parts[after].value == "else":
            return True
        named = {"tool", "act"}
        return left == right or (left in named and right in named)

    # -- one predicate

    def _piece(self, begin: int, end: int, before: Frame | None) -> Frame | None:
        phrase = phrase_of(self.parts[begin:end])
        self._invert(begin)
        if before is not None and self._opens(begin) == "not":
            return self._denied(begin, end, before)
        if before is not None and self._opens(begin) == "gap":
            middle = self._noun_end(begin)
            subject = noun(self.parts[begin:middle])
            thing = noun(self.parts[middle:end])
            return replace(before, subject=subject, object=thing, args={}, phrase=phrase)
        if self._kind(begin) == "who":
            if before is None:
                return None
            begin += 1
        if before is not None and self._kind(begin) == "modal":
            last = self._noun_end(begin + 1)
            if last == end and self._kind(begin + 1) in {"agent", "all", "none"}:
                return replace(before, subject=noun(self.parts[begin + 1 : end]), phrase=phrase)
        made = self._clause(begin, end, before)
        if made is not None and before is not None and _says_no_verb(made):
            named = made.subject if not made.elided else before.subject
            again = before.negated if not made.negated and not made.modal else made.negated
            return replace(before, subject=named, negated=again, args={}, phrase=phrase)
        return None if made is None else replace(logical(made), phrase=phrase)

    def _invert(self, begin: int) -> None:
        """`Under no circumstances may anyone use it`: nobody may."""
        if self._kind(begin) != "not" or self._kind(begin + 1) != "modal":
            return
        end = self._noun_end(begin + 2)
        if end > begin + 2:
            turned = [*self.parts[begin + 2 : end], self.parts[begin + 1], self.parts[begin]]
            self.parts[begin:end] = turned

    def _denied(self, begin: int, end: int, before: Frame) -> Frame:
        """`…, but not by the checker`, `…, but not deploy`, `… and by the editor`."""
        negated = self._kind(begin) == "not"
        at = begin + negated
        if self._kind(at) == "prep":
            at += 1
        named = noun(self.parts[at:end])
        phrase = phrase_of(self.parts[begin:end])
        changed = replace(before, negated=before.negated != negated, phrase=phrase, args={})
        if named.tools and not named.agents:
            return replace(changed, object=named)
        subject = replace(named, only=named.only or (before.only and not negated))
        return replace(changed, subject=subject)

    def _subject_and_group(self, begin: int, end: int) -> _Group | None:
        at = self._noun_end(begin)
        group = self._group(at, end)
        if group.verb or group.modal:
            return group
        verbs = self._verb_at(begin, end)
        return None if verbs is None else self._group(verbs, end)

    def _verb_at(self, begin: int, end: int) -> int | None:
        """Where the verbs of a clause begin whose subject is words of any kind."""
        first = begin + (3 if self._text(begin) == "what" else 1)
        for i in range(first, end):
            kind, text = self._kind(i), self._text(i)
            if kind == "sub":
                return None
            if self._kind(i - 1) == "who" and text in _BE:
                continue
            if kind == "word" and lemma(text) in {"stay", "remain", "go", "belong"}:
                return i
            if kind == "modal" or (
                kind == "word" and text in _BE | {"has", "have", "needs", "need"}
            ):
                return i
            last = i + 1 == end and (i < begin + 2 or lemma(text) not in FAIL | GO_ON | STOP)
            if kind == "word" and finite(text) and self._text(i - 1) != "'s" and not last:
                return i
        return None

    def _clause(self, begin: int, end: int, before: Frame | None) -> Frame | None:
        at = begin
        if not self._is_command(begin):
            at = self._noun_end(begin)
        if at == begin and not self._is_command(begin) and not self._starts_verbs(begin):
            at = self._verb_at(begin, end) or begin
        group = self._group(at, end)
        verbless = not group.verb and not group.modal
        if verbless and at > begin and self._kind(group.end) == "sign":  # "deploy: only with …"
            behind = self._group(group.end + 1, end)
            if not behind.verb and self._kind(behind.end) in {"sub", "prep"}:
                group = behind
        led = self._kind(group.end) in {"sub", "prep"} and group.end < end
        if verbless and not led and not self._has_objects(group.end, end):
            verbs = self._verb_at(begin, end)
            if verbs is None:
                return None
            at, group, verbless = verbs, self._group(verbs, end), False
        subject = noun(self.parts[begin:at])
        elided = at == begin and not self._is_command(begin)
        if elided and before is not None:
            subject = before.subject
        if group.sole:
            subject = replace(subject, only=True)
        if any(t.text == "neither" and t.kind != "none" for t in subject.tokens) and not elided:
            group.negated = not group.negated
        acts = self._kind(group.end) in {"tool", "act"}
        made = Frame(
            subject=subject,
            verb=group.verb or ("use" if group.modal and acts else ""),
            modal=group.modal or (before.modal if elided and before and not group.finite else ""),
            negated=group.negated,
            adverbs=tuple(group.adverbs),
            command=at == begin and not elided,
            passive=group.passive,
            verbless=verbless,
            elided=elided,
        )
        return self._complements(made, group.end, end)

    def _starts_verbs(self, at: int) -> bool:
        """Whether verbs of a predicate without a subject begin here."""
        kind, text = self._kind(at), self._text(at)
        if kind in {"modal", "not"} or text in _BE | {"has", "does"}:
            return True
        noun_like = self._kind(at + 1) == "modal" or self._text(at + 1) in _BE  # "charts may be"
        return kind == "word" and finite(text) and not noun_like

    def _is_command(self, at: int) -> bool:
        while self._kind(at) in {"not", "only"}:
            at += 1
        text = self._text(at)
        if text.endswith("ing") and lemma(text) in KNOWN and lemma(text) != text:
            return True
        if text in {"access", "use", "call", "run"} and self._text(at + 1) in {"to", "of"}:
            return False
        return self._kind(at) == "word" and text in KNOWN and not finite(text)

    def _has_objects(self, begin: int, end: int) -> bool:
        kinds = {self._kind(i) for i in range(begin, end)}
        return bool(kinds & {"tool", "act", "agent", "model"})

    def _group(self, at: int, end: int) -> _Group:
        group = _Group(end=at)
        if self._kind(at) == "prep" and self._text(at) == "about":
            return group
        while group.end < end and self._step(group):
            pass
        return group

    def _step(self, group: _Group) -> bool:
        """Takes in a token of the group; False at its end."""
        at = group.end
        kind, text = self._kind(at), self._text(at)
        if group.verb and group.verb != "be":
            return False
        if kind == "not":
            group.negated = not group.negated
        elif kind == "only":
            group.only = True
            group.adverbs.append("only")
        elif kind == "time":
            group.adverbs.append(text)
        elif kind == "modal" and not group.verb:
            group.modal = group.modal or self.parts[at].value
        elif text in {"both", "each", "all"} and group.verb in {"", "be"}:
            pass
        elif text == "to" and group.verb == "be":
            group.modal, group.verb = group.modal or "must", ""
        elif text == "about" and group.verb == "be" and self._text(at + 1) == "to":
            group.modal, group.verb, group.end = "want", "", at + 2
            return True
        elif kind == "word":
            return self._verb_word(group, at, text)
        else:
            return False
        group.end = at + 1
        return True

    def _verb_word(self, group: _Group, at: int, text: str) -> bool:
        if group.verb == "be":
            return self._behind_be(group, at, text)
        if text in {"do", "does", "did"} and self._kind(at + 1) in {"word", "not"}:
            group.end, group.finite = at + 1, True
            return True
        taken = self._modal_words(group, at, text)
        if taken:
            group.end = at + taken
            return True
        base = lemma(text)
        group.finite = group.finite or finite(text)
        group.verb = "be" if base in {"stay", "remain"} else base
        group.end = at + 1
        return group.verb == "be"

    def _modal_words(self, group: _Group, at: int, text: str) -> int:
        """How many words from here are a modal: `has the right to`, `gets to`, `wants to`."""
        follows = [self._text(at + i) for i in range(1, 5)]
        if text in {"has", "have"} and follows[:2] == ["not", "got"]:
            group.negated = not group.negated
            return 2
        if text in {"has", "have"} and follows[:2] == ["got", "to"]:
            group.modal = "need"
            return 3
        if text == "insist" and follows[0] == "on":
            group.modal = "must"
            return 2
        if text in _BEFORE_VERB and (follows[0] in KNOWN or finite(follows[0])):
            return 1
        if text in {"has", "have", "had"} and follows[0] == "to":
            group.modal = "need"
            return 2
        if text in {"need", "needs"} and follows[0] in {"to", "not"}:
            group.modal = "need"
            return 2 if follows[0] == "to" else 1
        if text in {"gets", "get", "got"} and follows[0] == "to":
            group.modal = group.modal or "may"
            return 2
        if text in {"wants", "want", "wishes", "tries", "try", "intends", "wish", "like"}:
            group.modal = "want"
            return 2 if follows[0] == "to" else 0
        if text in {"has", "have", "gets", "holds", "hold"}:
            return self._right(group, follows)
        return 0

    def _right(self, group: _Group, follows: list[str]) -> int:
        """`has the right to`, `has no permission to`."""
        size = 1 if follows[0] in {"the", "no", "a", "full", "not"} else 0
        if follows[size] not in _RIGHT or follows[size + 1] != "to":
            return 0
        group.modal = "may"
        group.negated = group.negated != (follows[0] == "no")
        return size + 3

    def _behind_be(self, group: _Group, at: int, text: str) -> bool:
        follows = self._text(at + 1)
        if text in _BE:
            group.end = at + 1
            return True
        if text in _MAY | _MAY_NOT | _MUST | {"about"} and follows in {"to", "from"}:
            must = "must" if text in _MUST else "may"
            group.modal = "want" if text == "about" else must
            group.negated = group.negated != (text in _MAY_NOT)
            group.verb, group.end = "", at + 2
            return True
        if text == "the" and (taken := self._the_one(group, at)):
            group.verb, group.end = "", at + taken
            return True
        if participle(text) and self._kind(at - 1) != "prep":
            group.verb, group.passive, group.end = lemma(text), True, at + 1
        return False

    def _the_one(self, group: _Group, at: int) -> int:
        """`is the only one who`, `is the one to`: how many tokens."""
        i = at + 1
        if self._kind(i) == "only":
            group.sole = True
            i += 1
        if self._text(i) not in {"one", "ones", "agent", "agents"}:
            return 0
        i += 1
        if self._kind(i) == "who" or self._text(i) in {"to", "with"}:
            group.modal = group.modal or ("may" if self._text(i) == "to" else "")
            return i + 1 - at
        if self._text(i) in _MAY and self._text(i + 1) == "to":
            group.modal = "may"
            return i + 2 - at
        return i - at

    # -- what stands behind the verb

    def _complements(self, made: Frame, begin: int, end: int) -> Frame:
        args: dict[str, Phrase] = {}
        adverbs = list(made.adverbs)
        place = begin
        most: int | None = None
        found = bound([self._text(i) for i in range(begin, end)])
        if found is not None and self._kind(begin + found[0] - 1) != "tool":
            most = found[2]
            last = self._trimmed(begin, begin + found[0])
            rest = self.parts[begin + found[1] : end]
            parts = [*self.parts[begin:last], *rest]
        else:
            parts = self.parts[begin:end]
        del place
        thing, pieces = _cut(parts)
        for name, inside in pieces:
            if name == "time":
                adverbs.append(phrase_of(inside).text)
            else:
                args[f"{name} again" if name in args else name] = phrase_of(inside)
        if made.verb == "be" or all(t.kind == "only" for t in thing):
            adverbs += ["only" for t in thing if t.kind == "only"]
            thing = [t for t in thing if t.kind != "only"]
        elif pieces and thing[-1].kind == "only":
            adverbs.append("only")
            thing.pop()
        if any(t.value == "sole" for t in thing):
            made = replace(made, subject=replace(made.subject, only=True))
            thing = [t for t in thing if t.value != "sole"]
        named = noun([t for t in thing if t.kind != "sign" or made.verbless is False])
        made = replace(made, object=named, args=args, adverbs=tuple(adverbs), most=most)
        if made.subject.quantifier and "@" in named.excepted.text and not named.quantifier:
            subject = nobody_but(replace(made.subject, excepted=named.excepted))
            end = next(i for i, t in enumerate(thing) if t.kind == "except")
            made = replace(made, subject=subject, object=noun(thing[:end]))
        return made

    def _trimmed(self, begin: int, end: int) -> int:
        while end > begin and self._kind(end - 1) in {"comma", "and", "but", "sign"}:
            end -= 1
        return end


def _says_no_verb(made: Frame) -> bool:
    """`…, the editor can't`: the verb is that of the predicate before."""
    said = made.verb or made.object or made.args or made.command
    return bool(made.modal) and not said and bool(made.subject)


def _cut(parts: Sequence[Token]) -> tuple[list[Token], list[tuple[str, list[Token]]]]:
    """What follows a verb as its object and what prepositions lead."""
    thing: list[Token] = []
    pieces: list[tuple[str, list[Token]]] = []
    inside = thing
    for at, token in enumerate(parts):
        open_clause = bool(pieces) and pieces[-1][0] in _CLAUSAL
        if token.kind == "sub" or (token.kind == "prep" and not open_clause and token.text != "of"):
            inside = list[Token]()
            pieces.append((token.value, inside))
        elif token.kind == "time" and not open_clause:
            pieces.append(("time", [token]))
            inside = list[Token]() if at + 1 == len(parts) else inside
        elif token.kind == "comma" and at + 1 < len(parts) and parts[at + 1].kind == "sub":
            continue
        else:
            inside.append(token)
    return thing, pieces


_CLAUSAL = frozenset(["before", "after", "unless", "if", "when", "until", "without"])

__all__ = ["Frame", "Noun", "Token", "bound", "frames", "noun", "tokens"]
