"""Reads a prompt from its first to its last sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crewlog.definition.findings import did_you_mean
from crewlog.prompt.ast import (
    Allow,
    AnyStatement,
    Ask,
    CrewName,
    Group,
    Part,
    Pause,
    PromptAst,
    Step,
    Words,
)
from crewlog.prompt.compiled import Remark
from crewlog.prompt.grammar.calls import Calls, unbounded
from crewlog.prompt.grammar.confined import look_at_confined
from crewlog.prompt.grammar.consents import Consents
from crewlog.prompt.grammar.counted import Counts
from crewlog.prompt.grammar.deciding import look_at_decisions
from crewlog.prompt.grammar.joined import apart as apart_by_rights
from crewlog.prompt.grammar.joined import uncounted
from crewlog.prompt.grammar.left_out import look_at_left_out
from crewlog.prompt.grammar.lexicon import third_person
from crewlog.prompt.grammar.mentions import Roster
from crewlog.prompt.grammar.more_shapes import MoreShapes
from crewlog.prompt.grammar.named_groups import NamedGroups
from crewlog.prompt.grammar.near_shapes import HUB, nameless, nearly
from crewlog.prompt.grammar.order import read_sentence
from crewlog.prompt.grammar.pauses import timed
from crewlog.prompt.grammar.phrase import Phrase, Unit, too_long
from crewlog.prompt.grammar.requests import answered, plainly
from crewlog.prompt.grammar.segments import SUBORDINATE
from crewlog.prompt.grammar.sentences import Sentence, sentences
from crewlog.prompt.grammar.shapes import Shapes
from crewlog.prompt.grammar.state import Places, State
from crewlog.prompt.grammar.terms import Terms, apart, asks_whom
from crewlog.prompt.grammar.tokens import little
from crewlog.prompt.grammar.tools_in_tasks import look_for_tools
from crewlog.prompt.grammar.words_of_control import look_at_tasks
from crewlog.prompt.names import crew_name
from crewlog.prompt.registry import Registry

LONGEST_SENTENCE = 150
"""Words; a list of agents or tools is one of them."""
_MOST_TOKENS = 1_200
"""Words of a sentence, lists and all."""
_MOST_STATEMENTS = 2_000
"""Things that a prompt says; a step of several agents is as many."""
_MOST_EFFORT = 100_000
"""The sum of the squares of the sentences' words: 570 sentences of 15 words, 80 of 40."""
_MOST_REMARKS = 500
"""Stretches of a prompt that say nothing, or are only added to a task."""


@dataclass(frozen=True)
class Reading:
    """What a prompt says, and what of it was not understood."""

    ast: PromptAst
    remarks: tuple[Remark, ...] = ()


def read(text: str, registry: Registry, file: str = "prompt") -> Reading:
    """Reads a prompt. The same text always reads the same; nothing is looked up and nothing raised.

    Args:
        text: The prompt, in English, with or without markdown.
        registry: The tools, agents and models that it may name.
        file: What the prompt is called in remarks.
    """
    parts = answered(sentences(text))
    short = [s for s in parts if len(s.tokens) <= _MOST_TOKENS]
    groups = NamedGroups.of(short, registry.groups)
    parts = [groups.marked(s) for s in parts]
    short = [s for s in parts if len(s.tokens) <= _MOST_TOKENS]
    roster = Roster.of([s for s in short if not apart(s)], registry)
    state = State(text, Places(text, file), registry, roster, models=tuple(roster.models))
    state.groups = groups
    _strangers(state)
    _members(state, short)
    for sentence in parts:
        if _said_enough(state, sentence, parts[-1]):
            break
        _sentence(state, sentence)
    _needs_left(state)
    _asked_before(state)
    look_at_tasks(state)
    look_at_confined(state)
    look_for_tools(state)
    look_at_left_out(state)
    remarks = sorted(state.remarks, key=lambda r: r.words[0].start if r.words else 0)
    return Reading(PromptAst(statements=tuple(state.statements)), tuple(remarks))


def _members(state: State, parts: Sequence[Sentence]) -> None:
    """Who is in the groups: the rights of a group may be said before."""
    state.groups.members.update(state.registry.groups)
    for sentence in parts if state.groups.names else ():
        if apart(sentence):
            for said in Terms(state, state.roster.marked(sentence)).group() or ():
                if isinstance(said, Group):
                    state.groups.members[said.name] = said.agents


def _said_enough(state: State, sentence: Sentence, last: Sentence) -> bool:
    """Whether no more is read: a crew is said in far fewer words, and what is made of them costs."""
    if len(state.statements) + state.turns > _MOST_STATEMENTS:
        message = (
            f"the prompt says more than {_MOST_STATEMENTS:,} things: from here on it is not read"
        )
        remedy = "Say each thing once; give the material itself as the run's input."
    elif state.effort > _MOST_EFFORT:
        message = "the prompt is longer than prompts that are read: from here on it is not read"
        remedy = "Say it in fewer and shorter sentences; give the material as the run's input."
    elif len(state.remarks) + len(state.glued) > _MOST_REMARKS:
        message = (
            f"more than {_MOST_REMARKS:,} stretches say nothing that a crew can do: "
            "from here on it is not read"
        )
        remedy = "Say who works with whom; give the material itself as the run's input."
    else:
        return False
    words = Words(start=sentence.start, end=last.stop)
    state.remark("too_large", message, [words], remedy, severity="error")
    return True


def _sentence(state: State, sentence: Sentence) -> None:
    if len(sentence.tokens) > _MOST_TOKENS:
        words = Words(start=sentence.start, end=sentence.stop)
        state.too_long(words, "sentence", LONGEST_SENTENCE)
        return
    if sentence.kind == "heading":
        state.section = " ".join(t.text for t in sentence.tokens)
        named = any(isinstance(s, CrewName) for s in state.statements)
        if (sentence.level == 1 or not state.statements) and not named:
            words = Words(start=sentence.start, end=sentence.stop)
            if name := crew_name(state.text[words.start : words.end]):
                state.say(CrewName(name=name, words=(words,)))
            state.section = ""
            return
        if _speaks(state, sentence):
            _read(state, sentence)
        return
    if _crew_line(state, sentence):
        return
    _read(state, sentence)


def _speaks(state: State, sentence: Sentence) -> bool:
    """Whether a heading is a sentence of its own: `## Only the writer may deploy`."""
    units = state.roster.marked(sentence)
    return any(u.text.startswith(("@", "#")) for u in units) and len(units) > 2


def _crew_line(state: State, sentence: Sentence) -> bool:
    """`Crew: release-notes`."""
    tokens = sentence.tokens
    if not sentence.first or len(tokens) < 2 or len(tokens) > 10:
        return False
    joined = tokens[0].text.startswith(("crew:", "team:"))
    plain = tokens[0].text in {"crew", "team"} and tokens[1].text == ":"
    if not joined and not (plain and len(tokens) > 2):
        return False
    start = tokens[0].start + 5 if joined else tokens[1].end
    words = Words(start=start, end=tokens[-1].end)
    name = crew_name(state.text[words.start : words.end])
    if not name or "," in state.text[words.start : words.end]:
        return False
    return state.say(CrewName(name=name, words=(Words(start=tokens[0].start, end=words.end),)))


def _read(state: State, sentence: Sentence) -> None:
    units = _labelled(state, sentence, state.roster.marked(sentence))
    whole = Words(start=sentence.start, end=sentence.stop)
    if too_long(units, LONGEST_SENTENCE):
        state.too_long(whole, "sentence", LONGEST_SENTENCE)
        state.labelled = state.described = False
        return
    state.effort += min(len(units), LONGEST_SENTENCE) ** 2
    parts = _by_rights(state, units)
    for at, part in enumerate(parts):
        one = Words(start=part[0].start, end=part[-1].end)
        _read_part(state, None if at else sentence, part, one if len(parts) > 1 else whole)


def _by_rights(state: State, units: list[Unit]) -> list[list[Unit]]:
    """A sentence, or those that it joins where one of them bounds a right and each is read."""
    if not unbounded(units):
        return _by_shapes(state, units)
    if _ruled(state, units, aloud=False) is not None:
        return [units]
    parts = apart_by_rights(_without_fillers(units))
    for part in parts:
        if unbounded(part) and _ruled(state, part, aloud=False) is None:
            return [units]
    return parts


def _by_shapes(state: State, units: list[Unit]) -> list[list[Unit]]:
    """A sentence, or those that semicolons join, where the first says the shape of a crew."""
    texts = [u.text for u in units]
    if ";" not in texts or _shaped(state, units):
        return [units]
    cut = texts.index(";")
    first, rest = units[:cut], units[cut + 1 :]
    if not first or not rest or not _shaped(state, first):
        return [units]
    return [first, *_by_shapes(state, rest)]


def _shaped(state: State, units: list[Unit]) -> bool:
    """Whether units say the shape of a crew, or what belongs to one; nothing is kept of it."""
    kept = (list(state.statements), state.touched, state.worked, state.subject, {*state.ever})
    remarked = len(state.remarks)
    try:
        said = _without_fillers(units)
        readers = (Shapes(state, said), MoreShapes(state, said)) if said else ()
        return any(reader.read() is not None for reader in readers)
    finally:
        state.statements, state.touched, state.worked, state.subject, state.ever = kept
        del state.remarks[remarked:]


_ASKS = frozenset(["checks", "says", "sees", "decides", "tells", "judges", "determines", "looks"])


def _whether(units: list[Unit]) -> list[Unit]:
    """`The judge checks if the goal is reached` with `whether`, as no step hangs on it."""
    texts = [u.text for u in units]
    if "if" not in texts or not {"goal", "plan"} & {*texts}:
        return units
    at = texts.index("if")
    if not at or texts[at - 1] not in _ASKS:
        return units
    return [*units[:at], Unit("whether", units[at].start, units[at].end), *units[at + 1 :]]


def _read_part(state: State, sentence: Sentence | None, units: list[Unit], whole: Words) -> None:
    before, remarked = len(state.statements), len(state.remarks)
    if _authority(state, units, whole):
        state.labelled = state.described = False
        return
    if _all_but(state, units, whole):
        state.labelled = state.described = False
        return
    units = timed(state, asks_whom(units))
    state.units += units
    if sentence is not None:
        _unclear(state, sentence)
    state.addressed = ()
    units, asides = _without_asides(
        _fronted(plainly(_uninterrupted(_without_fillers(_named_aside(_whether(units))))))
    )
    read_sentence(state, units)
    for aside in asides:
        read_sentence(state, aside)
    state.labelled = state.described = False
    look_at_decisions(state, before)
    _unbounded(state, before, remarked)
    if len(state.statements) == before and len(state.remarks) == remarked and not state.touched:
        state.not_understood(whole)
    state.touched = False


_BESIDE = re.compile(r"[\s,;:()–—-]*(?:(?:and|but)\b[\s,]*)?")


def _unbounded(state: State, before: int, remarked: int) -> None:
    """Takes back rights beside which words of the sentence were not understood: they may bound it.

    `The writer may publish, subject to my approval` gives nothing where that is not read.
    """
    unread = [
        r.words[0] for r in state.remarks[remarked:] if r.code == "not_understood" and r.words
    ]
    for at in range(len(state.statements) - 1, before - 1, -1):
        said = state.statements[at]
        if not isinstance(said, Allow) or not said.words or said.only:
            continue
        given = said.words[0]
        for words in unread:
            gap = state.text[given.end : words.start] if words.start >= given.end else "-"
            if given.end > words.start or not _BESIDE.fullmatch(gap):
                continue
            del state.statements[at]
            whole = Words(start=given.start, end=words.end)
            state.remark(
                "not_understood",
                f"{state.shown(whole)!r} gives nothing: what bounds it is not understood",
                [whole],
                "Say the bound in a sentence that is read: 'Ask me before the X uses T.'",
            )
            break


def _all_but(state: State, units: list[Unit], whole: Words) -> bool:
    """Whether a sentence all but says the shape of a crew: then no phases are made of it."""
    said = " ".join(state.text[whole.start : whole.end].lower().split()).rstrip(".!")
    hint = nearly(said)
    if not hint:
        return False
    state.units += units
    word = nameless(said) if hint == HUB else ""
    why = f": {word!r} is no name of an agent" if word else ""
    message = f"{state.shown(whole)!r} is near a sentence that is read, and is none{why}"
    state.remark("not_understood", message, [whole], hint)
    return True


def _authority(state: State, units: list[Unit], whole: Words) -> bool:
    """Reads a sentence about calls, groups, budgets or questions, as a whole or not at all."""
    said = _without_fillers(units)
    made = _ruled(state, said, aloud=True)
    if made is None and not unbounded(said):
        return False
    state.units += units
    for statement in made or ():
        state.say(statement)
    if made is None:
        wrong, remedy = uncounted(state, said)
        state.remark(
            "not_understood",
            f"{state.shown(whole)!r} {wrong}",
            [whole],
            remedy,
            severity="error",
        )
    return True


def _ruled(state: State, units: list[Unit], *, aloud: bool) -> list[AnyStatement] | None:
    """What a sentence rules; none where it is no rule, or not understood as a whole.

    Args:
        state: What the reader knows.
        units: The sentence.
        aloud: Whether what is assumed in it is said, too.
    """
    said, remarked = _without_fillers(units), len(state.remarks)
    for reader in (Terms, Calls, Consents, Counts, Shapes, MoreShapes):
        made = reader(state, said).read()
        if made is not None:
            break
    if not aloud:
        del state.remarks[remarked:]
    return made


def _labelled(state: State, sentence: Sentence, units: list[Unit]) -> list[Unit]:
    """`Writer: drafts the notes` without its colon."""
    if len(units) > 1 and units[0].text.startswith("@") and units[1].text in {":", "–"}:
        state.labelled = True
        state.described = state.text[units[0].start :][:4].lower() == "the "
        return [units[0], *units[2:]]
    return units


_FILLERS = frozenset(["please", "kindly", "pls"])


def _without_fillers(units: list[Unit]) -> list[Unit]:
    """The units without words of politeness, and without the commas around these."""
    out: list[Unit] = []
    at = 0
    while at < len(units):
        if units[at].text not in _FILLERS or len(units) == 1:
            out.append(units[at])
            at += 1
            continue
        at += 1
        noted = at < len(units) and units[at].text == "note"
        at += noted
        closed = at == len(units) or units[at].text == ","
        if out and out[-1].text == "," and closed:
            out.pop()
            at += at < len(units)
        elif not out and at < len(units) and units[at].text == ",":
            at += 1
    return out


_AUXILIARIES = frozenset(
    ["is", "are", "was", "were", "may", "can", "must", "should", "will", "has", "have"]
)


def _uninterrupted(units: list[Unit]) -> list[Unit]:
    """`The writer is, for now, switched off` without the commas around `for now`."""
    out = list(units)
    for at in range(len(out) - 1, 0, -1):
        if out[at].text != "," or out[at - 1].text not in _AUXILIARIES:
            continue
        said = little(out, at + 1)
        if said and at + 1 + said < len(out) and out[at + 1 + said].text == ",":
            del out[at + 1 + said], out[at]
    return out


_BY_MEANS_OF = frozenset(
    [
        "using",
        "with",
        "via",
        "through",
        "by",
        "means",
        "of",
        "the",
        "help",
        "then",
        "next",
        "first",
        "finally",
    ]
)


def _uses(texts: list[str]) -> bool:
    """`Using search_logs`, `with the help of the archive`: tools and nothing else."""
    tools = [t for t in texts if t[0] in "#$"]
    others = [t for t in texts if t[0] not in "#$" and t not in {"and", ",", *_BY_MEANS_OF}]
    return bool(tools) and not others and bool({*texts} & {"using", "with", "via", "through", "by"})


def _fronted(units: list[Unit]) -> list[Unit]:
    """`The publisher, provided I agree, posts it` with its condition in front."""
    texts = [u.text for u in units]
    for at in range(len(units) - 3):
        opens = not at or texts[at - 1] in _OPENING
        if texts[at][0] != "@" or texts[at + 1] != "," or not opens:
            continue
        inside = at + 2
        if not SUBORDINATE.match(" ".join(texts[inside : inside + 6])) or "," not in texts[inside:]:
            continue
        close = texts.index(",", inside)
        verb = texts[close + 1] if close + 1 < len(units) else ""
        if not (third_person(verb) or verb[:1] == "$" or verb in _AUXILIARIES):
            continue
        place = units[close + 1].start
        moved = Unit(texts[at], place, place)
        return [*units[:at], *units[inside : close + 1], moved, *_fronted(units[close + 1 :])]
    return units


_OPENING = frozenset(["and", "but", "then", "so", ",", ";", ":", "finally", "next"])


def _without_asides(units: list[Unit]) -> tuple[list[Unit], list[list[Unit]]]:
    """`The planner (it may use list_files) lists …` without what the brackets say of the agent."""
    texts = [u.text for u in units]
    for end, text in enumerate(texts):
        if text == "," and _uses(texts[:end]) and texts[end + 1 : end + 2] != []:
            if not texts[end + 1].startswith("@"):
                break
            used = [u for u in units[:end] if u.text[0] in "#$" or u.text in {"and", ","}]
            uses = Unit("uses", units[0].start, units[0].end)
            led = [u for u in units[:end] if u.text in {"then", "next", "first", "finally"}]
            return [*led, *units[end + 1 :]], [[units[end + 1], uses, *used]]
    if "(" not in texts or ")" not in texts:
        return units, []
    begin, end = texts.index("("), texts.index(")")
    inner = units[begin + 1 : end]
    follows = texts[end + 1 : end + 2]
    if not begin or not texts[begin - 1].startswith("@") or len(inner) < 2:
        return units, []
    if not follows or not follows[0][0].isalpha() or not any(u.text[0] in "#$~" for u in inner):
        return units, []
    while inner[0].text in {"it", "she", "he", "who", "which", "and", "that"} and len(inner) > 1:
        inner = inner[1:]
    return [*units[:begin], *units[end + 1 :]], [[units[begin - 1], *inner]]


_ASIDE = re.compile(
    r"(?:(?:so|honestly|then|and|first|well|ok|,) )*(?:someone|somebody|one (?:agent|person|of them|of you))"
    r"(?P<first> .*?)? ?,? (?:let us |we |we will |i |i will )?(?:just )?call (?:it|him|her|them|that one|this one|that|this) (?P<name>@[0-9]+)(?P<last>.*)"
)


def _named_aside(units: list[Unit]) -> list[Unit]:
    """`Someone, call it the writer, drafts …` with the name in the place of `someone`."""
    phrase = Phrase(units)
    if " call " not in phrase.text or (found := _ASIDE.fullmatch(phrase.text)) is None:
        return units
    name = phrase.group(found, "name").units
    first, last = phrase.group(found, "first").units, phrase.group(found, "last").units
    if last and last[0].text == ",":
        last = last[1:]
    return [*name, *first, *last]


def _strangers(state: State) -> None:
    """Names that are nearly those of known agents, and agents that the registry does not want."""
    known = state.roster.agents
    for slip in state.roster.slips:
        state.remark(
            "unknown_agent",
            f"there is no agent {slip.name!r}",
            [slip.words],
            f"Did you mean {slip.meant!r}?",
            severity="error",
        )
    for stranger in state.roster.strangers:
        offered = [*state.registry.agents]
        state.remark(
            "unknown_agent",
            f"there is no agent {stranger.name!r}, and this registry takes no new ones",
            [stranger.words],
            did_you_mean(
                stranger.name,
                offered,
                f"It has {', '.join(sorted(offered)[:12])}." if offered else "",
            ),
            severity="error",
        )
    del known


def _unclear(state: State, sentence: Sentence) -> None:
    """`the analyst`, where there are several."""
    tokens = sentence.tokens
    for at, token in enumerate(tokens):
        if token.text in {"the", "that"} and at + 1 < len(tokens):
            key = tokens[at + 1].key
            follows = tokens[at + 2].key if at + 2 < len(tokens) else ""
            names = state.roster.unclear.get(key)
            if names and f"{key}_{follows}" not in state.roster.keys:
                words = Words(start=token.start, end=tokens[at + 1].end)
                state.remark(
                    "unknown_agent",
                    f"{key!r} may be any of {', '.join(names)}",
                    [words],
                    f"Say which, e.g. {names[0]!r}.",
                    severity="error",
                )


def _asked_before(state: State) -> None:
    """What is waited for before the operator starts is the operator's step where none is said."""
    out: list[AnyStatement] = []
    working = set(state.ever)
    for statement in state.statements:
        out.append(statement)
        if (
            isinstance(statement, Ask | Pause)
            and statement.before
            and statement.before not in working
        ):
            working.add(statement.before)
            part = Part(agent=statement.before, task=state.tasks.get(statement.before, ""))
            out.append(Step(parts=(part,), words=statement.words))
    state.statements = out


def _needs_left(state: State) -> None:
    """Needs of agents that no step was said of."""
    for name, tools in state.needs.items():
        words = state.waiting_needs[name]
        state.remark(
            "not_understood",
            f"{name!r} has no step that could need {', '.join(tools)}",
            words,
            "Say what it does.",
        )
