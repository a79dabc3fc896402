"""How agents work inside their turn: plans, reviews of their own work, and who leads whom."""

from __future__ import annotations

from crewlog.prompt.ast import Inside, Use
from crewlog.prompt.grammar.frames import Frame, frames, noun, tokens
from crewlog.prompt.grammar.phrase import Phrase
from crewlog.prompt.grammar.rules import doer, reads_first, said, words_of
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.verbs import CHOOSE, LEAD, REVIEW, WORK

_OWN = frozenset(["its", "his", "her", "their"])
_PRODUCT = frozenset(
    [
        "work",
        "draft",
        "output",
        "result",
        "answer",
        "text",
        "code",
        "version",
        "drafts",
        "results",
        "answers",
        "report",
        "own",
        "piece",
        "translation",
        "summary",
        "writing",
        "conclusions",
        "findings",
        "plan",
        "proposal",
        "copy",
    ]
)
_HOW = frozenset(
    [
        "again",
        "critically",
        "carefully",
        "first",
        "twice",
        "itself",
        "himself",
        "herself",
        "themselves",
        "it",
        "improves",
        "revises",
        "and",
        "rounds",
        "every",
        "time",
        "thoroughly",
        "once",
        "over",
        "corrects",
        "fixes",
        "before",
        "handing",
        "on",
    ]
)


def _one(state: State, frame: Frame) -> str:
    """The one agent of a frame; empty where there are several, or none."""
    who = doer(state, frame)
    if who is None or who.only or len(who.agents) != 1:
        return ""
    return who.agents[0]


@reads_first
def review_loop(state: State, frame: Frame) -> bool:
    """`The coder reviews its own work, at most 2 times`."""
    if frame.verb not in REVIEW or frame.negated or frame.modal in {"may", "want"}:
        return False
    words = list(frame.object.words)
    if "about" in frame.args:  # "looks over its own work", "reflects on it"
        words += frame.args["about"].text.split()
    behind = frame.args.get("before")
    if behind is not None and any(sign in behind.text for sign in "@#$~"):
        return False
    if not frame.takes("about", "before") or frame.object.tools or frame.object.agents:
        return False
    own = [w for w in words if w in _OWN]
    products = [w for w in words if w in _PRODUCT | WORK]
    rest = {*words} - _OWN - _PRODUCT - WORK - _HOW
    if not own or not products or rest or ("own" not in words and len(words) > 3):
        return False
    agent = _one(state, frame)
    if not agent:
        return False
    state.subject = (agent,)
    options = {"rounds": frame.most} if frame.most else {}
    made = Inside(agent=agent, use="review_loop", options=options, words=words_of(frame))
    return said(state, made)


_PLANS = frozenset(
    [
        "devise",
        "prepare",
        "create",
        "develop",
        "plan",
        "draw",
        "make",
        "draft",
        "write",
        "set",
        "sketch",
    ]
)
_FIRST = frozenset(
    [
        "first",
        "ahead",
        "a",
        "plan",
        "up",
        "out",
        "of",
        "its",
        "his",
        "her",
        "their",
        "work",
        "action",
        "it",
        "the",
        "everything",
        "steps",
        "own",
    ]
)
_CARRIES = frozenset(
    [
        "carry",
        "execute",
        "follow",
        "implement",
        "put",
        "perform",
        "fulfil",
        "realise",
        "realize",
        "work",
        "act",
        "do",
        "go",
        "step",
    ]
)
_THROUGH = frozenset(
    [
        "the",
        "its",
        "that",
        "this",
        "his",
        "her",
        "plan",
        "it",
        "them",
        "out",
        "through",
        "into",
        "action",
        "practice",
        "step",
        "by",
        "steps",
        "accordingly",
        "on",
        "afterwards",
        "to",
        "letter",
        "one",
        "after",
        "other",
        "from",
        "there",
    ]
)


def plan_and_execute(state: State, phrase: Phrase) -> bool:
    """`The writer plans first, then carries the plan out`."""
    if "plan" not in phrase.text or len(phrase.units) > 40:
        return False
    found = frames(phrase)
    if not found or not _plans(found[0]):
        return False
    if len(found) == 1:
        behind = found[0].args.get("before")
        found = [*found, *(frames(behind) if behind is not None else [])]
    agent = _one(state, found[0])
    if len(found) != 2 or not agent or not _carries_out(state, found[1], agent):
        return False
    state.subject = (agent,)
    return said(state, Inside(agent=agent, use="planner_executor", words=(phrase.words,)))


def _plans(frame: Frame) -> bool:
    if frame.verb not in _PLANS or frame.negated or frame.modal in {"may", "want"} or frame.most:
        return False
    if not frame.takes("about", "before", "for") or frame.object.agents or frame.object.tools:
        return False
    words = {*frame.object.text.split()}
    for name in {"about", "for"} & {*frame.args}:
        words |= {*frame.args[name].text.split()}
    return words <= _FIRST and ("plan" in words or frame.verb == "plan")


def _carries_out(state: State, frame: Frame, agent: str) -> bool:
    if frame.verb not in _CARRIES or frame.negated or not frame.takes("about", "by"):
        return False
    words = {*frame.object.text.split()}
    for inside in frame.args.values():
        words |= {*inside.text.split()}
    mine = not frame.subject or frame.subject.pronoun in {"it", "they"}
    mine = mine or _one(state, frame) == agent
    return mine and words <= _THROUGH and not frame.object.tools and not frame.object.agents


_WHO = frozenset(
    [
        "who",
        "which",
        "whose",
        "turn",
        "agent",
        "one",
        "is",
        "to",
        "should",
        "shall",
        "may",
        "gets",
        "has",
        "works",
        "work",
        "goes",
        "go",
        "acts",
        "act",
        "comes",
        "come",
        "speaks",
        "speak",
        "next",
        "up",
        "on",
        "in",
        "of",
        "them",
        "specialist",
        "takes",
        "over",
        "the",
        "floor",
        "moves",
        "move",
        "step",
        "time",
        "each",
        "round",
        "every",
        "runs",
        "run",
        "from",
        "among",
        "amongst",
        "between",
        "out",
        "either",
        "whether",
        "it",
        "be",
        "called",
        "does",
        "something",
        ":",
        "(",
        ")",
        "–",
        ",",
    ]
)


@reads_first
def supervisor(state: State, frame: Frame) -> bool:
    """`The lead decides who works next: writer, editor or checker`."""
    if frame.negated or frame.modal in {"may", "want"} or frame.passive:
        return False
    agent = _one(state, frame)
    if not agent:
        return False
    thing = frame.object
    parts = list(thing.tokens)
    for inside in frame.args.values():
        parts += tokens(inside)
    workers = noun(parts)
    if not workers.agents or workers.tools or workers.quantifier:
        return False
    words = [t.text for t in parts if t.kind not in {"agent", "and", "only"}]
    chooses = frame.verb in CHOOSE and {"next", "turn"} & {*words} and {*words} <= _WHO
    leads = frame.verb in LEAD and {*words} <= _LED and _leads(frame, words)
    named = tuple(n for n in state.names(workers.agents.text) if n != agent)
    if not (chooses or leads) or not named or (leads and len(named) < 2):
        return False
    return _supervise(state, frame, agent, named)


_LED = frozenset(
    [
        "to",
        "work",
        "out",
        "the",
        "of",
        "tasks",
        "among",
        "in",
        "as",
        "needed",
        "it",
        "sees",
        "fit",
        "necessary",
        "required",
        "on",
        "between",
    ]
)


def _leads(frame: Frame, words: list[str]) -> bool:
    """`Delegates to`, `supervises`, and not `hands over to`, which passes the work on."""
    if frame.verb in {"supervise", "manage", "coordinate", "oversee", "lead", "orchestrate"}:
        return not frame.args and not words
    if frame.verb == "delegate":
        return "to" in frame.args
    return {"work", "tasks"} & {*words} and bool({"to", "about"} & {*frame.args})  # type: ignore[return-value]


def _supervise(state: State, frame: Frame, agent: str, named: tuple[str, ...]) -> bool:
    options: dict[str, object] = {"supervisor": agent, "workers": list(named)}
    if frame.most:
        options["at_most"] = frame.most
    state.worked, state.subject = (agent, *named), (agent,)
    made = {
        "use": "supervisor",
        "options": options,
        "agents": (agent, *named),
        "words": words_of(frame),
    }
    return said(state, Use.model_validate(made))
