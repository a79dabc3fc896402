"""What a reading sets besides the flow and the rights: of agents, of the crew, of its questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crewlog.definition.artifacts import ArtifactDefinition
from crewlog.definition.builders import find_builder
from crewlog.definition.context import OFF, Input, Window
from crewlog.definition.decisions import reply_fields
from crewlog.definition.doing import DoneCall
from crewlog.definition.findings import Path, did_you_mean, suggestion
from crewlog.definition.interrupting import CONFIDENCE
from crewlog.definition.model import (
    Conversation,
    ErrorPolicy,
    InterruptPolicy,
    PatternUse,
    parse_duration,
)
from crewlog.definition.replies import Reply
from crewlog.prompt import reading as r
from crewlog.prompt.agents import Member
from crewlog.prompt.registry import Registry
from crewlog.prompt.rights import is_fixed

_LIMITS = {
    "max_steps": "steps",
    "max_parallel": "parallel",
    "max_tokens": "tokens",
    "max_cost": "cost",
    "max_time": "wall",
}
_FORMS = ("decides", "runs")
_DECISIONS = ("strategy", "terminate")
_POLICIES = ("ask", "fail", "continue")
_EVALUATORS = "crewlog.evaluators:"


class Settings:
    """Works the settings out.

    Args:
        read: The reading.
        registry: What the prompt may use.
        members: The crew's agents, who are given theirs here.
        fault: Takes what cannot be done.
        note: Takes what is assumed.
    """

    def __init__(
        self,
        read: r.Reading,
        registry: Registry,
        members: dict[str, Member],
        fault: Callable[..., None],
        note: Callable[..., None],
    ) -> None:
        self._read = read
        self._registry = registry
        self._members = members
        self._fault = fault
        self._note = note
        self._said: dict[tuple[str, str], r.Setting] = {}
        self.model: str | None = None
        self.fields: dict[str, Any] = {}
        """Fields of the definition."""
        self.sources: list[tuple[str, Path, tuple[int, ...]]] = []

    def settle_forms(self) -> None:
        """Gives agents the forms of their replies first: conditions look at what is in these."""
        for setting in self._read.settings:
            if setting.key in _FORMS:
                self._of_agents(setting)

    def settle(self) -> None:
        """Works the rest out."""
        limits: dict[str, Any] = {}
        people: dict[str, Any] = {}
        for setting in self._read.settings:
            match setting.key:
                case "conversation" | "answers_first":
                    self._conversation(setting)
                case "artifact":
                    self._artifact(setting)
                case "may_answer" | "answer_within" | "unanswered" | "yes_valid":
                    self._people(setting, people)
                case "hosts" | "group" | "decides" | "runs":
                    pass  # `Rights` has these, and the forms of replies are settled
                case "max_steps" | "max_parallel" | "max_tokens" | "max_cost" | "max_time":
                    self._limit(setting, limits)
                case "model":
                    self._model(setting)
                case _:
                    self._of_agents(setting)
        self.fields["limits"] = self._registry.limits.model_copy(update=limits)
        if people:
            self.fields["interrupts"] = InterruptPolicy.model_validate(people)

    def _bad(self, setting: r.Setting, remedy: str) -> None:
        say = f"{setting.value!r} is nothing that {setting.key!r} can be"
        self._fault("invalid", say, remedy, setting.clauses)

    def _limit(self, setting: r.Setting, update: dict[str, Any]) -> None:
        key = _LIMITS[setting.key]
        try:
            most = parse_duration(setting.value) if key == "wall" else float(setting.value)
        except ValueError:
            return  # `verify` says so
        offered = getattr(self._registry.limits, key)
        if offered is not None and most > offered:
            say = f"{setting.value} is more than the registry's {key} of {offered:g}, which holds"
            self._note(say, "", setting.clauses)
        least = min(m for m in (most, offered, update.get(key)) if m is not None)
        if not 0 < least < 1e12 or (key not in {"wall", "cost"} and least < 1):
            self._bad(setting, "Write a number from 1.")
            return
        update[key] = least if key in {"wall", "cost"} else int(least)
        self.sources.append(("settings", ("limits", key), setting.clauses))

    def _conversation(self, setting: r.Setting) -> None:
        talk: Conversation = self.fields.get("conversation") or Conversation()
        if setting.key == "answers_first":
            names = tuple(dict.fromkeys((*talk.respond, *setting.agents)))
            talk = talk.model_copy(update={"respond": names})
        elif setting.value:
            try:
                talk = talk.model_copy(update={"idle": parse_duration(setting.value)})
            except ValueError:
                self._bad(setting, "Write how long it waits, e.g. '30m', or nothing.")
        self.fields["conversation"] = talk
        self.sources.append(("settings", ("conversation",), setting.clauses))

    def _artifact(self, setting: r.Setting) -> None:
        artifacts: dict[str, ArtifactDefinition] = self.fields.setdefault("artifacts", {})
        try:
            artifacts[setting.value] = ArtifactDefinition(writers=setting.agents)
        except ValueError:
            self._bad(setting, "Name the artifact, and its writers as `agents`.")
        self.sources.append(("settings", ("artifacts", setting.value), setting.clauses))

    def _people(self, setting: r.Setting, people: dict[str, Any]) -> None:
        value = setting.value.strip()
        self.sources.append(("settings", ("interrupts",), setting.clauses))
        if setting.key == "may_answer":
            names = tuple(name.strip() for name in value.split(",") if name.strip())
            agents = [name for name in names if name in self._members]
            if agents:
                say = f"{', '.join(agents)} cannot answer: agents do not"
                self._fault("invalid", say, "Name the people who may.", setting.clauses)
            people["people"] = names
        elif setting.key == "unanswered":
            what, _, whom = value.partition(":")
            if what not in {"reject", "escalate", "stop"} or bool(whom.strip()) != (
                what == "escalate"
            ):
                self._bad(setting, "It is 'reject', 'stop', or 'escalate: NAME'.")
                return
            people["default"] = what
            if whom.strip():
                people["escalate_to"] = whom.strip()
        else:
            try:
                people["valid" if setting.key == "yes_valid" else "expires"] = parse_duration(value)
            except ValueError:
                self._bad(setting, "Write a duration, e.g. '2h'.")

    def _model(self, setting: r.Setting) -> None:
        offered = [m for m in (self._registry.model, *self._registry.models) if m]
        wanted = setting.value.strip().strip("`'\"").casefold()
        fits = [m for m in offered if wanted in {m.casefold(), m.partition(":")[2].casefold()}]
        if not fits:
            near = suggestion(setting.value, offered)
            there = f"It offers: {', '.join(offered)}." if offered else "It offers none."
            say = f"the registry does not offer the model {setting.value!r}"
            how = did_you_mean(setting.value, offered, there) if near else there
            self._fault("not_offered", say, how, setting.clauses)
            return
        if not setting.agents:
            self.model = fits[0]
            self.sources.append(("settings", ("model",), setting.clauses))
        for name in setting.agents:
            self._set(name, "model", fits[0], setting)

    # -- agents ----------------------------------------------------------------------------------

    def _of_agents(self, setting: r.Setting) -> None:
        if setting.key == "window" and not setting.agents and _is_count(setting.value):
            self.fields["window"] = _window(setting.value)
            self.sources.append(("settings", ("window",), setting.clauses))
            return
        for name in setting.agents or list(self._members):
            if name in self._members:
                self._agent(name, setting)

    def _agent(self, name: str, setting: r.Setting) -> None:  # noqa: C901 - a case for each key
        value = setting.value.strip()
        match setting.key:
            case "enabled":
                self._set(name, "enabled", value.casefold() in {"true", "yes", "on"}, setting)
            case "on_error" if value in _POLICIES:
                offered = self._members[name].offered
                policy = offered.on_error if offered is not None else ErrorPolicy()
                policy = policy.model_copy(update={"failure": value})
                self._set(name, "on_error", policy, setting)
            case "on_error":
                self._bad(setting, "It is 'ask', 'fail' or 'continue'.")
            case "confidence" | "window" | "model_calls" if not _is_count(value):
                self._bad(setting, "Write a number.")
            case "confidence":
                self._set(name, "ask_below", _fraction(value), setting)
                self._members[name].outputs.setdefault(CONFIDENCE, [])
            case "pattern":
                self._pattern(name, setting)
            case "window":
                self._set(name, "window", _window(value), setting)
            case "model_calls":
                self._set(name, "max_calls", int(float(value)), setting)
            case "at_cap":
                self._set(name, "on_cap", "end" if value != "fail" else "fail", setting)
            case "decides" if value in _DECISIONS:
                self._decides(name, setting)
            case "decides":
                self._bad(setting, "It is 'strategy' or 'terminate'.")
            case "runs":
                self._runs(name, setting)
            case "sees":
                try:
                    inputs = tuple(
                        self._input(each.strip()) for each in value.split(",") if each.strip()
                    )
                except ValueError:
                    self._bad(setting, "Write 'input', 'AGENT.OUTPUT' or 'artifact:NAME'.")
                    return
                self._set(name, "inputs", inputs, setting)
                self._set(name, "reads", (), setting)
            case _:
                raise AssertionError(setting.key)

    def _set(self, name: str, key: str, value: Any, setting: r.Setting) -> None:
        member = self._members.get(name)
        if member is None:
            return  # `verify` says so
        less = key == "enabled" and not value  # less is always possible
        if not less and is_fixed(member, key, value, self._fault, setting.clauses):
            return
        first = self._said.setdefault((name, key), setting)
        if key in member.fields and member.fields[key] != value:
            both = tuple(dict.fromkeys((*first.clauses, *setting.clauses)))
            say = f"two things are said about {setting.key} of {name!r}"
            self._fault("contradiction", say, "Keep one of the two.", both)
        member.fields[key] = value
        self.sources.append(("settings", ("agents", name, key), setting.clauses))

    def _pattern(self, name: str, setting: r.Setting) -> None:
        use, _, rounds = setting.value.partition(":")
        use = use.strip()
        offered = self._registry.builders
        if offered is not None and use not in offered:
            there = f"It offers: {', '.join(offered)}." if offered else "It offers none."
            say = f"the registry does not offer the builder {use!r} to prompts"
            self._fault("not_offered", say, there, setting.clauses)
            return
        try:
            builder = find_builder(use)
        except LookupError as error:
            self._fault("invalid", f"no builder is called {use!r}", str(error), setting.clauses)
            return
        if builder.kind != "agent":
            self._fault("invalid", f"the builder {use!r} is for the flow", "", setting.clauses)
            return
        options: dict[str, Any] = {"rounds": int(rounds)} if rounds.strip().isdigit() else {}
        pattern = PatternUse.model_validate({"use": use, "with": options})
        self._set(name, "pattern", pattern, setting)

    def _decides(self, name: str, setting: r.Setting) -> None:
        offered = self._members[name].offered
        reply = offered.reply if offered is not None else None
        if reply is not None and reply.decision == setting.value.strip():
            return
        self._set(name, "reply", Reply(decision=setting.value.strip()), setting)

    def _runs(self, name: str, setting: r.Setting) -> None:
        tools = [tool.strip() for tool in setting.value.split(",") if tool.strip()]
        unknown = [tool for tool in tools if tool not in self._registry.tools]
        if unknown or not tools:
            self._bad(setting, "Name tools of the registry.")
            return
        member = self._members[name]
        own = member.offered.does if member.offered else ()
        if {call.tool for call in own} == set(tools):
            return
        self._set(name, "does", tuple(DoneCall(tool=tool) for tool in tools), setting)
        member.tools += [tool for tool in tools if tool not in member.all_tools()]
        if any(str(self._registry.tools[tool].run).startswith(_EVALUATORS) for tool in tools):
            for key in ("signals", "passed"):
                member.outputs.setdefault(key, [])

    def _input(self, source: str) -> Input:
        """A source as a definition has it: `discovery.found` where that agent sets such a field."""
        agent, dot, key = source.partition(".")
        if dot and key not in {"text", "instructions"}:
            member = self._members.get(agent)
            reply = member.offered.reply if member and member.offered else None
            known = (*(member.outputs if member else ()), *(reply_fields(reply) if reply else ()))
            source = source if key in known else f"{agent}.text"
        return Input.model_validate({"from": source})


def _is_count(value: str) -> bool:
    """Whether a text is a number that is no more than a million."""
    try:
        return 0 < float(value.rstrip(" %")) <= 1_000_000
    except ValueError:
        return False


def _window(value: str) -> Window:
    return Window(last=max(1, int(float(value))), summary=OFF)


def _fraction(value: str) -> float:
    number = float(value.rstrip(" %"))
    return number / 100 if number > 1 else number
