"""Tools that tasks speak of: those that nobody offers, and those that nobody was given.

Saying what an agent does gives it nothing. That it lacks the tool to do it is said here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from crewlog.prompt.ast import Allow, Cast, Deny, Does, Step, Trait, Words
from crewlog.prompt.grammar.lexicon import FUNCTION, known_verb, word_set
from crewlog.prompt.grammar.phrase import Unit
from crewlog.prompt.grammar.remedies import bounded
from crewlog.prompt.grammar.state import State
from crewlog.prompt.registry import offered_tools

_MAY = frozenset(["may", "can", "could", "allowed", "permitted"])
_BY = frozenset(["use", "uses", "using", "has", "via", "with"])
"""What a tool's name may stand behind."""
_NO_TOOL = word_set(
    "access care ease style pride skill love passion flair wit tact help time room respect detail"
    " code data text evidence input english context prose research feedback support plain"
    " everything something anything nothing everyone nobody each both more less"
)
_MANNER = ("ness", "ity", "ion", "ence", "ance", "ment", "ism", "our", "ship", "cy", "ure", "ry",
           "ny", "ing", "ed")  # fmt: skip
"""How words end that say how something is done: `with precision`."""
_ENDS = frozenset([",", ";", ":", "–", "(", ")", "and", "or", "to", "for", "then", "but", "when"])


def look_for_tools(state: State) -> None:
    """Reports tools of tasks that are not offered, and those that the agents have not got."""
    starts = [unit.start for unit in state.units]
    seen: set[int] = set()
    for statement in list(state.statements):
        if isinstance(statement, Cast):
            _only_listed(state, statement, starts)
        if not isinstance(statement, Step | Trait) or not statement.words:
            continue
        agents = _agents(statement)
        for words in statement.words:
            first = bisect_left(starts, words.start)
            units = state.units[first : bisect_left(starts, words.end)]
            if not units or units[0].start in seen:
                continue
            seen.add(units[0].start)
            _not_offered(state, units)
            _not_given(state, units, agents)
            _not_kept(state, units, agents)


def _only_listed(state: State, cast: Cast, starts: Sequence[int]) -> None:
    """Reports a tool beside agents that are listed, of which nothing is made: `hands off T, A`."""
    for words in cast.words:
        units = state.units[bisect_left(starts, words.start) : bisect_left(starts, words.end)]
        if any(unit.text[0] in "#$" and not _is_read(state, unit) for unit in units):
            state.not_understood(words)


def _agents(statement: Step | Trait) -> tuple[str, ...]:
    if isinstance(statement, Trait):
        return statement.agents
    return tuple(dict.fromkeys(part.agent for part in statement.parts))


# -- not given -------------------------------------------------------------------------------------


def _not_given(state: State, units: Sequence[Unit], agents: tuple[str, ...]) -> None:
    """`The scout reads the feeds`, where it was not given the tool that reads them."""
    for at, unit in enumerate(units):
        if unit.text[0] not in "#$" or not agents or _APPROVES & {u.text for u in units[:at]}:
            continue
        if any(u.text in {"not", "without", "never", "no"} for u in units[max(0, at - 2) : at]):
            continue
        tool = state.roster.tools[int(unit.text[1:])]
        if any(_settled(state, agent, tool) for agent in agents):
            continue
        words = Words(start=unit.start, end=unit.end)
        named = agents[0].replace("_", " ")
        remedy = f"If it is to call the tool, say 'The {named} may use {tool}.'"
        if {u.text for u in units[:at]} & _MAY and at + 1 < len(units):
            remedy = bounded(named, tool)
        state.remark(
            "assumed",
            f"{state.shown(words)!r} is only what {agents[0]!r} is told: nothing gives it {tool!r}",
            [words],
            remedy,
        )


def _not_kept(state: State, units: Sequence[Unit], agents: tuple[str, ...]) -> None:
    """`Its publishing has to be okayed by carla`, `it reads but does not publish`: nothing keeps it."""
    tools = [at for at, unit in enumerate(units) if unit.text[0] in "#$"]
    bound = next((unit for unit in units if unit.text in _BOUNDS), None)
    for at in tools:
        tool = state.roster.tools[int(units[at].text[1:])]
        asked = bound is not None and bound.text in _APPROVES
        if not any(_has(state, agent, tool) for agent in ((*state.ever,) if asked else agents)):
            continue
        before = next((u for u in units[max(0, at - 2) : at] if u.text in _NOT), None)
        may = {u.text for u in units[max(0, at - 3) : at]} & _MAY
        told = before or bound or (units[-1] if may and at + 1 < len(units) else None)
        if told is None or _is_read(state, units[at]):
            continue
        words = Words(start=min(told.start, units[at].start), end=max(told.end, units[at].end))
        named = agents[0].replace("_", " ")
        state.remark(
            "not_understood",
            f"{state.shown(words)!r} is only what {agents[0]!r} is told: it keeps it from nothing",
            [words],
            f"Say 'The {named} may not use {tool}.' or 'Ask me before the {named} uses {tool}.'",
        )
        return


_APPROVES = word_set("approve approved okay okayed confirm confirmed authorise authorised cleared")
"""What one agent may be to do for the calls of others."""
_NOT = frozenset(["not", "never", "without", "no", "hands"])
_BOUNDS = word_set(
    "approval approve approved okay okayed permission consent confirm confirmed authorised authorise "
    "sign-off signed cleared limit limited quota allowance times supervision"
)
"""Words that bound calls, where something is read that bounds them."""


def _is_read(state: State, unit: Unit) -> bool:
    """Whether a rule or a right was read of a mention."""
    return any(
        words.start <= unit.start < words.end
        for said in state.statements
        if not isinstance(said, Step | Trait | Cast)
        for words in said.words
    )


def _has(state: State, agent: str, tool: str) -> bool:
    """Whether an agent is given a tool."""
    offered = state.registry.agents.get(agent)
    if offered is not None and tool in (offered.tools or ()):
        return True
    return any(
        isinstance(said, Allow | Does) and tool in said.tools and agent in (said.agents or (agent,))
        for said in state.statements
    )


def _settled(state: State, agent: str, tool: str) -> bool:
    """Whether the prompt or the registry says who may use a tool, or that an agent may not."""
    offered = state.registry.agents.get(agent)
    if offered is not None:
        return True  # it has what the registry gives it, and no more
    return any(
        isinstance(said, Allow | Deny | Does)
        and tool in said.tools
        and agent in (said.agents or (agent,))
        for said in state.statements
    )


# -- not offered -----------------------------------------------------------------------------------


def _not_offered(state: State, units: Sequence[Unit]) -> None:
    """`Drafts with Grammarly`, `uses the mail tool and drafts`."""
    for at, unit in enumerate(units):
        if unit.text not in _BY:
            continue
        marked = _called_a_tool(units, at + 1)
        for name in marked or _names(state, units, at + 1):
            sure = bool(marked) or "_" in name.text
            words = Words(start=name.start, end=name.end)
            missing = f"the registry offers no tool {state.shown(words)!r}"
            state.remark(
                "unknown_tool" if sure else "assumed",
                missing if sure else f"{missing}: it was read as part of what an agent is told",
                [words],
                offered_tools(state.registry),
                severity="error" if sure else "warning",
            )


def _called_a_tool(units: Sequence[Unit], at: int) -> list[Unit]:
    """`The frobnicate tool`."""
    texts = [u.text for u in units[at : at + 4]]
    if texts[:1] not in (["the"], ["a"], ["an"]) or "tool" not in texts[2:]:
        return []
    words = units[at + 1 : at + texts.index("tool", 2)]
    if any(u.text[0] in "@#$~" or u.text in FUNCTION for u in words):
        return []
    return [Unit(" ".join(u.text for u in words), words[0].start, words[-1].end)]


def _names(state: State, units: Sequence[Unit], at: int) -> Iterator[Unit]:
    """Bare names, one or several: `Slack and Jira`."""
    found: list[Unit] = []
    while at < len(units) and _may_name(state, units[at], units[at - 1].text):
        found.append(units[at])
        at += 1
        joined = at < len(units) - 1 and units[at].text in {",", "and", "or"}
        if not joined or not _may_name(state, units[at + 1], units[at].text):
            break
        if known_verb(units[at + 1].text):
            break
        at += 1
    if at >= len(units) or units[at].text in _ENDS:
        yield from found


def _may_name(state: State, unit: Unit, before: str) -> bool:
    """Whether a word may be the name of a tool, and not of a manner or of some things."""
    text = unit.text
    if len(text) < 3 or text[0] in "@#$~" or text in FUNCTION or text in _NO_TOOL:
        return False
    if "_" in text or state.text[unit.start].isupper():
        return before != "has" or "_" in text or not known_verb(text)
    return not text.endswith((*_MANNER, "s")) and text.isalpha() and not known_verb(text)
