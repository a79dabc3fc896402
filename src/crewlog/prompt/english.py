"""A definition in English: the sentences that a prompt would have said it with.

For people who look at a crew (`crewlog crews show --english`) or approve one, and as the way back:
the grammar reads these sentences to the same definition. What no sentence can say is named by
`expressible`, so that nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.prompt import ast
from crewlog.prompt.english_authority import authority_sentence
from crewlog.prompt.phrases import (
    a,
    before_clause,
    bound,
    condition,
    counted,
    does,
    heading,
    lasting,
    moment,
    named,
    plural,
    sentence,
    the,
    things,
    unless_or_if,
    value,
)
from crewlog.prompt.registry import Registry
from crewlog.prompt.saying import Said, say

_LAST = {
    "ask_human": "otherwise ask me",
    "end": "otherwise give up",
    "fail": "otherwise fail",
    "next": "otherwise go on",
}
_THEN = ("then", "finally")
_ON_ERROR = {"ask": "ask me", "fail": "stop", "continue": "continue without it"}


def to_english(definition: CrewDefinition, registry: Registry | None = None) -> str:
    """A definition as controlled English in Markdown.

    Args:
        definition: A valid definition.
        registry: What stands in it is not said again: its agents' prompts and tools, its limits.
    """
    return in_english(say(definition, registry))


def expressible(definition: CrewDefinition, registry: Registry | None = None) -> list[str]:
    """What `to_english` cannot say of a definition, a line each; empty where it says everything.

    Texts that come back in other words (prompts written by hand, tasks, questions, descriptions)
    are not in it: `other_words` names them.
    """
    return say(definition, registry).unsaid


def other_words(definition: CrewDefinition, registry: Registry | None = None) -> list[str]:
    """Texts of a definition that its English does not keep word for word, a line each."""
    return say(definition, registry).unsaid_words


def in_english(said: Said) -> str:
    """Statements as Markdown: the crew's name, who is in it, the work, and the rules as a list."""
    parts = [f"# {heading(said.crew)}"]
    if len(said.cast) > 1:
        cast = listed(a(name) for name in said.cast)
        parts.append(f"There are {counted(len(said.cast))} agents: {cast}.")
    work = _Work()
    parts.append("\n".join(work.sentences(said.work)))
    if said.rules:
        rules = _together(said.rules)
        parts.append("\n".join(f"- {sentence(text)}" for rule in rules for text in _rule(rule)))
    return "\n\n".join(part for part in parts if part) + "\n"


class _Work:
    """The order of the work, a sentence for each statement."""

    def __init__(self) -> None:
        self.first = True

    def sentences(self, work: Sequence[ast.AnyStatement]) -> list[str]:
        """The sentences, in order."""
        out: list[str] = []
        for i, said in enumerate(work):
            final = i == len(work) - 1 and i > 0
            out.append(sentence(self._said(said, "finally" if final else "then")))
            if isinstance(said, ast.Step | ast.Use | ast.Pause) or (
                isinstance(said, ast.Ask) and not said.before
            ):
                self.first = False
        return out

    def _said(self, said: ast.AnyStatement, then: str) -> str:
        match said:
            case ast.Step():
                return self._step(said, then)
            case ast.Back():
                return self._back(said)
            case ast.Stop():
                return f"{unless_or_if(said.condition)}, stop"
            case ast.Ask():
                return self._ask(said, then)
            case ast.Use():
                lead, *workers = said.agents
                lead_in = "" if self.first else f"{then}, "
                most = bound(said.options.get("at_most", 10))
                choice = listed((the(name) for name in workers), "or")
                return f"{lead_in}{the(lead)} decides who works next: {choice} ({most})"
            case ast.Pause():
                return self._pause(said, then)
            case ast.Within():
                return _within(said)
            case ast.Join():
                return f"wait for {_whom(said.waits)}"
            case _:
                return ""

    def _step(self, said: ast.Step, then: str) -> str:
        lead = self._lead(said, then)
        head = said.parts[0]
        one = all(part.model_copy(update={"agent": head.agent}) == head for part in said.parts)
        plain = head.only_if is None and head.for_each is None and not head.task
        if len(said.parts) > 1 and one and plain:
            return f"{lead}{named([p.agent for p in said.parts])} work in parallel{_needs(head)}"
        clauses = [self._part(part) for part in said.parts]
        text = lead + clauses[0]
        for part, clause in zip(said.parts[1:], clauses[1:], strict=True):
            chained = part.otherwise or _branch(said, part)
            text += f"; {clause}" if chained else f"; at the same time, {clause}"
        return text

    def _part(self, part: ast.Part) -> str:
        lead = ""
        if part.otherwise:
            lead = "otherwise "
        elif part.only_if is not None:
            lead = f"{unless_or_if(part.only_if)}, "
        if part.for_each is not None:
            maker = f"{the(part.maker)}'s " if part.maker else ""
            lead += f"for each of {maker}{things(part.for_each)}, "
        return f"{lead}{does(the(part.agent), part.task)}{_needs(part)}"

    def _lead(self, said: ast.Step, then: str) -> str:
        """`Then, once the models are ready, `."""
        clauses: list[str] = []
        if said.start:
            clauses.append("from the start")
        if said.after is not None:
            clauses.append(before_clause(said.after))
        if said.ready is not None:
            clauses.append(f"once {condition(said.ready)}")
        follows = said.then or (said.after is None and said.ready is None and not said.start)
        if follows and not self.first:
            clauses.insert(0, then)
        elif self.first and not clauses:
            clauses.insert(0, "first")
        elif said.again and not follows:
            return f"{' and '.join(clauses)}, again "
        text = clauses[0]
        for clause in clauses[1:]:
            text += f", {clause}" if text in _THEN else f" and {clause}"
        part = said.parts[0]
        bare = clauses[-1] in _THEN and part.only_if is None and part.for_each is None
        return f"{text} " if bare else f"{text}, "

    def _back(self, said: ast.Back) -> str:
        most = f", {bound(said.at_most)}" if said.at_most is not None else ""
        last = f", {_LAST[said.otherwise]}" if said.otherwise is not None else ""
        return f"{unless_or_if(said.condition)}, go back to {the(str(said.to))}{most}{last}"

    def _pause(self, said: ast.Pause, then: str) -> str:
        how = (
            f"wait until {moment(said.until)}" if said.until else f"wait {lasting(said.wait or 0)}"
        )
        if said.before is not None:
            return f"{how} before {the(said.before)} starts"
        beside = "meanwhile" if said.place == "beside" else ""
        if said.only_if is not None:
            return f"{f'{beside}, ' if beside else ''}{unless_or_if(said.only_if)}, {how}"
        lead = "meanwhile," if beside else "first" if self.first else then
        return f"{lead} {how}"

    def _ask(self, said: ast.Ask, then: str) -> str:
        reject = f". If I reject it, back to {the(said.reject_to)}" if said.reject_to else ""
        if said.before is not None:
            return f"ask me before {the(said.before)} starts{reject}"
        if said.only_if is not None:
            lead = f"{unless_or_if(said.only_if)}, "
        else:
            lead = "" if self.first else f"{then} "
        if said.after is not None:
            lead = f"after {the(said.after)} finishes, {lead if said.only_if else ''}"
        return f"{lead}ask me{_whether(said)}{reject}"


def _within(said: ast.Within) -> str:
    if said.takes_over is not None:
        then = does(the(said.takes_over.agent), said.takes_over.task)
    else:
        then = {"skip": "skip it"}.get(str(said.otherwise), "ask me")
    if said.agent is None and said.ready is not None:
        return f"unless {condition(said.ready)} within {lasting(said.wait)}, {then}"
    return f"{the(str(said.agent))} waits for that at most {lasting(said.wait)}; otherwise {then}"


def _whether(said: ast.Ask) -> str:
    return "" if said.only_if is not None else " whether to go on"


def _branch(step: ast.Step, part: ast.Part) -> bool:
    """Whether a part is another branch of one condition, told apart by its last branch."""
    return part.only_if is not None and step.parts[-1].otherwise


def _needs(part: ast.Part) -> str:
    if not part.needs:
        return ""
    return f", but only if {listed(part.needs)} {'is' if len(part.needs) == 1 else 'are'} available"


def _whom(waits: ast.Waits) -> str:
    whom = named(waits.of) if waits.of else "them"
    if waits.join == "all":
        return whom if waits.of else "all of them"
    count = "any" if waits.join == "any" else counted(int(waits.join))
    return f"{count} of {whom}"


def _together(rules: Sequence[ast.AnyStatement]) -> list[ast.AnyStatement]:
    """Rules that differ in the agent alone, as one."""
    out: list[ast.AnyStatement] = []
    for rule in rules:
        for i, other in enumerate(out):
            if _alike(rule, other):
                both = (*other.agents, *rule.agents)  # type: ignore[union-attr]
                out[i] = other.model_copy(update={"agents": both})
                break
        else:
            out.append(rule)
    return out


def _alike(rule: ast.AnyStatement, other: ast.AnyStatement) -> bool:
    kinds = (ast.Gate, ast.OnError, ast.Switch, ast.UseModel, ast.Sees)
    if not isinstance(rule, kinds) or type(rule) is not type(other) or not rule.agents:
        return False
    if isinstance(rule, ast.Sees) and not (rule.hidden and not rule.whose):
        return False
    if isinstance(rule, ast.Gate) and rule.below is not None:
        return False
    nobody: dict[str, tuple[str, ...]] = {"agents": ()}
    return rule.model_copy(update=nobody) == other.model_copy(update=nobody)


def _rule(said: ast.AnyStatement) -> list[str]:  # noqa: C901 - a table of the rules
    match said:
        case ast.Trait():
            return [_trait(said)]
        case ast.Allow(agents=who, tools=tools, only=only):
            whom = named(who) if who else "everyone"
            return [f"{'only ' if only else ''}{whom} may use {listed(tools)}"]
        case ast.Deny(agents=who, tools=tools):
            whom = f"{named(who)} may not" if who else "nobody may"
            return [f"{whom} use {listed(tools)}"]
        case ast.AskTool(agents=who, tools=tools):
            if not who:
                return [f"ask me before anyone uses {tool}" for tool in tools]
            return [f"ask me before {the(name)} uses {tool}" for tool in tools for name in who]
        case ast.Gate(agents=who, below=below):
            if below is None:
                asks = "asks" if len(who) == 1 else "ask"
                return [f"when unsure, {named(who)} {asks} a human"]
            return [f"if {the(name)}'s confidence is below {value(below)}, ask me" for name in who]
        case ast.Sees():
            return [_sight(said)]
        case ast.Inside(agent=name, use=use, options=options):
            if use == "planner_executor":
                return [f"{the(name)} plans first, then carries the plan out"]
            return [f"{the(name)} reviews its own work, {bound(options['rounds'])}"]
        case ast.OnError(agents=who, policy=policy):
            return [f"if {the(name)} fails, {_ON_ERROR[policy]}" for name in who]
        case ast.Switch(agents=who, enabled=on):
            are = "are" if len(who) > 1 else "is"
            return [f"{named(who)} {are} switched {'on' if on else 'off'} for now"]
        case ast.Limit(what=what, most=most):
            if what == "steps":
                return [f"at most {most} steps"]
            return [f"no more than {most} at a time"]
        case ast.UseModel(agents=who, model=model):
            model = model.removeprefix("openai:")
            return [
                f"{named(who) if who else 'every agent'} {plural('uses', who)} the model {model}"
            ]
        case _:
            text = authority_sentence(said)
            return [text] if text else []


def _sight(said: ast.Sees) -> str:
    who = named(said.agents)
    if not said.whose:
        return f"{who} {plural('works', said.agents)} blind"
    whose = listed(f"{the(name)}'s" for name in said.whose)
    if said.hidden:
        return f"{who} may not see {whose} work"
    return f"only {who} {plural('sees', said.agents)} {whose} notes"


def _trait(said: ast.Trait) -> str:
    """A sentence of an agent's prompt, said of the agent or to it."""
    text = said.text.strip().rstrip(".")
    who = named(said.agents) if said.agents else "every agent"
    first = text.split(" ", 1)[0].lower()
    if first in {"should", "must", "is", "has", "never", "always", "keeps", "will", "can"}:
        return f"{who} {text}"
    if text.lower().startswith(f"{who} ".lower()) or text.lower().startswith(
        ("all agents ", "every")
    ):
        return text
    if first in {"you", "your"}:
        return f"{who.removeprefix('the ')}, {text[:1].lower()}{text[1:]}"
    return f"{who}: {text}"
