"""Random crews with all that hands something on: forms, pools, calls without models, artifacts.

As `audience_world`, with agents whose replies hand items on by name, agents without a model that
take outputs as arguments, lists whose items name their agents, an artifact, scratch notes, and
conversations. What an agent without a model passes on is for those it says it to from then on: the
crew says so. What it takes it must be able to see itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from langchain_core.messages import AIMessage
from typing_extensions import override

from authority.audience_world import MARK, Canary, Layout, Worker, agents_in, reads, some
from authority.test_context_audiences import ContextWorld
from crewlog.client import Client
from crewlog.definition.load import load_data
from crewlog.errors import InvalidDefinition
from crewlog.evaluation import dataset
from crewlog.graph.run_context import CallRequest
from crewlog.ids import StepId
from crewlog.reporting.wire_views import entry_view
from crewlog.state.calls import CallModelResult

FORM = {
    "type": "object",
    "required": ["notes"],
    "properties": {
        "notes": {
            "type": "array",
            "items": {"type": "object", "required": ["to"], "properties": {"text": {}, "to": {}}},
        },
        "verdict": {"type": "string"},
    },
}
TOOLS = {
    name: {"run": f"authority.audience_tools:{name}", "effects": "read"}
    for name in ("relay", "scribble", "peek")
}
_KEPT = ("tagged", "verdict", "output", "edited", "scratch", "page", "said")
"""Kinds of texts that whoever took them by a call keeps in its own log."""


def _mend(layout: Layout, data: dict[str, Any]) -> None:
    """Takes inputs and arguments away that a check finds: no crew begins with them."""
    for _ in range(4):
        try:
            load_data(data)
        except InvalidDefinition as error:
            places = [each.place for each in error.diagnostics if each.severity == "error"]
        else:
            return
        for name, said in data["agents"].items():
            for key, none in (
                ("inputs", []),
                ("does", [{"tool": "relay", "args": {"what": "nothing"}}]),
            ):
                bad = {f"agents.{name}.{key}[{n}]" for n in range(len(said.get(key, ())))}
                bad &= {place.removesuffix(".args") for place in places}
                left = [
                    v
                    for n, v in enumerate(said.get(key, ()))
                    if f"agents.{name}.{key}[{n}]" not in bad
                ]
                if bad:
                    said[key] = left or none
                    if key == "inputs":
                        layout["agents"][name]["inputs"] = said[key]


class KindsWorld(ContextWorld):
    """A world of crews of all kinds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.took: set[tuple[str, int]] = set()
        """Who has taken which text by a call: that stays in its log."""
        self.passed: set[int] = set()
        """Texts that some agent without a model has passed on, as it might."""
        self.shared: set[int] = set()
        """Texts for whoever may see the outputs of their agents, as it is when they come."""
        self.seen: tuple[str, int] = ("", 0)
        """The run, and up to where its journal was searched for what is taken."""
        self.said: dict[str, int] = {"input": 1}
        """The texts of messages, by their commands."""
        self.mute = False
        """Whether it is a conversation in which nobody answers, and much fails."""

    # -- crews ---------------------------------------------------------------------------------

    @override
    def _add(self, layout: Layout, data: dict[str, Any]) -> None:
        super()._add(layout, data)
        rng, names = self.rng, [*layout["agents"]]
        data["tools"] = {**data["tools"], **TOOLS}
        groups = [f"group:{each}" for each in layout.get("groups", {})]
        page = {key: some(rng, [*names, *groups]) for key in ("readers", "writers")}
        layout["page"] = {key: who for key, who in page.items() if rng.random() < 0.7}
        data["artifacts"] = {"page": {"initial": [], **layout["page"]}}
        data["flow"] = flow = json.loads(json.dumps(data["flow"]))
        lists = [each for each in flow if isinstance(each, dict) and "for_each" in each]
        makers = {each["for_each"].split(".")[0] for each in lists}
        noted = {each["for_each"].split(".")[0] for each in lists if ".notes" in each["for_each"]}
        tagged = noted | {name for name in names if rng.random() < 0.35}
        order = list(dict.fromkeys(agents_in(flow)))
        early = order[: max(1, len(order) // 2)]
        late = [name for name in order if name not in {*early, *tagged, *makers}]
        doers = {name: early for name in late if rng.random() < 0.5}
        for item in lists:
            maker = item["for_each"].split(".")[0]
            if maker in tagged and rng.random() < 0.7:
                item["for_each"] = f"{maker}.notes"
            item.pop("by", None)
            item.pop("among", None)
            if item["for_each"].endswith(".notes") and rng.random() < 0.6:
                item |= {"by": "to", "among": sorted({item["agent"], *some(rng, names, 1)})}
        for name in names:
            self._agent(layout, data, name, names, tagged, doers)
        if self.mute:
            self._silence(layout, data)
        for key in ("notes", "verdict"):
            data["merge"] |= {f"{n}.{key}": rng.choice(["append", "last"]) for n in tagged}
        if rng.random() < 0.5 or self.mute:
            data["conversation"] = {"apology": "Sorry."}
        _mend(layout, data)

    def _agent(
        self,
        layout: Layout,
        data: dict[str, Any],
        name: str,
        names: list[str],
        tagged: Collection[str],
        doers: Mapping[str, Sequence[str]],
    ) -> None:
        rng, said, own = self.rng, layout["agents"][name], data["agents"][name]
        kept = [f"{n}.{k}" for n in tagged for k in ("notes", "verdict", "response")]
        if name in tagged and rng.random() < 0.7:  # else few may be shown its lists
            said["shares"] = own["shares"] = ["public"]
        said["kind"] = "tagged" if name in tagged else "does" if name in doers else ""
        if name in doers:
            for key in ("model_settings", "window", "inputs", "writes_flags"):
                own.pop(key, None)
            said["inputs"] = []
            keys = {n: ("notes", "verdict") if n in tagged else ("list",) for n in doers[name]}
            sources = [f"{n}.{key}" for n, found in keys.items() for key in found]
            taken = some(rng, sources, 1)[: rng.choice([1, 1, 2])]
            calls = [{"tool": "relay", "args": {"what": {"from": each}}} for each in taken]
            own |= {"does": calls, "in_order": rng.random() < 0.3, "tools": ["relay"]}
            return
        if name in tagged:
            said["writes"] = own["writes"] = []
            own["reply"] = {"schema": FORM, "tagged": {"notes": "to"}, "tries": 2}
            if rng.random() < 0.3:
                to = rng.choice(names)
                text = self.mark([f"readers:{to}"], name, "tagged")
                own["reply"]["fallback"] = {"notes": [{"to": to, "text": text}]}
            own["on_cap"] = rng.choice(["fail", "end"])
            own["max_calls"] = rng.choice([3, 50])
        own["tools"] = [*own["tools"], "scribble", "peek"]
        sources = [*kept, *(["artifact:page"] if name in self._readers(layout) else [])]
        if sources and rng.random() < 0.6:
            said["inputs"] = own["inputs"] = list(
                dict.fromkeys([*said["inputs"], *some(rng, sources, 1)])
            )
        if rng.random() < 0.4:
            said["notes"] = some(rng, [n for n in names if n != name])
            own["scratch"] = {"readers": said["notes"], "most": 3}

    def _silence(self, layout: Layout, data: dict[str, Any]) -> None:
        """Lets nobody say anything, so that turns are answered by the crew itself."""
        for name, own in data["agents"].items():
            own |= {"writes": [], "shares": ["public"], "on_error": "fail"}
            layout["agents"][name] |= {"writes": [], "shares": ["public"]}

    def _readers(self, layout: Layout, key: str = "readers") -> Collection[str]:
        named = layout["page"].get(key)
        found = [*layout["agents"]] if named is None else []
        for each in named or ():
            found += layout["groups"].get(each[6:], []) if each.startswith("group:") else [each]
        return found

    # -- the oracle ----------------------------------------------------------------------------

    @override
    def is_given(self, agent: str, step: str, canary: Canary) -> bool:
        if super().is_given(agent, step, canary):
            return True
        said = self.of(agent)["agents"].get(agent, {})
        inputs = said.get("inputs", [])
        public = "public" in canary.logs
        if self.engine.plan.detached_step(self.engine.state.frontier.get(StepId(step))):
            # Its node is gone: what it asks for by name is what it asked for then.
            named = any(self._names(agent, log) for log in canary.logs)
            if canary.kind == "flag" or public or named:
                return True
        if canary.kind == "scratch":
            return agent in self.of(canary.owner)["agents"][canary.owner].get("notes", ())
        if canary.kind == "page":
            return agent in self._readers(self.of(agent))
        if canary.kind not in ("tagged", "verdict", "output", "edited", "said"):
            return False
        if said.get("kind") == "does" and public:
            return True
        key = {"tagged": "notes", "verdict": "verdict", "output": "list", "edited": "list"}
        if f"{canary.owner}.{key.get(canary.kind, 'text')}" not in inputs:
            return self._passed_on(inputs, canary)
        return public or any(self._names(agent, log) for log in canary.logs)

    def _passed_on(self, inputs: Collection[str], canary: Canary) -> bool:
        """Whether it is public by now, and an input of one who passed it on."""
        return "public" in canary.logs and any(
            f"{doer}.{key}" in inputs for doer in self.doers for key in ("list", "text")
        )

    @property
    def doers(self) -> list[str]:
        """The agents without a model."""
        agents = self.layout["agents"].items()
        return [name for name, said in agents if said.get("kind") == "does"]

    def _names(self, agent: str, log: str) -> bool:
        named = log.startswith("readers:") and agent in log.removeprefix("readers:").split("+")
        return named or reads(self.of(agent), agent, log)

    @override
    def look(self, agent: str, step: str, text: str, *, whole: bool = False) -> None:
        before = len(self.leaks)
        super().look(agent, step, text, whole=whole)
        self.leaks[before:] = [
            each for each in self.leaks[before:] if (agent, each.mark) not in self.took
        ]

    # -- what agents say -----------------------------------------------------------------------

    @override
    def reply(self, agent: str, step: str, call: int) -> AIMessage:
        rng = self.rng
        kind = self.layout["agents"].get(agent, {}).get("kind")
        if self.mute and rng.random() < 0.2:
            raise RuntimeError(f"the service is away {self.mark(owner=agent, kind='failure')}")
        if kind == "tagged" and rng.random() < 0.6:
            return AIMessage(self._form(agent))
        if call == 1 and kind == "" and rng.random() < 0.5:
            items = [self.mark(owner=agent, kind="output") for _ in range(rng.randint(1, 3))]
            args = {"key": "list", "value": items}
            calls = [{"name": "set_output", "args": args, "id": f"{step}/{call}/k"}]
            return AIMessage("begun", tool_calls=calls)
        if rng.random() < 0.3:
            names = [*self.layout["agents"]]
            name, args = rng.choice(
                [
                    ("scribble", {"text": self.mark(owner=agent, kind="scribbled")}),
                    ("note", {"text": self.mark(owner=agent, kind="scratch")}),
                    ("notes", {"of": rng.choice(names)}),
                    ("peek", {}),
                ]
            )
            self.count(name)
            calls = [{"name": name, "args": args, "id": f"{step}/{call}/k"}]
            return AIMessage("more", tool_calls=calls)
        return super().reply(agent, step, call)

    def _form(self, agent: str) -> str:
        rng, shares = self.rng, self.shares(agent)
        names, groups = [*self.layout["agents"]], [*self.layout.get("groups", {})]
        notes: list[Any] = []
        for _ in range(rng.randint(0, 4)):
            named = some(rng, names, 1)
            whom: Any
            whom, logs = rng.choice(
                [
                    (named[0], [f"readers:{named[0]}"]),
                    (named[0].upper(), [f"readers:{named[0]}"]),
                    (named, [f"readers:{'+'.join(named)}"]),
                    ("all", shares),
                    ("nobody", []),
                    (None, []),
                    *([(f"group:{groups[0]}", [f"group:{groups[0]}"])] if groups else []),
                ]
            )
            text = self.mark(logs, agent, "tagged") + " long" * rng.choice([0, 0, 80])
            if whom == "all":
                self.shared.add(self._marks)
            notes.append({"to": whom, "text": text})
            self.count("notes handed on")
        said = {"notes": notes, "verdict": self.mark(shares, agent, "verdict")}
        self.shared.add(self._marks)
        return json.dumps(said) if rng.random() < 0.9 else f"So: {said}"

    @override
    async def _call(self, order: CallRequest) -> Any:
        result = await super()._call(order)
        agent, call = str(order.agent), order.call
        if call.tool in ("relay", "notes", "peek"):
            kept = self._takes(agent, order.step, json.dumps(result.to_json()))
            if call.tool == "relay":
                self.count("passed on")
                self.passed |= kept
        if call.tool == "scribble" and agent in self._readers(self.of(agent), "writers"):
            for mark in map(int, MARK.findall(json.dumps(result.to_json()))):
                if self.canaries[mark].kind == "scribbled":
                    self.canaries[mark] = Canary((), agent, "page")
        return result

    def _takes(self, agent: str, step: str, text: str) -> set[int]:
        """What an agent takes by a call, and may: that stays in its log."""
        marks = {*map(int, MARK.findall(text))}
        before = len(self.leaks)
        self.look(agent, step, text)
        marks -= {each.mark for each in self.leaks[before:]}
        kept = {mark for mark in marks if self.canaries[mark].kind in _KEPT}
        self.took |= {(agent, mark) for mark in kept}
        return kept

    def _adds(self, marks: Collection[int], to: Collection[str], among: dict[int, Canary]) -> None:
        """Texts are for others too, from now on."""
        for mark in marks:
            logs = tuple(dict.fromkeys((*among[mark].logs, *to)))
            among[mark] = replace(among[mark], logs=logs)

    def _composed(self) -> None:
        """Searches what agents without a model take as arguments, as soon as they do.

        What they took they say at the end of their turn, to whom they write to by then.
        """
        run = self.engine.state.run
        after = self.seen[1] if self.seen[0] == run else 0
        for at, entry in self.engine.journal.page(after, 10_000):
            self.seen = (run, at)
            body = (
                entry.get("ref", {}).get("inline", {})
                if entry["kind"] == "ModelCallCompleted"
                else {}
            )
            if any(call["name"] == "relay" for call in body.get("tool_calls", ())):
                self._takes(entry["agent"], entry["step"], json.dumps(body))
            elif entry.get("without_model"):
                agent = entry["agent"]
                marks = {*map(int, MARK.findall(json.dumps(body)))}
                taken = [mark for mark in marks if (agent, mark) in self.took]
                self._adds(taken, self.of(agent)["agents"][agent]["writes"], self.canaries)

    @override
    async def _somebody(self) -> None:
        self._composed()
        await super()._somebody()

    @override
    async def _launch(self) -> None:
        self._composed()
        await super()._launch()

    @override
    async def _land(self, which: int) -> None:
        order, result, _ = self.flights[which]
        agent, before = str(order.agent), dict(self.canaries)
        if isinstance(result, CallModelResult):
            for mark in {*map(int, MARK.findall(json.dumps(result.to_json())))} & self.shared:
                before[mark] = replace(before[mark], logs=tuple(self.shares(agent)))
        elif order.call.tool == "relay":
            marks = {*map(int, MARK.findall(repr(result)))} & self.passed
            self._adds(marks, self.shares(agent), before)
        await super()._land(which)
        for mark, canary in before.items():
            if canary.owner not in ("", agent) or canary.kind in ("tagged", "verdict", "page"):
                self.canaries[mark] = canary  # it says again what another one has said
        self._composed()

    @override
    async def message(self) -> None:
        await super().message()
        self.said[f"c{self._commands}"] = self._marks

    @override
    async def back(self, *, forks: bool) -> None:
        before = dict(self.canaries)
        await super().back(forks=forks)
        for said in self.engine.state.message_queue:  # what waits for its turn is not taken back
            mark = self.said[said.command]
            self.canaries[mark] = before[mark]

    # -- the run -------------------------------------------------------------------------------

    @override
    async def run(self, rounds: int = 40) -> None:
        await super().run(rounds)
        for _ in range(2):
            if not self.engine.state.is_conversation_idle or self.engine.state.is_ended:
                return
            self.count("turns")
            await self.message()
            await super().run(rounds // 2)

    async def cases(self) -> None:
        """Searches the inputs of the run's data set: each has what its stage saw, and no more."""
        whole = await self.worker.activities._batches.unpack_batch(self.engine.journal.batch())  # pyright: ignore
        if whole.entries:
            await self.store.append(self.engine.state.run, whole)
        self.engine.journal.mark_stored(self.engine.state.position)
        rows = await self.store.read_journal(self.engine.state.run)
        items = [entry_view(row.position, row.entry) for row in rows]

        async def journal(after: int = 0, limit: int = 0) -> Any:
            left = [each for each in items if each.position > after]
            return SimpleNamespace(entries=left, position=items[-1].position)

        async def store() -> Any:
            return self.store

        client = SimpleNamespace(run=lambda _: SimpleNamespace(journal=journal), store=store)
        for case in await dataset(cast("Client", client), self.engine.state.run):
            self.count("cases")
            self.look(case.stage, case.step, json.dumps(case.input.to_json()))


async def hunt(seed: int, worker: Worker, *, changes: bool = True) -> KindsWorld:
    """A random crew of any kind, run with random people; `leaks` has what went wrong."""
    world = KindsWorld(random.Random(seed), worker, changes=changes)  # noqa: S311
    world.mute = seed % 10 == 4
    await world.begin(seed)
    for _ in range(6):
        await world.message()
    await world.run()
    if not changes:
        await world.cases()
    return world
