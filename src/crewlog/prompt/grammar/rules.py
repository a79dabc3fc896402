"""Rules: sentences that hold for the whole run, whatever the order.

A window of a sentence is read as frames (`grammar.frames`), and each frame by the first rule that
takes all of it; a window of which one frame is left over is none. This module has the machinery and
the rights to tools; `sight`, `inside`, `conduct` and `people` have the other rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from crewlog.definition.findings import listed, suggestion
from crewlog.prompt.ast import Allow, AnyStatement, Deny, Step, Words
from crewlog.prompt.grammar.frames import Frame, Noun, Token, frames, noun, tokens
from crewlog.prompt.grammar.phrase import Phrase
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.verbs import USE
from crewlog.prompt.registry import offered_tools

Reader = Callable[[State, Phrase], bool]
Table = list[Reader]
FrameRule = Callable[[State, Frame], bool]

LONGEST = 80
"""Units of a window; what is longer is no rule that anybody wrote."""
FRAME_RULES: list[FrameRule] = []
"""In the order in which they are asked; what is more particular stands first."""
SINGLE_RULES: list[FrameRule] = []
"""For windows of one segment only, because they take words of any kind."""


def reads(made: FrameRule) -> FrameRule:
    """Puts a rule into the table, behind those that are there."""
    FRAME_RULES.append(made)
    return made


def reads_first(made: FrameRule) -> FrameRule:
    """Puts a rule into the table, before those that are there."""
    FRAME_RULES.insert(0, made)
    return made


def reads_alone(made: FrameRule) -> FrameRule:
    """Puts a rule into the table of those for one segment."""
    SINGLE_RULES.append(made)
    return made


def apply(state: State, phrase: Phrase, table: Sequence[Reader]) -> bool:
    """Whether a reader of a table reads a whole phrase."""
    return any(read(state, phrase) for read in table)


_KEPT = 8
"""Statements before the window that a rule may change."""


@dataclass(slots=True)
class _Memory:
    """What the reader knew before a window, to forget what half a window said."""

    statements: int
    tail: list[AnyStatement]
    remarks: int
    subject: tuple[str, ...]
    worked: tuple[str, ...]
    tools: tuple[str, ...]
    touched: bool

    @classmethod
    def of(cls, state: State) -> _Memory:
        """Remembers."""
        return cls(
            len(state.statements),
            state.statements[-_KEPT:],
            len(state.remarks),
            state.subject,
            state.worked,
            state.tools,
            state.touched,
        )

    def restore(self, state: State) -> None:
        """Forgets what came since."""
        del state.statements[self.statements :]
        state.statements[max(0, self.statements - _KEPT) :] = self.tail
        del state.remarks[self.remarks :]
        state.subject, state.worked, state.tools = self.subject, self.worked, self.tools
        state.touched = self.touched


def _by_frames(state: State, phrase: Phrase, table: Sequence[FrameRule]) -> bool:
    if len(phrase.units) > LONGEST:
        return False
    found = frames(phrase)
    if not found:
        return False
    if len(found) == 1:
        found = [replace(found[0], phrase=phrase)]
    before = _Memory.of(state)
    for frame in found:
        if not any(rule(state, frame) for rule in table):
            before.restore(state)
            return False
    for made in state.statements[before.statements :]:
        if made.kind == "use":
            state.ever.update(made.agents)
    return True


def _in_windows(state: State, phrase: Phrase) -> bool:
    return _by_frames(state, phrase, FRAME_RULES)


def _in_segments(state: State, phrase: Phrase) -> bool:
    return _by_frames(state, phrase, [*FRAME_RULES, *SINGLE_RULES])


RULES: Table = [_in_windows]
"""Read windows of several segments."""
SINGLE: Table = [_in_segments]
"""Read one segment only, because they end in words of any kind."""


# -- of whom, and of what --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Whom:
    """The agents that a rule is about."""

    agents: tuple[str, ...] = ()
    """Empty: every agent, or nobody."""
    nobody: bool = False
    excepted: tuple[str, ...] = ()
    only: bool = False
    others: bool = False
    """Nobody else, everyone else: besides those spoken of just before."""


_IDLE = frozenset(["together", "alike", "themselves", "likewise", "neither", "nor", "the"])


def whom(state: State, named: Noun) -> Whom | None:
    """The agents that a noun speaks of; none where it speaks of something else, or of nobody."""
    if set(named.words) - _IDLE or named.tools or named.models or named.things:
        return None
    if named.agents:
        nobody = named.quantifier == "none"
        if named.excepted or (nobody and named.only) or named.quantifier == "all":
            return None
        return Whom(state.names(named.agents.text), nobody=nobody, only=named.only)
    if named.quantifier:
        if "#" in named.excepted.text or "$" in named.excepted.text:
            return None
        both = named.text.startswith("neither") and len(state.subject) == 2
        return Whom(
            agents=state.subject if both else (),
            nobody=named.quantifier == "none",
            excepted=state.names(named.excepted.text),
            others=named.others,
        )
    agents = spoken_of(state, named.pronoun)
    if not agents and named.pronoun == "you":
        return Whom()  # whoever reads the prompt
    return Whom(agents, only=named.only) if agents else None


def spoken_of(state: State, pronoun: str) -> tuple[str, ...]:
    """The agents that a pronoun stands for."""
    if pronoun == "it":
        return state.subject if len(state.subject) == 1 else ()
    if pronoun == "they":
        return state.subject if len(state.subject) > 1 else state.worked
    return state.addressed if pronoun == "you" else ()


def doer(state: State, frame: Frame) -> Whom | None:
    """The agents of a frame's subject; those spoken of last where the clause has none."""
    if frame.subject:
        return whom(state, frame.subject)
    if frame.elided and not frame.verbless and state.subject:
        return Whom(state.subject, only=frame.only)
    return None


_TOOLISH = frozenset(["the", "only", "to", "got", "called", "named", "just"])


def things(state: State, named: Noun) -> tuple[str, ...]:
    """The tools that a noun names, where it names nothing else."""
    if named.agents or named.models or (named.quantifier == "all" and not named.things):
        return ()
    if set(named.words) - _TOOLISH or named.excepted:
        return ()
    if named.tools:
        return state.tool_names(named.tools.text)
    return state.tools if named.pronoun in {"it", "they"} else ()


def said(state: State, statement: AnyStatement) -> bool:
    """Adds a statement."""
    return state.say(statement)


def words_of(frame: Frame) -> tuple[Words, ...]:
    """Where a frame stands."""
    return (frame.phrase.words,)


# -- rights ----------------------------------------------------------------------------------------

_GIVES = frozenset(
    [
        "use",
        "have",
        "get",
        "need",
        "employ",
        "rely",
        "draw",
        "utilise",
        "utilize",
        "own",
        "hold",
        "keep",
        "access",
        "operate",
        "wield",
        "equip",
        "possess",
        "invoke",
        "call",
        "make",
        "share",
    ]
)
"""Verbs that give a tool without `may`. `The tester runs the tests` is what it does."""
_RUNS = frozenset(["run", "call", "invoke", "touch", "apply", "open", "execute"])


@reads
def rights(state: State, frame: Frame) -> bool:
    """`The writer may use write_file`, `nobody may deploy`."""
    if frame.verbless or frame.most or frame.modal == "want" or _not_denied(frame):
        return False
    frame = _with_tools(frame)
    who = doer(state, frame)
    named = _tools_said(state, frame)
    if named is None:
        return False
    if _CONDITIONS & {*frame.args} and frame.modal == "may" and frame.takes("for", *_CONDITIONS):
        return _not_kept(state, frame)
    if not frame.takes("for") or not _purpose(frame):
        return False
    if who is None:
        return _by_nobody(state, frame, named)
    if not _grants(frame) and not (frame.negated or who.nobody):
        return False
    return _give(state, frame, who, named)


_CONDITIONS = frozenset(["if", "when", "unless", "until", "after", "before"])


def _not_kept(state: State, frame: Frame) -> bool:
    """A right under a condition would be given whether or not it holds: it is reported."""
    words = frame.phrase.words
    state.remark(
        "not_understood",
        f"{state.shown(words)!r} cannot hold under a condition",
        [words],
        "Say 'only if …' with what an agent decides, or 'Ask me before the X uses T.'",
    )
    return True


@reads
def at_times(state: State, frame: Frame) -> bool:
    """`… but only at night`: a right cannot hold at times, and is not given for always."""
    bound = "only" in frame.adverbs or frame.only
    if not (bound and frame.verbless and frame.elided) or frame.negated:
        return False
    said_of = "".join([frame.object.text, *(inside.text for inside in frame.args.values())])
    at = state.last("allow", sentence=True)
    if at is None or not said_of or any(sign in said_of for sign in "@#$~"):
        return False
    given = state.statements.pop(at).words[0]
    words = Words(start=given.start, end=frame.phrase.words.end)
    state.remark(
        "not_understood",
        f"{state.shown(words)!r}: a tool cannot be given for some of the time",
        [words],
        "Leave it out, or say 'Ask me before the X uses T.'",
    )
    return True


def _not_denied(frame: Frame) -> bool:
    """`Need not`, which forbids nothing."""
    return frame.negated and frame.modal == "need"


_DOING = frozenset(["use", "do", "have", "run", "call", "get", "access", "touch", "be", ""])


def _with_tools(frame: Frame) -> Frame:
    """`May draw charts with draw_chart`, `works with it`, `relies on it`: the tools as object."""
    for name in ("with", "about"):
        inside = frame.args.get(name)
        if inside is None or not any(sign in inside.text for sign in "#$"):
            continue
        if name == "about" and frame.verb not in {"rely", "draw", "count"}:
            continue
        if frame.object.tools or frame.modal not in {"", "may"}:
            continue
        if not frame.modal and set(frame.object.words) - {"it", "only"}:
            continue  # "works out the rent with query_data" is what it does
        if frame.verb not in {"work", "operate", "equip"} | _DOING and not frame.modal:
            continue
        args = {k: v for k, v in frame.args.items() if k != name}
        return replace(frame, object=noun(tokens(inside)), args=args, verb="use")
    return frame


def _purpose(frame: Frame) -> bool:
    """Whether `for …` is only what for: `for that one`."""
    inside = frame.args.get("for")
    return inside is None or set(inside.text.split()) <= {"this", "that", "it", "one", "task"}


@dataclass(frozen=True, slots=True)
class _Tools:
    named: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()


def _tools_said(state: State, frame: Frame) -> _Tools | None:
    thing = frame.object
    if thing.things and frame.verb == "do":
        return None
    if (
        thing.things
        and not thing.words
        and not thing.agents
        and (not thing.tools or thing.excepted)
    ):
        if frame.negated and thing.quantifier == "all" and not thing.text.startswith("any"):
            return None  # "may not use everything" leaves open what it may use
        every = tuple(state.registry.tools)
        but = state.tool_names(thing.excepted.text)
        denies = thing.quantifier == "none"
        if thing.others or not every or (denies and frame.negated) or (but and frame.negated):
            return None
        return _Tools(tuple(t for t in every if t not in but), but)
    named = things(state, thing)
    if not named or frame.verb not in USE | _RUNS or (frame.verb == "do" and not frame.modal):
        return None
    return _Tools(named)


def _grants(frame: Frame) -> bool:
    """Whether a frame without `not` gives something, rather than saying what somebody does."""
    if frame.modal in {"may", "must", "should", "need", "will"}:
        return True
    if frame.passive:
        return frame.verb in _GIVES | _RUNS
    if "$" in frame.object.text:
        return frame.verb in _GIVES - {"call", "invoke", "make"}
    return frame.verb in _GIVES | _RUNS


def _by_nobody(state: State, frame: Frame, tools: _Tools) -> bool:
    """`deploy must not be used`, `never use deploy`."""
    if frame.subject or not frame.negated or frame.elided or tools.excepted:
        return False
    if frame.object.pronoun:
        return False
    state.tools = tools.named
    return said(state, Deny(tools=tools.named, words=words_of(frame)))


def _give(state: State, frame: Frame, who: Whom, tools: _Tools) -> bool:
    """Says who may use what, or may not."""
    none = frame.object.quantifier == "none"
    denied = (frame.negated != who.nobody) != none
    if frame.negated and (who.nobody or who.only or who.excepted or none):
        return False
    if who.others:
        return who.nobody and not none and _nobody_else(state, frame, tools)
    if denied and frame.object.things and tools.excepted:
        return False
    if who.nobody and who.excepted:
        return False
    if who.agents:
        state.subject = who.agents
    state.tools = tools.named
    words = words_of(frame)
    if denied:
        return said(state, Deny(agents=who.agents, tools=tools.named, words=words))
    only = who.only and not (frame.object.only and not frame.only)
    if tools.named:
        said(state, Allow(agents=who.agents, tools=tools.named, only=only, words=words))
    if tools.excepted:
        said(state, Deny(agents=who.agents, tools=tools.excepted, words=words))
    if who.excepted:
        said(state, Deny(agents=who.excepted, tools=tools.named, words=words))
    return True


def _nobody_else(state: State, frame: Frame, tools: _Tools) -> bool:
    """`… and nobody else may use it`: said of what was just allowed."""
    at = state.last("allow", "deny")
    if at is None or not isinstance(allow := state.statements[at], Allow):
        return False
    if not allow.agents or set(tools.named) != set(allow.tools):
        return False
    return state.replace(at, only=True, words=(*allow.words, *words_of(frame)))


@reads
def does_without(state: State, frame: Frame) -> bool:
    """`The reviewer works without deploy`, `has to do without it`."""
    inside = frame.args.get("without")
    if inside is None or frame.negated or len(frame.args) > 1 or frame.modal in {"may", "want"}:
        return False
    if frame.verb not in {"work", "do", "be", "manage", "live", "get", "make"}:
        return False
    who = doer(state, frame)
    thing = noun(tokens(inside))
    named = things(state, thing)
    idle = set(frame.object.words) <= {"its", "his", "her", "work", "job", "this", "along", "by"}
    if who is None or not who.agents or who.only or who.nobody or not thing.tools or not idle:
        return False
    state.subject, state.tools = who.agents, named
    return said(state, Deny(agents=who.agents, tools=named, words=words_of(frame)))


@reads
def nobody_else(state: State, frame: Frame) -> bool:
    """`…, and nobody else may`, `nobody else gets that one`."""
    thing = frame.object
    what = set(thing.words) <= {"one", "access", "so", "either", "do"} and not thing.tools
    if not (frame.quantifier == "none" and frame.subject.others) or frame.negated or frame.args:
        return False
    return what and not thing.agents and _nobody_else(state, frame, _Tools(state.tools))


_CLOSED = frozenset(
    [
        "off",
        "limits",
        "off-limits",
        "taboo",
        "unavailable",
        "closed",
        "bounds",
        "out",
        "of",
        "inaccessible",
        "no-go",
    ]
)
_OPEN = frozenset(
    ["available", "open", "accessible", "free", "there", "usable", "meant", "intended"]
)
_OPENS = frozenset(["allow", "permit", "mean", "intend", "enable"])
_CLOSES = frozenset(["forbid", "prohibit", "ban", "bar", "disallow", "block"])


@reads
def access(state: State, frame: Frame) -> bool:
    """`deploy is off limits for the writer`, `it is only for the writer`, `it belongs to him`."""
    named = things(state, frame.subject or frame.object)
    if not named or not frame.takes("for", "to", "by") or frame.modal in {"want", "need"}:
        return False
    inside = frame.args.get("for") or frame.args.get("to") or frame.args.get("by")
    grants = _opens(frame)
    if grants is None or len(frame.args) > 1:
        return False
    grants = grants != frame.negated
    if inside is None:
        state.tools = named
        return not grants and said(state, Deny(tools=named, words=words_of(frame)))
    whose = noun(tokens(inside))
    who = whom(state, whose)
    if who is None or who.others or (who.nobody and not grants):
        return False
    only = who.only or (who.agents and "only" in frame.adverbs)
    if not grants and (only or who.excepted):  # "off limits to everyone but the writer"
        if who.only or who.nobody or not who.excepted or only:
            return False
        state.tools = named
        who = Whom(who.excepted)
        made = Allow(agents=who.agents, tools=named, only=True, words=words_of(frame))
        return said(state, made)
    verb = replace(
        frame, negated=not grants, verb="use", object=replace(noun(()), tools=Phrase(()))
    )
    return _give(state, verb, replace(who, only=bool(only)), _Tools(named))


def _opens(frame: Frame) -> bool | None:
    """Whether the predicate opens a tool to somebody or closes it; none where it does neither."""
    words = {*frame.object.words} - {"only", "exclusively", "strictly"}
    if not frame.subject and not frame.passive:
        return None
    if frame.passive:
        return True if frame.verb in _OPENS else False if frame.verb in _CLOSES else None
    if frame.verb in {"belong", "go"} and not words:
        return True if "to" in frame.args else None
    if frame.verb != "be":
        return None
    if words and words <= _CLOSED:
        return False
    if words <= _OPEN and (words or frame.args):
        return True if "by" not in frame.args else None
    return None


@reads
def side_by_side(state: State, frame: Frame) -> bool:
    """`The writer (write_file, deploy)`, `write_file: only the writer`, `with write_file`."""
    if not frame.verbless or frame.negated or frame.most:
        return False
    inside = frame.args.get("with") or frame.args.get("for")
    if len(frame.args) > (inside is not None):
        return False
    left, right = frame.subject, frame.object
    if inside is not None:
        right = right or noun(tokens(inside))
        if right is frame.object and not (left or "for" in frame.args):
            return _bare(state, frame)
    if left and left.tools and not left.agents:
        left, right = right, left
    named = things(state, right)
    if not named or not right.tools:
        return False
    who = whom(state, left) if left else None
    if who is None:
        return not left and _bare(state, frame)
    if who.others or not _joined(frame, right):
        return False
    return _give(state, replace(frame, object=right), who, _Tools(named))


def _joined(frame: Frame, thing: Noun) -> bool:
    """Whether something joins agents and tools that stand side by side."""
    if "$" in thing.text and frame.object and frame.args:
        return False  # `the coder writes the code using write_file` is what it does
    if frame.args or "$" not in thing.text:
        return True
    text = frame.phrase.text
    return any(sign in text.split() for sign in (":", "(", "–", "->", "="))


def _bare(state: State, frame: Frame) -> bool:
    """`… (search_logs)`, after the agent."""
    inside = frame.args.get("with")
    thing = noun(tokens(inside)) if inside is not None else frame.object
    named = things(state, thing)
    if not named or not thing.tools or not state.subject or (inside is None and "$" in thing.text):
        return False
    if not _purpose(frame):
        return False
    state.tools = named
    return said(state, Allow(agents=state.subject, tools=named, words=words_of(frame)))


@reads
def tools_of(state: State, frame: Frame) -> bool:
    """`The writer's tools are write_file and deploy`."""
    owner = frame.subject
    if frame.verb not in {"be", ""} or frame.negated or frame.args or owner.agents:
        return False
    if len(owner.words) != 2 or owner.words[1] != "'s" or "tool" not in owner.text:
        return False
    named = things(state, frame.object)
    agents = state.names(owner.words[0])
    if not named or not agents:
        return False
    state.subject, state.tools = agents, named
    return said(state, Allow(agents=agents, tools=named, words=words_of(frame)))


# -- tools that must be there ----------------------------------------------------------------------

_THERE = frozenset(
    [
        "available",
        "there",
        "offered",
        "installed",
        "configured",
        "present",
        "enabled",
        "up",
        "set",
        "on",
    ]
)
_ABSENT = frozenset(["unavailable", "missing", "absent"])
_SKIPS = frozenset(["skip", "leave", "omit", "drop", "do"])


@reads_first
def needs(state: State, frame: Frame) -> bool:
    """`The narrator only if synthesize_speech is available`: of its step, wherever that stands."""
    inside = frame.args.get("if") or frame.args.get("when") or frame.args.get("unless")
    if inside is None or len(frame.args) != 1 or not any(s in inside.text for s in "#$"):
        return False
    found = frames(inside)
    if len(found) != 1:
        return False
    there = _is_there(found[0])
    named = things(state, found[0].subject or found[0].object)
    if there is None or not named:
        return False
    there = there != ("unless" in frame.args)
    if frame.verb in _SKIPS and frame.object.agents and not frame.negated:
        agents = state.names(frame.object.agents.text)
        return not there and _need(state, agents, named, frame)
    who = doer(state, frame) or (Whom(state.subject[-1:]) if not frame.subject else None)
    if who is None or not who.agents or not there or frame.object.tools:
        return False
    if "only" not in frame.adverbs and "only" not in frame.phrase.text.split():
        return False
    plain = frame.verb in _JOINS or frame.verbless
    return plain and not frame.object and _need(state, who.agents, named, frame)


_JOINS = frozenset(
    [
        "work",
        "run",
        "act",
        "join",
        "take",
        "come",
        "start",
        "participate",
        "do",
        "be",
        "use",
        "need",
    ]
)


def _is_there(frame: Frame) -> bool | None:
    words = {*frame.object.words}
    if frame.args or frame.modal:
        return None
    if frame.verb == "be" and words and words <= _THERE:
        return not frame.negated
    if frame.verb in {"offer", "install", "configure", "set", "enable"} and frame.passive:
        return not frame.negated
    return frame.negated if frame.verb == "be" and words and words <= _ABSENT else None


def _need(state: State, agents: tuple[str, ...], named: tuple[str, ...], frame: Frame) -> bool:
    if len(agents) != 1:
        return False
    for at in range(len(state.statements) - 1, max(-1, len(state.statements) - _KEPT - 1), -1):
        step = state.statements[at]
        if isinstance(step, Step) and any(p.agent == agents[0] for p in step.parts):
            parts = tuple(
                p.model_copy(update={"needs": tuple(dict.fromkeys((*p.needs, *named)))})
                if p.agent == agents[0]
                else p
                for p in step.parts
            )
            return state.replace(at, parts=parts, words=(*step.words, *words_of(frame)))
    state.needs[agents[0]] = (*state.needs.get(agents[0], ()), *named)
    state.waiting_needs[agents[0]] = words_of(frame)
    return True


# -- tools that nobody offers ----------------------------------------------------------------------


@reads_alone
def unknown_tool(state: State, frame: Frame) -> bool:
    """`The writer may use teleport`, which no registry offers: an error, never a guess."""
    found = _stranger(frame)
    if found is None:
        return False
    who = doer(state, frame)
    return refuse(state, found, who.agents if who is not None else ())


def refuse(state: State, found: Sequence[Token], agents: tuple[str, ...]) -> bool:
    """Reports a tool that is not offered."""
    name = " ".join(t.value or t.text for t in found)
    known = {t: t for t in state.registry.tools}
    for tool, offer in state.registry.tools.items():
        known.update(dict.fromkeys((tool.replace("_", " "), *offer.words), tool))
    near = suggestion(name.replace(" ", "_"), state.registry.tools) or known.get(
        suggestion(name, known), ""
    )
    remedy = f"Did you mean {near!r}?" if near else offered_tools(state.registry)
    words = Words(start=found[0].units[0].start, end=found[-1].units[-1].end)
    missing = f"the registry offers no tool {name!r}"
    if _MODEL.fullmatch(name):
        missing = f"the registry offers no tool and no model {name!r}"
        models = [m for m in (state.registry.model, *state.registry.models) if m]
        remedy = f"Its models are {listed(models)}." if models else "It offers no models."
    state.remark("unknown_tool", missing, [words], remedy, severity="error")
    if agents:
        state.subject = agents
    return True


_MODEL = re.compile(r"(?:[a-z]+:.+|[a-z]+-?[0-9][\w.-]*)")
"""Names as models have them: `gpt-5`, `o3`, `openai:gpt-5`."""


def _stranger(frame: Frame) -> list[Token] | None:
    """The words that stand where a tool's name should."""
    for named in (frame.object, frame.subject):
        for token in named.tokens:
            if token.kind == "word" and "_" in token.text:
                return [token]
    thing = [t for t in frame.object.tokens if t.kind != "only"]
    about = bool(frame.subject.agents or frame.quantifier or frame.subject.pronoun)
    if not about or not thing or frame.modal == "want":
        return None
    marked = any(t.text in {"tool", "tools"} for t in thing) or "tool" in frame.object.text.split()
    plain = [t for t in thing if t.kind == "word" and t.text not in _ARTICLES]
    if not plain or len(plain) > 4 or any(t.kind not in {"word", "sign"} for t in thing):
        return None
    if marked and frame.verb in {"use", "have", "get", "call", "access", "invoke"}:
        return plain
    granted = frame.modal == "may" and frame.verb in {"use", "access", "call", "invoke"}
    return plain if granted and "model" not in frame.object.text.split() else None


_ARTICLES = frozenset(["the", "a", "an", "tool", "tools", "any", "some"])

__all__ = ["RULES", "SINGLE", "apply", "reads", "reads_alone", "reads_first"]
