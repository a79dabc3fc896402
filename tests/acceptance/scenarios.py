"""Scenarios of graphs that join and part, at random: what happens, and what must be so afterwards.

    play = Scenario(site, queue, seed)
    await play.begin()     runs of creatures
    await play.go()        people speak, and change the graphs, several at once
    await play.rest()      until nothing is under way in any run
    await play.check()     whatever happened: nothing was lost, and nothing came twice

What happens to whom is decided by the seed; what comes first where several things happen at once is
not. So what must be so is told from the journals, and never from what was asked for.
"""

from __future__ import annotations

import asyncio
import builtins
import itertools
import random
import re
from collections import Counter
from datetime import timedelta
from typing import Any

from crewlog import errors
from crewlog.activities.hydrator import Hydrator
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.operations import (
    AddAgent,
    Connect,
    Disconnect,
    Operation,
    RemoveAgent,
    Unwire,
    Wire,
)
from crewlog.errors import CrewlogError, InternalError, WorkerMissing
from crewlog.graph.lowering.plans import lower
from crewlog.ids import PUBLIC, AgentName, RunId, private_log
from crewlog.state.calls import View
from crewlog.state.components import Component
from crewlog.state.run_merge.protocol import FREEZE_TIMEOUT, REQUEST_TIMEOUT
from message_order import sort_messages

from .accounts import Accounts, RunAccount
from .harness import PATIENT, Site, tool
from .test_creatures import sends

WITHIN = timedelta(minutes=15)
"""The execution timeout of a scenario's runs: several kills are survived in it."""
REST_LIMIT = 120.0
"""Seconds for a scenario to come to rest: a worker that was killed is missed for some of them."""
ANSWER_LIMIT = (REQUEST_TIMEOUT + FREEZE_TIMEOUT) / 1000 + 30
"""Seconds within which a change is answered, whatever is killed: those of a merge, and some for a
machine that is busy."""
NAMESAKES = 0.5
"""How many runs have a creature that is called as one of another run: it is called anew where both
are one graph."""
QUOTAS = 0.5
"""How many runs may call a tool so often, and no more."""
STAGES = (
    "MergeRequested",
    "MergeAccepted",
    "MergeFrozen",
    "RunMerged",
    "RunEndedByMerge",
    "MergeFailed",
)
ENDS = ("RunMerged", "RunEndedByMerge", "MergeFailed")


_CLASS = re.compile(r"\b([A-Z]\w*)(?=[:(])")


def bug_in(text: str) -> str:
    """The class of an error that was nobody's intention, as a text names it; empty where none."""
    for name in _CLASS.findall(text):
        ours = getattr(errors, name, None)
        known = isinstance(ours, type) and ours is not InternalError
        error = getattr(builtins, name, None)
        raised = isinstance(error, type) and issubclass(error, BaseException)
        if not known and (raised or name.endswith(("Error", "Exception"))):
            return str(name)
    return ""


def _stage(entry: Any) -> str:
    """Where an entry brings a run in a merge."""
    return str(getattr(entry, "status", entry.kind))


class Scenario:
    """A scenario.

    Args:
        site: Where it is played.
        queue: Whose workers do it.
        seed: What happens.
    """

    def __init__(self, site: Site, queue: str, seed: int) -> None:
        self.site, self.queue, self.seed = site, queue, seed
        self.dice = random.Random(seed)  # noqa: S311
        self.accounts = Accounts(site.store)
        self.said: dict[str, str] = {}
        """What people said, by command."""
        self.outcomes: Counter[str] = Counter()
        self.bugs: list[str] = []
        """What people were told of changes, where it names a bug."""
        self.over = False
        self._names = (f"s{seed}-{n:02}" for n in itertools.count())
        self._channels = (f"s{seed}-ch{n}" for n in itertools.count())
        self._commands = (f"s{seed}-{n}" for n in itertools.count())
        self._given: list[str] = []
        """The names of creatures that runs began with."""
        self._runs: list[RunId] = []
        self._model = ""

    # -- the beginning -----------------------------------------------------------------------

    async def begin(self) -> None:
        """Starts runs: each one graph, with channels, wires and parents."""
        for number in range(self.dice.randint(2, 4)):
            names = self._fresh_names()
            crew = self._crew(names, shared=self.dice.random() < 0.5)
            run = await self.site.start(
                crew, "", queue=self.queue, id=f"scenario-{self.seed}-{number}", within=WITHIN
            )
            self._runs.append(RunId(run.id))
        await self._quiet(REST_LIMIT)

    def _fresh_names(self) -> list[str]:
        """Names of a run's creatures, in order; some of them are those of another run's, too."""
        names = [next(self._names) for _ in range(self.dice.randint(1, 4))]
        if self._given and self.dice.random() < NAMESAKES:
            names[0] = self.dice.choice(self._given)
        self._given += names
        return sorted(names)

    def _crew(self, names: list[str], *, shared: bool) -> dict[str, Any]:
        """A crew in which each but the first one has a way to one before it.

        Wires lead to later names only: what goes along them comes to an end.
        """
        edges: dict[str, dict[str, Any]] = {name: {} for name in names}
        edges[names[0]]["listen"] = ["hall" if shared else next(self._channels)]
        for place, name in enumerate(names[1:], 1):
            other = self.dice.choice(names[:place])
            how = self.dice.random()
            if how < 0.2 or "parent" in edges[other]:  # who works for another has its channels only
                edges[other].setdefault("wires", []).append(name)
            elif how < 0.5 and shared:
                for who, does in ((name, "listen"), (other, "send")):
                    edges[who][does] = [*dict.fromkeys((*edges[who].get(does, ()), "hall"))]
            else:
                channel = next(self._channels)
                edges[other].setdefault("send", []).append(channel)
                edges[name].setdefault("listen", []).append(channel)
                if how < 0.7:
                    edges[name]["parent"] = other
        says = {name: self._says(edges[name]) for name in names}
        crew = self.site.crew(says, rules={name: {**edges[name], **PATIENT} for name in names})
        # Those who come later say something, too.
        self._model = crew["model"] = self.site.script({**says, "*": self._says({})})
        crew["graph"] = {"queue": 2} if self.dice.random() < 0.3 else {}
        if self.dice.random() < QUOTAS:  # what is left of it is divided, and put together again
            crew["tools"] = {"echo": tool("echo")}
            most = self.dice.choice((20, 30))
            crew["rules"] = [{"tool": "echo", "quota": f"{most} per run"}]
        return crew

    def _says(self, edges: dict[str, Any]) -> list[dict[str, Any]]:
        """What a creature says: it passes on what it is told to, and takes its time where asked."""
        passes = [
            {**sends(channel, "passed on"), "when": f"tell{n}", "of": "people"}
            for n, channel in enumerate(edges.get("send", []))
        ]
        slow = {"text": "slowly", "stall": 0.3, "when": "slow"}
        return [*passes, slow, {"text": "heard", "when": ""}]

    # -- what happens ------------------------------------------------------------------------

    async def go(self, rounds: int = 5) -> None:
        """Some rounds, each with several things at once."""
        for _ in range(rounds):
            await self.accounts.read(self._runs)
            graphs = {a.run: t for a in self.accounts.graphs if (t := await self._graph(a))}
            things = [self._speaks(graphs) for _ in range(self.dice.randint(0, 3))]
            changes = [self._change(graphs) for _ in range(self.dice.choice((1, 1, 2, 3)))]
            things += [self._does(*change) for change in changes if change is not None]
            self.dice.shuffle(things)
            await asyncio.gather(*things)
        self.over = True

    async def _graph(self, account: RunAccount) -> Component | None:
        last = next((e for _, e in account.journal[::-1] if getattr(e, "definition", "")), None)
        forked = account.kinds("RunForked")
        if last is None and not forked:
            return None
        hash_ = last.definition if last is not None else forked[0].state["definition"]
        return lower(await self.accounts.crew(hash_)).component

    async def _speaks(self, graphs: dict[RunId, Component]) -> None:
        run = self.dice.choice([*graphs])
        heard = [(c, n) for n, made in graphs[run].agents.items() for c in made.listen]
        to = f"{CHANNEL}{self.dice.choice(heard)[0]}" if heard else PUBLIC
        if self.dice.random() < 0.2:
            to = f"private:{self.dice.choice([*graphs[run].agents])}"
        told: list[str] = []  # all of the dice before anything is waited for
        for _ in range(self.dice.choice((1, 1, 4))):
            told.append(command := next(self._commands))
            how = self.dice.choice(("", "slow", "slow", "tell0", "tell1"))
            self.said[command] = f"{how} <{command}>"
        its = self.site.client(self.queue).run(run)
        for command in told:
            await its.message(self.said[command], to=to, by="fay", id=command)

    def _change(self, graphs: dict[RunId, Component]) -> tuple[RunId, Operation] | None:
        """A change of one graph, or of two."""
        run = self.dice.choice([*graphs])
        creatures = graphs[run].agents
        if not creatures:
            return None
        others = [each for each in graphs if each != run and graphs[each].agents]
        name = self.dice.choice([*creatures])
        what = self.dice.random()
        if what < 0.5 and others:
            other = self.dice.choice(others)
            to = self.dice.choice([*graphs[other].agents])
            if name < to and self.dice.random() < 0.3:
                return run, Wire(name=name, to=to, other=other)
            return run, Connect(sender=name, listener=to, channel=next(self._channels), other=other)
        if what < 0.75:
            return run, self._cut(graphs[run], name)
        if what < 0.85 and len(creatures) > 1:
            return run, RemoveAgent(name=name)
        return run, self._add(name)

    def _cut(self, graph: Component, name: str) -> Operation:
        """Takes away what connects two creatures; one of them, where nothing does."""
        ways: list[Operation] = []
        for sender, made in graph.agents.items():
            ways += [Unwire(name=sender, to=to) for to in made.wires]
            ways += [
                Disconnect(sender=sender, listener=listener, channel=channel)
                for channel in made.send
                for listener in graph.listeners(channel, sender)
            ]
        return self.dice.choice(ways) if ways else self._add(name)

    def _add(self, beside: str) -> AddAgent:
        name = next(self._names)
        tied = self.dice.choice(({}, {"beside": beside}, {"parent": beside}))
        agent = {
            "prompt": f"You are {name}.",
            "listen": [next(self._channels)],
            **PATIENT,
            "model": self._model,
            **tied,
        }
        return AddAgent(name=AgentName(name), agent=agent)

    async def _does(self, run: RunId, operation: Operation) -> None:
        command, its = next(self._commands), self.site.client(self.queue).run(run)
        parted = (operation.sender, operation.listener) if isinstance(operation, Disconnect) else ()
        told = {next(self._commands): name for name in parted * 3}
        self.said |= {each: f"slow <{each}>" for each in told}
        for each, name in told.items():  # so that turns are under way, and wait, as they part
            await its.message(self.said[each], to=f"private:{name}", by="fay", id=each)
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                while True:
                    try:
                        await its.change(operations=[operation], id=command, by="fay")
                        break
                    except WorkerMissing:  # it was killed: the same once more
                        await asyncio.sleep(0.2)
        except (CrewlogError, TimeoutError) as error:
            self.outcomes[f"{operation.op}: {type(error).__name__}"] += 1
            if isinstance(error, InternalError | TimeoutError) or bug_in(str(error)):
                self.bugs.append(f"{run}: {operation}: {error!r}")
        else:
            self.outcomes[operation.op] += 1

    async def gaps(self) -> list[str]:
        """Between which two messages of a merge, or of a split, runs are by what is stored."""
        await self.accounts.read(self._runs)
        found: list[str] = []
        for account in self.accounts.runs.values():
            stages = [*account.kinds(*STAGES)]
            for entry in stages:
                last = [e for e in stages if e.merge == entry.merge][-1]
                if last is entry and entry.kind not in ENDS:
                    other = self.accounts.runs.get(entry.other)
                    theirs = (
                        [e for e in other.kinds(*STAGES) if e.merge == entry.merge] if other else []
                    )
                    found.append(f"{_stage(entry)} | {_stage(theirs[-1]) if theirs else 'nothing'}")
            for entry in account.kinds("ComponentChanged"):
                found += [
                    "ComponentChanged | no part" for part in entry.split_runs if not self._has(part)
                ]
        return found

    def _has(self, part: Any) -> bool:
        account = self.accounts.runs.get(part.run)
        return account is not None and bool(account.journal)

    # -- the end -----------------------------------------------------------------------------

    async def rest(self) -> None:
        """Waits until nothing is under way anywhere, and ends all runs: all is stored by then."""
        await self._quiet(REST_LIMIT)
        for account in self.accounts.graphs:
            run = self.site.client(self.queue).run(account.run)
            await run.stop()
            assert (await run.result(REST_LIMIT)).status == "stopped"
        await self.accounts.read(self._runs)
        known = {run.id for run in self.site.runs}
        self.site.runs += [
            self.site.client(self.queue).run(run) for run in self.accounts.runs if run not in known
        ]

    async def _quiet(self, limit: float) -> None:
        try:
            await self._calm(limit)
        except TimeoutError as error:
            busy = [a.run for a in self.accounts.graphs if not await self._rests(a.run)]
            client = self.site.client(self.queue)
            views = [await client.run(run).status() for run in busy]
            raise TimeoutError(f"not at rest: {[view.to_json() for view in views]}") from error

    async def _calm(self, limit: float) -> None:
        async with asyncio.timeout(limit):
            calm = 0
            while calm < 2:  # a part that begins is seen by the second look
                before = {*self.accounts.runs}
                await self.accounts.read(self._runs)
                same = before == {*self.accounts.runs} != set()
                rests = [await self._rests(account.run) for account in self.accounts.graphs]
                calm = calm + 1 if same and all(rests) else 0
                await asyncio.sleep(0.1)

    async def _rests(self, run: RunId) -> bool:
        try:
            its = self.site.client(self.queue).run(run)
            view = await its.status()
            for question in view.interrupts:  # a call that a kill took too much of is made again
                await its.answer(question, "approve", by="fay")
        except CrewlogError:  # it begins, or its worker was killed
            return False
        return view.is_idle and not view.merge_status and not view.frontier

    # -- what must be so ---------------------------------------------------------------------

    async def check(self) -> None:
        """Checks all that must be so, whatever happened.

        Raises:
            AssertionError: it is not.
        """
        accounts = self.accounts
        await accounts.settle()
        accounts.check_turns()
        accounts.check_creatures()
        accounts.check_lineage()
        self._check_refusals()
        self._check_said()
        for account in accounts.graphs:
            await self._check_logs(account)
        for run, account in accounts.runs.items():
            ended = account.kinds("RunEndedByMerge")
            end = await self.site.client(self.queue).run(run).successor()
            assert (end.id == run) == (not ended)
            assert not accounts.runs[RunId(end.id)].kinds("RunEndedByMerge")

    def _check_refusals(self) -> None:
        """What was not done was refused: nothing stumbled over a bug, and went on as it was."""
        told = {"SwapFailed": "error", "MergeFailed": "reason", "CommandRejected": "reason"}
        for account in self.accounts.runs.values():
            for position, entry in account.placed(*told):
                why = getattr(entry, told[entry.kind])
                assert not bug_in(why), f"{(account.run, position)}: {entry.kind}: {why}"
        assert not self.bugs

    def _check_said(self) -> None:
        """Whatever people said was said in one run, or refused in one, and heard there."""
        found = Counter(
            str(entry.command)
            for account in self.accounts.runs.values()
            for entry in account.kinds("MessageAdded", "CommandRejected")
            if entry.command in self.said
        )
        assert found == dict.fromkeys(self.said, 1)

    async def _check_logs(self, account: RunAccount) -> None:
        """Each creature's logs have all that was ever said there, once, in order."""
        crew, state = await self.accounts.crew(account.state.definition), account.state
        for name in account.held.living:
            channels = [f"{CHANNEL}{each}" for each in (*crew.agents[name].listen,)]
            for log in dict.fromkeys((*channels, private_log(AgentName(name)))):
                wanted = sorted(account.held.logs.get(log, ()))
                at = state.messages.get(log)
                assert (at is not None) == bool(wanted), (account.run, log)
                if at is None:
                    continue
                links = sort_messages(await self.site.store.read_log(at.head))
                assert [(link.position, link.body) for link in links] == wanted, (account.run, log)
                view = View(
                    heads={log: at.head},
                    former_names={k: v for k, v in state.former_names.items() if k == log},
                )
                read = await Hydrator(self.site.store).hydrate(
                    account.run, AgentName(name), view, complete=False
                )
                bodies = await self.site.store.get_bodies({body for _, body in wanted})
                texts = [str(bodies[body]["content"]) for _, body in wanted]
                assert len(read) == len(texts)
                # A tool's answer comes right after its call, wherever it was said.
                for text in texts:
                    assert any(text in message.text for message in read), (log, text)
