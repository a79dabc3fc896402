"""Clauses of order: who works, after what, under which condition, and what leads back.

The segments of a sentence are folded from left to right. A condition waits for the clause that it
belongs to, bounds and `otherwise` go to the decision just made, and what fits nowhere is reported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from crewlog.prompt.ast import (
    Allow,
    AnyStatement,
    Ask,
    Back,
    Cond,
    Either,
    Inside,
    Join,
    Not,
    Part,
    Pause,
    Skip,
    Step,
    Stop,
    Use,
    Waits,
    Words,
)
from crewlog.prompt.grammar.bounds import BOUNDS, instead, late, who_waits
from crewlog.prompt.grammar.circumstances import CIRCUMSTANCE, WHEN
from crewlog.prompt.grammar.clauses import Clause, read_clause
from crewlog.prompt.grammar.leads import led
from crewlog.prompt.grammar.moves import (
    Scan,
    back_to,
    outcome,
    repeats,
    skips,
    tries_again,
    waits_for,
)
from crewlog.prompt.grammar.pauses import in_order, is_timed
from crewlog.prompt.grammar.pending import Pending, facts, rounds_left, subordinate
from crewlog.prompt.grammar.people import RULES, SINGLE, apply
from crewlog.prompt.grammar.phrase import PAUSE, Phrase, Unit, number, pattern, too_long
from crewlog.prompt.grammar.segments import BOUND, SUBORDINATE, Segment, segments
from crewlog.prompt.grammar.state import State, Timed

_WIDEST_WINDOW = 7
_LONGEST_LABEL = 4
LONGEST_CLAUSE = 80
"""Words; a list of agents or tools is one of them."""
_MANY_PARTS = 60
"""Segments of a sentence that nobody wrote: windows of two are enough to report it."""
_STILL = re.compile(
    r"(?:if|when|once|should) .*\b(?:still|even then|by then|after (?:that|those|all)|does not help|do not help|is no use|in vain|none of (?:that|it)|did not help|not working|keeps failing|to no avail|has not worked|that does not work|that is not enough|that fails|all fails|the (?:rounds|tries|attempts) are (?:used up|over))\b.*"
)


@dataclass(slots=True)
class Sentence:
    """One sentence while it is read."""

    state: State
    units: Sequence[Unit]
    parts: list[Segment]
    at: int = 0
    pending: Pending = field(default_factory=Pending)
    carried: set[str] = field(default_factory=set[str])
    """Marks of leads that stood by themselves."""
    held: list[Clause] = field(default_factory=list[Clause])
    """Clauses that come after the next one: `before the tester starts, …`."""
    glue: int | None = None
    """The statement whose task takes in words that follow."""
    behind: list[AnyStatement] = field(default_factory=list[AnyStatement])
    """Rules that were said of the agent of the clause at hand."""
    abreast: bool | None = None
    """`In parallel, a … and b …`: the clauses of the sentence are side by side."""
    dropped: list[Words] = field(default_factory=list[Words])
    waited: Words | None = None
    """A wait that leads what follows: no rule, which holds throughout."""
    unread: Literal["", "condition", "clause"] = ""
    """A condition was not understood: its clause, which would else hold always, is not read."""


def read_sentence(state: State, units: Sequence[Unit]) -> None:
    """Makes statements and remarks of one marked sentence."""
    sentence = Sentence(state, units, in_order(segments(units), state.times))
    state.begun = len(state.statements)
    while sentence.at < len(sentence.parts):
        _next(sentence)
    _finish(sentence)


def _window(sentence: Sentence, first: int, last: int) -> Phrase:
    begin, end = sentence.parts[first].begin, sentence.parts[last].end
    units = sentence.units[begin:end]
    opened = sum(u.text == "(" for u in units) - sum(u.text == ")" for u in units)
    if opened > 0 and end < len(sentence.units) and sentence.units[end].text == ")":
        units = sentence.units[begin : end + 1]
    return Phrase(units)


def _next(sentence: Sentence) -> None:
    state, at = sentence.state, sentence.at
    if too_long(sentence.parts[at].phrase.units, LONGEST_CLAUSE):
        _too_long(sentence)
        return
    if sentence.unread and _under_unread(sentence):
        return
    if _of_time(sentence) or _decides(sentence):
        return
    alone = led(sentence.parts[at].phrase)
    if not alone.phrase:
        sentence.carried |= alone.marks
        sentence.at += 1
        return
    widest = _WIDEST_WINDOW if len(sentence.parts) < _MANY_PARTS else 2
    last = min(len(sentence.parts), at + widest)
    last = next((i for i in range(at + 1, last) if is_timed(sentence.parts[i])), last)
    for stop in range(last, at, -1):
        window = _window(sentence, at, stop - 1)
        if stop > at + 1 and (
            too_long(window.units, LONGEST_CLAUSE) or any(u.text[0] == PAUSE for u in window.units)
        ):
            continue
        given = led(window)
        if not given.phrase:
            continue
        if "otherwise" in given.marks | sentence.carried and not sentence.pending:
            break
        before = len(state.statements)
        tables = RULES if stop > at + 1 else [*RULES, *SINGLE]
        if apply(state, given.phrase, tables) and _keep(sentence, before, given.phrase):
            sentence.at = stop
            sentence.glue = None
            _asked_if(sentence, before)
            _no_more_than_said(sentence, before, given.phrase)
            return
        subject = _with_subject(state, given.phrase)
        if (
            subject is not None
            and apply(state, subject, tables)
            and _keep(sentence, before, subject)
        ):
            sentence.at = stop
            sentence.glue = None
            return
        if stop <= at + 2 and _up_to_a_comma(sentence, stop - 1):
            return
    _fold(sentence)


_IF = re.compile(
    r"(?:if|unless|in case|in the event|on condition|provided|providing|assuming|should|as long as)\b"
)
_AFRESH = frozenset([";", ":", "–", "and", "but"])


def _under_unread(sentence: Sentence) -> bool:
    """Leaves out what belongs to a condition that was not understood: its clause, what is else."""
    segment = sentence.parts[sentence.at]
    given = led(segment.phrase)
    follows = sentence.unread == "condition"
    said = given.phrase.text
    if follows and (
        said.startswith(("ask ", "check with ")) or outcome(said.split()) == "ask_human"
    ):
        sentence.unread = ""  # a question that is asked always does no harm
        return False
    belongs = BOUND.match(given.phrase.text) or "otherwise" in given.marks
    if not follows and not belongs and segment.separator != ":":
        sentence.unread = ""
        return False
    inserted = "@" not in said and _next_is_more(sentence)  # `if, against all odds, it rains, …`
    if follows and given.phrase and not SUBORDINATE.match(given.phrase.text) and not inserted:
        sentence.unread = "clause"
    sentence.at += 1
    _lost(sentence, segment.phrase)
    return True


def _next_is_more(sentence: Sentence) -> bool:
    """Whether behind a segment without an agent, and a comma, one with an agent follows."""
    after = sentence.parts[sentence.at + 1 : sentence.at + 2]
    return bool(after) and after[0].separator == "," and "@" in after[0].phrase.text


def _opens_unread(sentence: Sentence, segment: Segment, phrase: Phrase) -> bool:
    """Whether a condition that was not understood stands before its clause."""
    fronted = sentence.at == 1 or segment.separator in _AFRESH
    text = phrase.text
    return fronted and bool(_IF.match(text) or CIRCUMSTANCE.match(text) or WHEN.match(text))


def _under_circumstances(sentence: Sentence, clause: Clause, segment: Segment) -> bool:
    """Leaves out a clause that begins with a circumstance nobody decides: `in winter, the …`.

    Its agent would else work always.
    """
    if not (clause.agents and clause.works and CIRCUMSTANCE.match(clause.phrase.text)):
        return False
    sentence.unread, sentence.carried, sentence.glue = "clause", set(), None
    sentence.state.branches = []
    _lost(sentence, segment.phrase)
    return True


def _too_long(sentence: Sentence) -> None:
    """Reports a clause that is not tried, with the condition that waits for it."""
    state = sentence.state
    words = sentence.parts[sentence.at].phrase.words
    state.too_long(words, "clause", LONGEST_CLAUSE)
    sentence.dropped.extend(sentence.pending.words)
    sentence.pending, sentence.carried, sentence.glue = Pending(), set(), None
    sentence.at += 1


def _no_more_than_said(sentence: Sentence, before: int, phrase: Phrase) -> None:
    """Takes a permission back that a condition follows: it would be given whether or not it holds."""
    state = sentence.state
    if sentence.at >= len(sentence.parts):
        return
    follows = sentence.parts[sentence.at]
    last = sentence.at == len(sentence.parts) - 1
    bound = follows.separator == "" or (last and follows.separator in {",", "–", "(", "but"})
    text = led(follows.phrase).phrase.text
    if not bound or not re.match(
        r"(?:only )?(?:if|unless|until|till|when|once|after|while|as soon as|as long as|provided) ",
        text,
    ):
        return
    if not any(s.kind == "allow" for s in state.statements[before:]):
        return
    state.statements[before:] = [s for s in state.statements[before:] if s.kind != "allow"]
    sentence.dropped.extend([phrase.words, follows.phrase.words])
    sentence.at += 1


def _up_to_a_comma(sentence: Sentence, last: int) -> bool:
    """A rule with something behind it that is none: `ask me before it starts, it costs money`."""
    state, at = sentence.state, sentence.at
    if sentence.pending or len(sentence.parts) >= _MANY_PARTS:
        return False
    if re.match(r"@[0-9]+ , ", led(sentence.parts[at].phrase).phrase.text):
        return False
    segment = sentence.parts[last]
    commas = [i for i, u in enumerate(segment.phrase.units) if u.text == ","]
    for comma in reversed(commas[:4]):
        begin = sentence.parts[at].begin
        given = led(Phrase(sentence.units[begin : segment.begin + comma]))
        before = len(state.statements)
        if not given.phrase or not apply(state, given.phrase, [*RULES, *SINGLE]):
            continue
        _keep(sentence, before, given.phrase)
        start = segment.begin + comma + 1
        rest = Segment(Phrase(sentence.units[start : segment.end]), ",", start, segment.end)
        sentence.parts[at : last + 1] = [rest] if rest.phrase else []
        sentence.glue = None
        return True
    return False


_PRONOUN = re.compile(
    r"(?:it|he|she|they|both(?: of them)?|that one|this one|the two|the three|all three|these two)(?= )"
)


def _with_subject(state: State, phrase: Phrase) -> Phrase | None:
    """A phrase with the agents that its pronoun stands for."""
    found = _PRONOUN.match(phrase.text)
    if found is None:
        return None
    many = found[0] not in {"it", "he", "she", "that one", "this one"}
    named = state.subject
    if many and len(named) < 2:
        named = state.worked
    if not named or (not many and len(named) > 1):
        return None
    first, rest = phrase.part(0, found.end()), phrase.part(found.end() + 1)
    start, end = first.units[0].start, first.units[-1].end
    units: list[Unit] = []
    for i, name in enumerate(named):
        if i:
            units.append(Unit("and", start, end))
        units.append(Unit(f"@{state.roster.agents.index(name)}", start, end))
    return Phrase([*units, *rest.units])


def _keep(sentence: Sentence, before: int, phrase: Phrase) -> bool:
    """Whether what a rule said may stand under the condition before it."""
    state, pending = sentence.state, sentence.pending
    made = state.statements[before:]
    if sentence.waited is not None and not all(s.kind in {"ask", "ask_tool"} for s in made):
        del state.statements[before:]
        if state.statements and isinstance(state.statements[-1], Pause):
            state.statements.pop()
        say = f"{state.shown(phrase.words)!r} holds throughout a run, and not after a wait"
        words = [phrase.words, sentence.waited]
        state.remark("not_understood", say, words, "Say it without the wait, or leave it out.")
        sentence.pending, sentence.waited = Pending(), None
        return True
    sentence.waited = None
    if not pending:
        sentence.carried.clear()
        return True
    if made and all(isinstance(s, Ask) for s in made):
        _ask_under(sentence, before)
        return True
    if pending.condition is None and made and all(s.kind in {"gate", "inside"} for s in made):
        return True
    if made:  # a permission under a condition would be given whether or not it holds
        del state.statements[before:]
        state.remark(
            "not_understood",
            f"{state.shown(phrase.words)!r} cannot hold under a condition",
            [phrase.words, *pending.words],
            "Say 'only if …' with what an agent decides, or 'Ask me before the X uses T.'",
        )
        sentence.pending = Pending()
    return True


def _ask_under(sentence: Sentence, before: int) -> None:
    """Puts questions under the condition that is said with them."""
    state, pending = sentence.state, sentence.pending
    for i in range(before, len(state.statements)):
        ask = state.statements[i]
        changes: dict[str, object] = {"words": (*ask.words, *pending.words)}
        if pending.condition is not None:
            changes["only_if"] = pending.condition
            state.branches = [pending.condition]
        if pending.waits is not None and len(pending.waits.of) == 1:
            changes["after"] = pending.waits.of[0]
        state.replace(i, **changes)
    sentence.pending = Pending()


def _asked_if(sentence: Sentence, before: int) -> None:
    """`Ask me if the severity is critical`: the condition stands behind the question."""
    made = sentence.state.statements[before:]
    if not made or not all(isinstance(s, Ask) and s.only_if is None for s in made):
        return
    _trailing(sentence)
    if sentence.pending:
        _ask_under(sentence, before)


# -- decisions: bounds, otherwise, stops -----------------------------------------------------------


def _decides(sentence: Sentence) -> bool:
    """What belongs to the decision just made: a bound, what happens after it."""
    state = sentence.state
    segment = sentence.parts[sentence.at]
    given = led(segment.phrase)
    marks = given.marks | sentence.carried
    text = given.phrase.text
    back = state.last("back", sentence=True)
    if back is None and ("otherwise" in marks or sentence.at == 0):
        back = _just_before(state, "back")
    if BOUND.fullmatch(re.sub(r"^(?:but |and |with |for )+", "", text)) or (
        back is not None
        and re.fullmatch(r"(?:once|twice|thrice|[a-z0-9]+ (?:times|rounds))(?: only)?", text)
    ):
        return _bound(sentence, text, segment)
    still = _STILL.fullmatch(segment.phrase.text) or _STILL.fullmatch(text)
    if still is not None and back is not None and sentence.at + 1 < len(sentence.parts):
        sentence.carried.add("otherwise")
        sentence.at += 1
        return True
    if back is None or not isinstance(decision := state.statements[back], Back):
        return False
    if sentence.pending or not (
        {"otherwise", "after_that", "then"} & marks
        or segment.separator in {",", "and", "–", ";", "but"}
    ):
        return False
    if decision.otherwise is not None:
        return False
    if (then := outcome(text.split())) is None:
        return False
    sentence.at += 1
    sentence.carried.clear()
    return state.replace(back, otherwise=then, words=(*decision.words, segment.phrase.words))


def _just_before(state: State, kind: str) -> int | None:
    at = len(state.statements) - 1
    return at if at >= 0 and state.statements[at].kind == kind else None


def _bound(sentence: Sentence, text: str, segment: Segment) -> bool:
    state = sentence.state
    for at in range(len(state.statements) - 1, max(-1, state.begun - 3), -1):
        made = state.statements[at]
        numbers = re.findall(pattern("{N}").pattern, text)
        times = next((int(n) for w in numbers if (n := number(w)) is not None and n >= 1), None)
        if times is None:
            return False
        words = (*made.words, segment.phrase.words)
        if isinstance(made, Back) and made.at_most is None:
            state.replace(at, at_most=times, words=words)
        elif (
            isinstance(made, Inside) and made.use == "review_loop" and "rounds" not in made.options
        ):
            state.replace(at, options={**made.options, "rounds": times}, words=words)
        elif isinstance(made, Use) and made.use == "supervisor" and "at_most" not in made.options:
            state.replace(at, options={**made.options, "at_most": times}, words=words)
        else:
            continue
        sentence.at += 1
        sentence.carried.clear()
        return True
    return False


def _condition(sentence: Sentence, marks: set[str]) -> Cond | None:
    """The condition of the clause at hand: what was said, or the opposite of the branches."""
    if sentence.pending.condition is not None:
        return sentence.pending.condition
    if "otherwise" in marks and sentence.state.branches:
        branches = sentence.state.branches
        return Not(of=branches[0] if len(branches) == 1 else Either(of=tuple(branches)))
    if "if_so" in marks and sentence.state.branches:
        return sentence.state.branches[-1]
    return None


# -- the fold --------------------------------------------------------------------------------------


def _fold(sentence: Sentence) -> None:
    state, segment = sentence.state, sentence.parts[sentence.at]
    given = led(segment.phrase)
    marks = given.marks | sentence.carried
    phrase = given.phrase
    sentence.at += 1
    if not phrase:
        sentence.carried = marks
        return
    if SUBORDINATE.match(phrase.text):
        parsed = subordinate(state, phrase)
        if parsed is not None:
            _take(sentence, parsed, marks, segment)
            return
    if _else_of_nothing(sentence, marks):
        before = sentence.parts[sentence.at - 2].phrase if sentence.at > 1 else phrase
        if not led(before).phrase:
            sentence.dropped.append(before.words)
        sentence.carried, sentence.glue = set(), None
        _lost(sentence, segment.phrase)
        return
    phrase = _predicates(sentence, phrase)
    if not phrase:
        return
    _trailing(sentence)
    if _control(sentence, phrase, marks):
        sentence.pending, sentence.carried, sentence.glue = Pending(), set(), None
        return
    clause = read_clause(state, phrase, marks)
    if clause is None and (other := _with_subject(state, phrase)) is not None:
        clause = read_clause(state, other, marks)
    if sentence.pending.lasting and clause is not None:
        _lasting(sentence, clause, phrase)
        return
    if clause is not None and _is_left_out(sentence, clause, segment):
        return
    if clause is not None:
        clause.behind.extend(sentence.behind)
        sentence.behind = []
        _say(sentence, clause, marks)
        return
    state.statements.extend(sentence.behind)
    sentence.behind = []
    _leftover(sentence, segment, phrase)


def _else_of_nothing(sentence: Sentence, marks: set[str]) -> bool:
    """Whether `otherwise` or `if so` follows no condition: what it leads would hold always."""
    state = sentence.state
    decided = bool(state.branches) or state.last("back", sentence=True) is not None
    said = bool({"otherwise", "if_so"} & marks)
    return said and not decided and sentence.pending.condition is None


def _is_left_out(sentence: Sentence, clause: Clause, segment: Segment) -> bool:
    again = segment.separator == ":" and _said_again(sentence, clause)
    return again or _under_circumstances(sentence, clause, segment)


def _said_again(sentence: Sentence, clause: Clause) -> bool:
    """`Three reviewers look at it: the security reviewer, …`: the list names them once more."""
    state = sentence.state
    at = state.last("step", sentence=True)
    if at is None or not isinstance(step := state.statements[at], Step) or clause.task:
        return False
    same = {part.agent for part in step.parts} == {*clause.agents}
    return same and state.replace(at, words=(*step.words, clause.phrase.words))


_ANDS = re.compile(
    r" (?:, )?(?:and|but)(?: also| then)? | , then | , (?=uses|has|may|can|with|using)"
)


def _predicates(sentence: Sentence, phrase: Phrase) -> Phrase:
    """`The drafter writes it and can search the archive`: what is left when the rules are said."""
    state = sentence.state
    subject = re.match(pattern("{A} ").pattern, phrase.text)
    if subject is None or phrase.text[subject.end() :].startswith((", ", "( ")):
        return phrase  # what is said aside is read with its clause
    named = phrase.part(0, subject.end() - 1)
    for found in _ANDS.finditer(phrase.text, subject.end()):
        right = phrase.part(found.end())
        if not right or right.text.startswith("@"):
            continue
        left = phrase.part(0, found.start())
        before = len(state.statements)
        if apply(state, Phrase([*named.units, *right.units]), RULES):
            made = state.statements[before:]
            del state.statements[before:]
            if apply(state, left, RULES):
                state.statements.extend(made)
                return Phrase(())
            sentence.behind.extend(made)
            return left
        if apply(state, left, RULES):
            return Phrase([*named.units, *right.units])
    return phrase


def _take(sentence: Sentence, parsed: Pending, marks: set[str], segment: Segment) -> None:
    """Keeps a condition for the clause that follows."""
    parsed.then = parsed.then or "then" in marks or "after_that" in marks
    if parsed.clause is not None and parsed.kind == "while":
        parsed_clause = read_clause(sentence.state, parsed.clause, marks)
        if parsed_clause is not None and _at_work_already(sentence, parsed_clause, segment):
            return
        if parsed_clause is not None:
            beside = (
                sentence.glue is not None and segment.separator in {"", ","} and not _more(sentence)
            )
            _say(sentence, parsed_clause, marks | ({"beside"} if beside else set()))
            sentence.carried = set() if beside else {"beside"}
            return
        _unlike_work(sentence, parsed.clause, segment)
        return
    if parsed.clause is not None and parsed.kind == "before":
        clause = read_clause(sentence.state, parsed.clause, marks)
        if clause is not None:
            sentence.held.append(clause)
            return
    if "otherwise" in marks and parsed.condition is None:
        sentence.carried.add("otherwise")
    sentence.pending.merge(parsed)
    sentence.carried |= (
        marks & {"first", "beside", "otherwise"} if parsed.condition is None else set()
    )


def _unlike_work(sentence: Sentence, clause: Phrase, segment: Segment) -> None:
    """A `while` that is neither somebody's work nor a condition: `while there is a full moon, …`.

    What it stands before would else be done always; `while keeping it short` only says how.
    """
    how = clause.units[0].text.endswith("ing") if clause else False
    if not how and (sentence.at == 1 or segment.separator in _AFRESH):
        sentence.unread = "condition"
        sentence.state.branches = []
    _lost(sentence, segment.phrase)


def _at_work_already(sentence: Sentence, clause: Clause, segment: Segment) -> bool:
    """`The painter draws while the author is writing`: beside the author's work said before."""
    state, glue = sentence.state, sentence.glue
    if glue is None or segment.separator or not clause.agents:
        return False
    step = state.statements[glue]
    earlier = [s for s in state.statements[:glue] if isinstance(s, Step)]
    if not isinstance(step, Step) or not earlier:
        return False
    if {part.agent for part in earlier[-1].parts} != {*clause.agents}:
        return False
    return state.replace(glue, place="beside", words=(*step.words, segment.phrase.words))


def _more(sentence: Sentence) -> bool:
    """Whether another clause follows that a fronted one could belong to."""
    if sentence.at >= len(sentence.parts):
        return False
    return sentence.parts[sentence.at].separator in {",", ""}


def _trailing(sentence: Sentence) -> None:
    """Takes a condition that stands behind the clause it belongs to."""
    while sentence.at < len(sentence.parts):
        follows = sentence.parts[sentence.at]
        text = follows.phrase.text
        text = re.sub(r"^(?:and |but |just |only |, )+", "", text)
        if not SUBORDINATE.match(text) or text.startswith("before ") or is_timed(follows):
            return
        if follows.separator not in {"", ",", "–", "but", "("} or _STILL.fullmatch(text):
            return
        if follows.separator == "," and sentence.at + 1 < len(sentence.parts):
            after = sentence.parts[sentence.at + 1]
            bound = (
                BOUND.match(led(after.phrase).phrase.text) or "otherwise" in led(after.phrase).marks
            )
            if after.separator in {",", ""} and not bound:
                return
        if sentence.pending.condition is not None:
            return
        phrase = led(follows.phrase).phrase
        parsed = subordinate(sentence.state, phrase)
        if parsed is None or parsed.clause is not None:
            return
        sentence.pending.merge(parsed)
        sentence.at += 1


def _control(sentence: Sentence, phrase: Phrase, marks: set[str]) -> bool:
    """Going back, stopping, skipping, waiting."""
    state, said = sentence.state, phrase.text.split()
    words = (phrase.words, *sentence.pending.words)
    condition = _condition(sentence, marks)
    ready = sentence.pending.ready
    if condition is None and ready is not None:
        to = _led_back(state, said) or (_once_more(state, said) if _objects(ready) else ())
        if to:  # `as soon as one of them rejects it, the writer redoes it`
            return _loop(sentence, to, ready, words)
    if condition is None:
        if to := state.names(back_to(said)):
            return _return(state, to[0], phrase, marks)
        if (wait := waits_for(said)) is not None:
            waits = Waits(of=state.names(" ".join(wait.agents)), join=wait.join)
            return state.say(Join(waits=waits, words=words))
        return False
    if sentence.pending.until and (found := repeats(said))[0]:
        return _repeat(state, " ".join(found[1]), condition, words)
    if to := _led_back(state, said) or _once_more(state, said):
        return _loop(sentence, to, condition, words)
    if skipped := state.names(" ".join(skips(said))):
        for name in skipped:
            state.say(Skip(agent=name, condition=condition, words=words))
        state.branches = [condition]
        return True
    return _ends(sentence, said, condition, words)


def _lasting(sentence: Sentence, clause: Clause, phrase: Phrase) -> None:
    """`While the grade is under 8, the writer works on the text`: back to who has worked before."""
    state, pending = sentence.state, sentence.pending
    named = clause.agents if clause.works else ()
    if not named or pending.condition is None or not {*named} <= state.ever:
        _lost(sentence, phrase)
        return
    _loop(sentence, named, pending.condition, (phrase.words, *pending.words))
    sentence.pending, sentence.carried, sentence.glue = Pending(), set(), None


def _loop(
    sentence: Sentence, named: tuple[str, ...], condition: Cond, words: tuple[Words, ...]
) -> bool:
    """Going back to an agent while a condition holds."""
    state = sentence.state
    most = sentence.pending.at_most
    made = (
        Back(condition=condition, to=named[0], at_most=most, words=words)
        if len(named) == 1
        else Back(condition=condition, group=named, at_most=most, words=words)
    )
    state.branches = [condition]
    state.subject = named
    return state.say(made)


def _led_back(state: State, said: Sequence[str]) -> tuple[str, ...]:
    """All the agents that a clause leads back to: `back to the writer and the editor`."""
    target = back_to(said)
    if not target:
        return ()
    scan = Scan(said)
    scan.at = len(said) - 1 - [*reversed(said)].index(target)
    ends = len(said) == scan.at + 1 or said[scan.at + 1] in {",", "and", "or"}
    return state.names(" ".join(scan.agents()) if ends else target)


def _objects(condition: Cond) -> bool:
    """Whether a condition says that somebody is not content: `one of them rejects it`."""
    unlike = {"rejected", "declined", "refused", "objected", "vetoed", "dismissed", "disagreed"}
    return isinstance(condition, Not) or any(f.name in unlike for f in facts(condition))


def _once_more(state: State, said: Sequence[str]) -> tuple[str, ...]:
    """Who tries again, if they have worked before."""
    who = " ".join(tries_again(said))
    named = state.names(who) or (state.subject[:1] if who in {"it", "he", "she"} else ())
    return named if set(named) <= state.ever else ()


def _ends(
    sentence: Sentence, said: Sequence[str], condition: Cond, words: tuple[Words, ...]
) -> bool:
    state, then = sentence.state, outcome(said)
    if then is None:
        return False
    state.branches = [condition]
    if then == "ask_human":
        question = state.text[words[-1].start : words[-1].end] if len(words) > 1 else " ".join(said)
        return state.say(Ask(question=question, only_if=condition, words=words))
    if then != "next":
        return state.say(Stop(condition=condition, words=words))
    sentence.carried = {"went_on"}
    return True


def _return(state: State, to: str, phrase: Phrase, marks: set[str]) -> bool:
    """`Then it goes back to the writer`, without a condition: the writer works once more."""
    part = Part(agent=to, task=state.raw(phrase))
    return state.step(Step(parts=(part,), again=True, words=(phrase.words,)))


def _repeat(state: State, group: str | None, condition: Cond, words: tuple[Words, ...]) -> bool:
    named = state.names(group or "")
    if not named:
        for statement in reversed(state.statements):
            if isinstance(statement, Step) and len(named) < 2:
                named = (*(p.agent for p in statement.parts), *named)
    made = (
        Back(condition=condition, to=named[0], words=words)
        if len(named) == 1
        else Back(condition=condition, group=tuple(dict.fromkeys(named)), words=words)
    )
    state.branches = [condition]
    return bool(named) and state.say(made)


# -- steps -----------------------------------------------------------------------------------------


def _say(sentence: Sentence, clause: Clause, marks: set[str]) -> None:
    """Says what a clause is, with the conditions that wait for it."""
    state, pending = sentence.state, sentence.pending
    sentence.waited = None
    for statement in clause.before:
        state.say(statement)
    if clause.agents and clause.works:
        _step(sentence, clause, marks)
    elif clause.statement is not None:
        if pending and pending.condition is not None:
            _lost(sentence, clause.phrase)
            return
        state.say(clause.statement)
        sentence.glue = len(state.statements) - 1
        sentence.carried = set()
    for statement in clause.behind:
        state.say(statement)
    while sentence.held and clause.works:
        later = sentence.held.pop()
        sentence.pending = Pending()
        _step(sentence, later, set())


def _step(sentence: Sentence, clause: Clause, marks: set[str]) -> None:
    state, pending = sentence.state, sentence.pending
    otherwise = "otherwise" in marks and pending.condition is None and bool(state.branches)
    back = state.last("back", sentence=True) is not None
    condition = pending.condition
    beside = "beside" in marks or clause.beside
    if beside and sentence.abreast is None and _opens_abreast(sentence, clause):
        sentence.abreast, beside = True, False
    elif sentence.abreast:
        beside = True
    if otherwise and back:
        otherwise = False
    elif otherwise and (only := _not_a_branch(state)) is not None:
        condition, otherwise = only, False
    elif otherwise or ("or_if" in marks) or (condition is not None and _branch(state, sentence)):
        beside = True
    parts = tuple(
        Part(
            agent=agent,
            task=clause.task,
            only_if=condition,
            otherwise=otherwise,
            for_each=pending.each or clause.each,
            maker=pending.maker,
            needs=pending.needs,
        )
        for agent in clause.agents
    )
    after = pending.waits or clause.waits
    then = bool({"then", "after_that"} & marks) or pending.then or clause.then
    again = then or clause.again
    step = Step(
        parts=parts,
        place="beside" if beside and state.worked else "next",
        again=again,
        after=after,
        then=then and (after is not None or pending.ready is not None),
        ready=pending.ready,
        start="start" in marks or (clause.start and not pending and not then),
        words=(clause.phrase.words, *pending.words),
    )
    state.step(step)
    if condition is not None:
        state.branches = [*(state.branches if beside else []), condition]
    elif not otherwise:
        state.branches = []
    sentence.glue = len(state.statements) - 1
    sentence.pending, sentence.carried = Pending(), set()


def _opens_abreast(sentence: Sentence, clause: Clause) -> bool:
    """Whether `in parallel` opens a sentence of several clauses, and so speaks of these."""
    words = Phrase(sentence.units).text
    opening = re.match(
        r"(?:(?:then|and|next|first|finally|,) )*(?:in parallel|simultaneously|concurrently|side by side)(?: (?:,|:))? (?!to |with )",
        words,
    )
    if opening is None:
        return False
    if len(clause.agents) > 1:
        return True
    return any("@" in part.phrase.text for part in sentence.parts[sentence.at :])


def _branch(state: State, sentence: Sentence) -> bool:
    """Whether a conditioned step is another branch beside the one just said."""
    if not state.branches or not state.statements:
        return False
    at = state.last("step", "inside", "use")
    if at is None or not isinstance(step := state.statements[at], Step):
        return False
    return all(p.only_if is not None for p in step.parts) and not sentence.pending.then


def _not_a_branch(state: State) -> Cond | None:
    """The opposite of a condition that led to something else than a step (`stop`, `ask me`)."""
    at = state.last("step")
    if at is not None or not state.branches:
        return None
    return Not(of=state.branches[-1])


# -- waits -----------------------------------------------------------------------------------------


def _of_time(sentence: Sentence) -> bool:
    """Reads a wait, or for how long a condition is waited for."""
    part = sentence.parts[sentence.at]
    if not is_timed(part):
        return False
    if part.phrase.units[-1].text[0] == PAUSE:
        _pause(sentence)
    else:
        _bounded(sentence)
    return True


def _pause(sentence: Sentence) -> None:
    """`Wait two hours`, `two hours after the writer finishes`."""
    state, segment = sentence.state, sentence.parts[sentence.at]
    *lead, mark = segment.phrase.units
    time = state.times[int(mark.text[1:])]
    given = led(Phrase(lead))
    marks = given.marks | sentence.carried
    sentence.at += 1
    follows = sentence.parts[sentence.at].phrase if sentence.at < len(sentence.parts) else None
    before: Clause | None = None
    if time.since:
        parsed = subordinate(state, follows) if follows is not None else None
        sentence.at += follows is not None
        if parsed is None or parsed.waits is None or sentence.pending.waits is not None:
            _lost(sentence, _both(segment.phrase, follows))
            return
        sentence.pending.waits = parsed.waits
    elif follows is not None and follows.text.startswith("before "):
        sentence.at += 1
        before = _before(sentence, follows, marks)
        if before is None:
            _lost(sentence, _both(segment.phrase, follows))
            return
    elif not time.leads:
        _trailing(sentence)
    pending = sentence.pending
    if given.phrase or pending.ready or pending.each or pending.needs or "start" in marks:
        _lost(sentence, segment.phrase)
        return
    _say_pause(sentence, time, marks, segment.phrase.words, before)
    if before is not None and not {*before.agents} <= state.ever:
        _say(sentence, before, set())


def _both(phrase: Phrase, other: Phrase | None) -> Phrase:
    return Phrase([*phrase.units, *(other.units if other is not None else ())])


def _before(sentence: Sentence, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`… before the publisher posts it`: whose work is waited before."""
    state = sentence.state
    parsed = subordinate(state, phrase)
    clause = parsed.clause if parsed is not None else None
    if clause is None:
        return None
    found = read_clause(state, clause, marks)
    if found is None and (other := _with_subject(state, clause)) is not None:
        found = read_clause(state, other, marks)
    if found is None or not found.agents or not found.works:
        return None
    known = {*found.agents} & state.ever
    return found if not known or len(found.agents) == 1 else None


def _say_pause(
    sentence: Sentence, time: Timed, marks: set[str], words: Words, before: Clause | None
) -> None:
    """Says a wait; what it leads to stands under the same condition."""
    state, pending = sentence.state, sentence.pending
    if "otherwise" in marks and state.last("back", sentence=True) is not None:
        marks = marks - {"otherwise"}  # what comes when a loop is over is the way on
    condition = _condition(sentence, marks)
    agent = time.before
    if before is not None and {*before.agents} <= state.ever:
        agent = before.agents[0]
    state.say(
        Pause(
            wait=time.seconds,
            until=time.until or None,
            before=agent or None,
            place="beside" if "beside" in marks else "next",
            after=pending.waits,
            then=pending.waits is not None and bool(pending.then or {"then", "after_that"} & marks),
            only_if=condition,
            words=(words, *pending.words),
        )
    )
    goes_on = sentence.at < len(sentence.parts) and not agent and _leads_on(sentence, time)
    state.branches = [] if condition is None or goes_on else [condition]
    kept = Pending()
    if goes_on and condition is not None:
        kept = Pending(condition=condition, words=pending.words or [words])
    sentence.pending, sentence.glue = kept, None
    sentence.carried = {"then"} if goes_on else set()
    sentence.waited = words if goes_on else None


def _leads_on(sentence: Sentence, time: Timed) -> bool:
    """Whether the clause behind a wait comes after it: `wait two hours, then …`."""
    given = led(sentence.parts[sentence.at].phrase)
    return time.leads or not {"otherwise", "beside"} & given.marks


def _bounded(sentence: Sentence) -> None:
    """`If the models are not ready within two hours, skip the painter`."""
    state, segment = sentence.state, sentence.parts[sentence.at]
    *units, mark = segment.phrase.units
    time = state.times[int(mark.text[1:])]
    sentence.at += 1
    phrase = segment.phrase
    ready, agent = None, who_waits(state, time)
    said = led(Phrase(units))
    if time.agent is None:
        ready = late(state, said.phrase)
    elif said.phrase:
        agent = None
    then = sentence.parts[sentence.at].phrase if sentence.at < len(sentence.parts) else None
    made = None
    if then is not None and not is_timed(sentence.parts[sentence.at]) and not sentence.pending:
        sentence.at += 1
        phrase = _both(phrase, then)
        if time.seconds is not None and (ready is not None or agent):
            made = instead(state, led(then).phrase, time.seconds, ready, agent)
    sentence.carried, sentence.glue = set(), None
    if made is None:
        state.branches = []
        words = [*sentence.pending.words, phrase.words]
        sentence.pending = Pending()
        state.remark(
            "not_understood",
            f"{state.shown(phrase.words)!r} is no bound that a step can keep",
            [Words(start=words[0].start, end=words[-1].end)],
            time.why or BOUNDS,
        )
        return
    state.say(made.model_copy(update={"words": (phrase.words,)}))


# -- what is left over -----------------------------------------------------------------------------


def _leftover(sentence: Sentence, segment: Segment, phrase: Phrase) -> None:
    state = sentence.state
    if segment.separator == "(" and _tools_aside(sentence, phrase):
        return
    if sentence.pending.lasting and (most := rounds_left(phrase.text)) is not None:
        sentence.pending.at_most = most
        sentence.pending.words.append(phrase.words)
        return
    if sentence.pending.condition is not None and segment.separator == "(":
        sentence.unread = "condition"  # it says more of when its clause holds
        _lost(sentence, segment.phrase)
        return
    named = phrase.text.startswith("@") and " " in phrase.text  # somebody else's doing
    if sentence.glue is not None and not sentence.pending and not named:
        made = state.statements[sentence.glue]
        words = segment.phrase.words
        task = state.raw(segment.phrase)
        only = made.parts[0].only_if if isinstance(made, Step) else None
        if only is not None and outcome(phrase.text.split()) == "end":
            state.say(Stop(condition=only, words=(words, *made.words)))  # `…, and we stop there`
            return
        if isinstance(made, Step):
            parts = tuple(
                p.model_copy(update={"task": f"{p.task}, {task}".strip(", ")}) for p in made.parts
            )
            state.replace(sentence.glue, parts=parts, words=(*made.words, words))
            state.glued.append(segment.phrase)
            return
        if made.kind == "trait":
            state.replace(sentence.glue, words=(*made.words, words))
            state.glued.append(segment.phrase)
            return
    if _is_label(sentence, phrase):
        state.section = phrase.text
        return
    if _opens_unread(sentence, segment, phrase):
        sentence.unread = "condition"
        state.branches = []
    _lost(sentence, segment.phrase)


def _tools_aside(sentence: Sentence, phrase: Phrase) -> bool:
    """`The scout looks at the logs (search_logs)`: what the agent of the clause does it with."""
    state = sentence.state
    step = state.statements[sentence.glue] if sentence.glue is not None else None
    only = all(unit.text[0] == "#" or unit.text in {",", "and"} for unit in phrase.units)
    if not isinstance(step, Step) or not only or sentence.pending:
        return False
    agents = tuple(part.agent for part in step.parts)
    tools = state.tool_names(phrase.text)
    return bool(tools) and state.say(Allow(agents=agents, tools=tools, words=(phrase.words,)))


def _is_label(sentence: Sentence, phrase: Phrase) -> bool:
    """`Tools: the writer has …`: a heading in the line."""
    if sentence.at != 1 or len(sentence.parts) < 2 or len(phrase.units) > _LONGEST_LABEL:
        return False
    named = any(unit.text[0] in "@#$~" for unit in phrase.units)
    return sentence.parts[1].separator == ":" and not named and not sentence.pending


def _lost(sentence: Sentence, phrase: Phrase) -> None:
    sentence.dropped.extend([*sentence.pending.words, phrase.words])
    sentence.pending = Pending()


def _finish(sentence: Sentence) -> None:
    state = sentence.state
    for clause in sentence.held:
        if any(said.kind != "trait" for said in state.statements[state.begun :]):
            _step(sentence, clause, set())
        else:  # `the responder never answers before the builder`: nothing comes before anything
            sentence.dropped.append(clause.phrase.words)
    if sentence.pending:
        sentence.dropped.extend(sentence.pending.words)
    if not sentence.dropped and len(state.statements) == state.begun and not sentence.parts:
        return
    for words in _stretches(sentence.dropped):
        state.not_understood(words)


def _stretches(words: list[Words]) -> list[Words]:
    """Neighbours as one."""
    out: list[Words] = []
    for part in sorted(words, key=lambda w: w.start):
        if out and part.start - out[-1].end <= 3:
            out[-1] = Words(start=out[-1].start, end=max(out[-1].end, part.end))
        else:
            out.append(part)
    return out
