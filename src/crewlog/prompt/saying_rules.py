"""What holds throughout a crew, as statements: tools, approvals, who sees what, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewlog.authority.telling import commands
from crewlog.definition.builders import find_builder
from crewlog.definition.expand import expand
from crewlog.definition.findings import listed
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    CheckpointPolicy,
    CrewDefinition,
    Limits,
    PatternUse,
)
from crewlog.prompt import ast
from crewlog.prompt.names import agent_name, crew_name
from crewlog.prompt.saying_authority import AuthorityTeller

if TYPE_CHECKING:
    from crewlog.prompt.saying import Teller

PUBLIC = ("public",)
_SAID = {
    "prompt",
    "description",
    "model",
    "tools",
    "reads",
    "writes",
    "outputs",
    "writes_flags",
} | {
    "on_error",
    "enabled",
    "pattern",
    "ask_below",
}
"""What is said of an agent; its other fields have no words."""
_PATTERNS = ("planner_executor", "review_loop")


class RulesTeller:
    """Says the rules of a crew, once its work has been said.

    Args:
        teller: Who says the work.
    """

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._crew: CrewDefinition = teller.crew
        self._registry = teller.registry
        self._expanded = expand(teller.crew).definition
        self._authority = AuthorityTeller(teller)

    def tell(self) -> None:
        """Says everything."""
        self._of_the_crew()
        for name, agent in self._crew.agents.items():
            self._agent(name, agent)
        self._tools()
        self._permissions()
        self._approvals()
        self._sight()
        self._as_by_default()
        self._limits()

    def _add(self, said: ast.AnyStatement) -> None:
        self._teller.said.rules.append(said)

    # -- the crew --------------------------------------------------------------------------------

    def _of_the_crew(self) -> None:
        crew, said = self._crew, self._teller.said
        if crew_name(crew.crew) != crew.crew:
            self._teller.unsaid(f"the crew's name {crew.crew!r}")
        if crew.description:
            said.unsaid_words.append("the crew's description")
        self._standing()
        if crew.merge:
            self._teller.unsaid(f"how the values of {listed(sorted(crew.merge))} combine")
        if self._registry is not None:
            if crew.model != self._registry.model and crew.model is not None:
                self._add(ast.UseModel(model=crew.model))
            if crew.approval != self._registry.approval:
                self._teller.unsaid(f"who must approve it: {crew.approval}")
        elif crew.approval != CrewDefinition.model_fields["approval"].default:
            self._teller.unsaid(f"who must approve it: {crew.approval}")

    def _standing(self) -> None:
        """What holds for calls and questions, and what people write into a definition alone."""
        crew = self._crew
        self._authority.tell()
        if crew.policy is not None:
            for words in commands(crew):
                self._teller.unsaid(f"who commands its runs: {words}")
        if crew.memory is not None:
            self._teller.unsaid("what the crew remembers beyond one run")
        if crew.timezone != "UTC":
            self._teller.unsaid(f"the time zone {crew.timezone}")
        if crew.checkpoints != CheckpointPolicy():
            self._teller.unsaid("which checkpoints are kept")

    def _limits(self) -> None:
        limits = self._crew.limits
        most = self._registry.limits if self._registry is not None else Limits()
        if limits.steps != most.steps:
            self._add(ast.Limit(what="steps", most=limits.steps))
        if limits.parallel != most.parallel:
            self._add(ast.Limit(what="parallel", most=limits.parallel))
        if limits.events != most.events:
            self._teller.unsaid(f"the bound of {limits.events} events")
        self._authority.budgets(limits, most)
        for what in ("steps", "parallel"):
            if getattr(limits, what) > getattr(most, what):
                self._teller.unsaid(f"more {what} than {getattr(most, what)}")

    # -- agents ----------------------------------------------------------------------------------

    def _agent(self, name: str, agent: AgentDefinition) -> None:
        told, said = self._teller.told[name], self._teller.said
        if agent_name(name.replace("_", " ")) != name and agent_name(name) != name:
            self._teller.unsaid(f"the agent's name {name!r}")
        base = self._offered(name)
        for key, value in _others(agent).items():
            if value != _others(base).get(key):
                self._teller.unsaid(f"{key} of the agent {name!r}")
        self._authority.sure(name, agent.ask_below, base.ask_below)
        if agent.description and agent.description != base.description:
            said.unsaid_words.append(f"the description of the agent {name!r}")
        if told.loose:
            said.unsaid_words.append(f"the prompt of the agent {name!r}, word for word")
        for text in (*told.loose, *told.traits):
            self._add(ast.Trait(agents=(name,), text=text))
        if agent.model is not None and agent.model != base.model:
            self._add(ast.UseModel(agents=(name,), model=agent.model))
        if agent.pattern is not None and agent.pattern != base.pattern:
            self._pattern(name, agent.pattern)
        if agent.on_error != base.on_error or (
            agent.says("on_error") and not base.says("on_error")
        ):
            self._add(ast.OnError(agents=(name,), policy=agent.on_error))
        if agent.enabled != base.enabled:
            self._add(ast.Switch(agents=(name,), enabled=agent.enabled))
        self._decides(name, agent, base)

    def _offered(self, name: str) -> AgentDefinition:
        offered = self._registry.agents.get(name) if self._registry is not None else None
        return offered.definition() if offered is not None else AgentDefinition(prompt="-")

    def _pattern(self, name: str, use: PatternUse) -> None:
        if use.use not in _PATTERNS or use.off:
            self._teller.unsaid(f"the pattern {use.use!r} of the agent {name!r}")
            return
        options: dict[str, Any] = {}
        if use.use == "review_loop":
            options = find_builder(use.use).options.model_validate(use.with_).model_dump()
        self._add(ast.Inside(agent=name, use=use.use, options=options))

    def _decides(self, name: str, agent: AgentDefinition, base: AgentDefinition) -> None:
        """Flags and outputs follow from the conditions that ask for them; others cannot be said."""
        more = self._expanded.agents[name]
        own = set(agent.writes_flags) - set(base.writes_flags) - self._teller.flags[name]
        for flag in sorted(own):
            self._teller.unsaid(f"that {name!r} may set the flag {flag!r}, which nothing asks for")
        brought = set(more.outputs) - set(agent.outputs)
        own = set(agent.outputs) - set(base.outputs) - self._teller.outputs[name] - brought
        for key in sorted(own):
            self._teller.unsaid(f"that {name!r} has the output {key!r}, which nothing asks for")

    # -- tools -----------------------------------------------------------------------------------

    def _tools(self) -> None:
        having: dict[str, list[str]] = {tool: [] for tool in self._crew.tools}
        for name, agent in self._crew.agents.items():
            own = set(self._offered(name).tools or ()) if self._registry is not None else set[str]()
            for tool in self._crew.tools if agent.tools is None else agent.tools:
                if tool not in own and self._allowed(tool, name):
                    having[tool].append(name)
        together: dict[tuple[str, ...], list[str]] = {}
        for tool, names in having.items():
            named = self._crew.permissions.get(tool)
            if named is None or set(named) != set(names):
                together.setdefault(tuple(dict.fromkeys(names)), []).append(tool)
        for who, tools in together.items():
            if who:
                everyone = len(who) == len(self._crew.agents) > 1
                self._add(ast.Allow(agents=() if everyone else who, tools=tuple(tools)))
        self._unused(having)
        for tool, made in self._crew.tools.items():
            offered = self._registry.tools.get(tool) if self._registry is not None else None
            if self._registry is None or (offered is not None and offered.definition() == made):
                continue
            if not self._authority.reach(tool):
                self._teller.unsaid(f"the tool {tool!r} as it stands in the crew")

    def _unused(self, having: dict[str, list[str]]) -> None:
        needed = {
            tool
            for phase in self._teller.done
            if isinstance(phase.item, AgentPhase)
            for tool in phase.item.needs
        }
        for tool, names in having.items():
            spoken = tool in self._crew.permissions or tool in self._crew.approvals
            spoken = spoken or any(tool in rule.tools for rule in self._crew.rules)
            if not names and not spoken and tool not in needed and not self._owners(tool):
                self._teller.unsaid(f"the tool {tool!r}, which nobody uses")

    def _owners(self, tool: str) -> list[str]:
        return [n for n in self._crew.agents if tool in (self._offered(n).tools or ())]

    def _allowed(self, tool: str, agent: str) -> bool:
        named = self._crew.permissions.get(tool)
        return named is None or agent in named

    def _permissions(self) -> None:
        together: dict[tuple[str, ...], list[str]] = {}
        for tool, named in self._crew.permissions.items():
            if named is None:
                self._teller.unsaid(f"the permission of {tool!r} for everyone")
                continue
            for name in named:
                tools = self._crew.agents[name].tools
                if tools is not None and tool not in tools:
                    self._teller.unsaid(
                        f"the permission of {tool!r} for {name!r}, which has it not"
                    )
            together.setdefault(tuple(sorted(named)), []).append(tool)
        for who, those in together.items():
            if who:
                self._add(ast.Allow(agents=who, tools=tuple(those), only=True))
            else:
                self._add(ast.Deny(tools=tuple(those)))

    def _approvals(self) -> None:
        given = self._registry.approvals if self._registry is not None else {}
        for tool, named in self._crew.approvals.items():
            if tool in given and (given[tool] is None or given[tool] == named):
                continue
            if named is None:
                self._add(ast.AskTool(tools=(tool,)))
            elif named:
                self._add(ast.AskTool(tools=(tool,), agents=tuple(named)))
            else:
                self._teller.unsaid(f"the approval of {tool!r} for nobody")

    # -- who sees what ---------------------------------------------------------------------------

    def _sight(self) -> None:
        agents = self._crew.agents
        apart: dict[str, list[str]] = {}
        for name, agent in agents.items():
            base = self._offered(name)
            if agent.writes == (self._authority.log_of(name),):
                apart[name] = []
            elif agent.writes not in {PUBLIC, base.writes}:
                self._teller.unsaid(f"where {name!r} writes: {listed(agent.writes)}")
        for name, agent in agents.items():
            if agent.reads == ():
                self._add(ast.Sees(agents=(name,), hidden=True))
                continue
            for log in agent.reads:
                source = log.partition(":")[2]
                own = source in apart and log == self._authority.log_of(source)
                if own and source != name:
                    apart[source].append(name)
                elif log != "public" and log not in self._offered(name).reads:
                    self._teller.unsaid(f"that {name!r} reads {log!r}")
            if "public" not in agent.reads:
                self._teller.unsaid(f"that {name!r} does not read 'public'")
        for source, readers in apart.items():
            self._seen(source, readers)

    def _seen(self, source: str, readers: list[str]) -> None:
        blind = {name for name, agent in self._crew.agents.items() if agent.reads == ()}
        others = [n for n in self._crew.agents if n not in {source, *readers} and n not in blind]
        if not readers and not others:
            self._teller.unsaid(f"that nobody sees the work of {source!r}")
        elif not readers or (others and len(others) < len(readers)):
            self._add(ast.Sees(agents=tuple(others), whose=(source,), hidden=True))
        else:
            self._add(ast.Sees(agents=tuple(readers), whose=(source,)))

    def _as_by_default(self) -> None:
        """Defaults that agents say themselves, where a builder would put others there."""
        said = {name: {*agent.said_defaults} for name, agent in self._crew.agents.items()}
        if not any(said.values()):
            return
        agents = {name: agent.saying(()) for name, agent in self._crew.agents.items()}
        silent = expand(self._crew.model_copy(update={"agents": agents})).definition.agents
        for name, keys in said.items():
            keys -= {"on_error", *self._offered(name).said_defaults}
            for key in sorted(keys):
                if getattr(silent[name], key) != getattr(self._expanded.agents[name], key):
                    self._teller.unsaid(f"that {key} of the agent {name!r} is as by default")


def _others(agent: AgentDefinition) -> dict[str, Any]:
    said = _SAID | {*agent.said_defaults}
    return agent.model_dump(exclude=said, exclude_unset=True, exclude_defaults=True)
