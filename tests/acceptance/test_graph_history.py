"""What was said stays: over creatures that come and go, graphs that part, and graphs that join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Disconnect, Operation, RemoveAgent
from crewlog.ids import LogName, RunId
from crewlog.state.journal import RunForked, RunMerged
from message_order import sort_messages

from .harness import LIMIT, Site
from .test_creatures import living, rested
from .test_merges import speaking, to
from .test_splits import EDGES, part_of, until_begun


async def says(run: Run, text: str, channel: str, turns: int) -> None:
    """Says something in a channel, and waits for the turns of those who hear it."""
    before = (await run.status()).steps
    await run.message(text, to=f"channel:{channel}", by="fay")
    await run.wait_until(lambda view: view.steps == before + turns and view.is_idle, LIMIT)


async def texts(site: Site, run: Run, log: str) -> list[str]:
    """All that a log of a run holds, in its order."""
    at = (await run.state()).messages[LogName(log)]
    links = sort_messages(await site.store.read_log(at.head))
    bodies = await site.store.get_bodies({link.body for link in links})
    return [str(bodies[link.body]["content"]) for link in links]


def spoken(turns: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Each reply of each creature, by how many turns each had."""
    return ((name, n) for name, count in turns.items() for n in range(count))


class Kept:
    """Everything that the store ever had of some runs: it is there, and says the same."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.rows: dict[tuple[str, int], Any] = {}
        self.bodies: dict[Any, Any] = {}

    async def look(self, runs: Iterable[Run]) -> None:
        """Checks what was there the last time, and remembers what there is now."""
        now = {
            (run.id, position): entry
            for run in runs
            for position, entry in await self.site.journal(run)
        }
        assert {place: now.get(place) for place in self.rows} == self.rows
        self.rows = now
        said = {ref.body for each in now.values() if (ref := getattr(each, "message", None))}
        said |= {ref.body for each in now.values() if (ref := getattr(each, "ref", None))}
        bodies = await self.site.store.get_bodies(said)
        assert {body: bodies.get(body) for body in self.bodies} == self.bodies
        self.bodies = dict(bodies)


@covers("C104", "C105", "C108", "C109", "C110")
async def test_whatever_becomes_of_graphs_all_that_was_said_can_be_read(crews: Site) -> None:
    """A creature comes, the graph parts, takes in another one, loses a creature, parts again."""
    crew = living(crews, speaking("ann bob cid dan", 9), EDGES)
    dan = crew["agents"].pop("dan")
    run = await crews.start(crew, "")
    lake = await crews.start(living(crews, speaking("eve", 9), {"eve": {"listen": ["z"]}}), "")
    await rested(run)
    await rested(lake)
    kept, runs = Kept(crews), [run, lake]

    async def change(operation: Operation, id: str) -> None:
        await run.change(operations=[operation], id=id, by="fay")
        await kept.look(runs)

    await says(run, "one", "x", 1)
    await says(lake, "two", "z", 1)
    await change(AddAgent(name="dan", agent={**dan, "listen": ["y"]}), "more")
    await says(run, "three", "y", 3)
    await change(Disconnect(sender="ann", listener="bob"), "cut")
    part = part_of(crews, run, "cut", "ann")
    await until_begun(part)
    runs.append(part)
    await says(part, "four", "x", 1)
    await says(run, "five", "y", 3)
    await change(to(lake, "bob", "eve", "tie"), "tie")
    assert (await lake.result(LIMIT)).surviving_run == run.id
    await says(run, "six", "z", 1)  # a channel of the other one's, as it was called there
    await change(RemoveAgent(name="cid"), "go")
    await says(run, "seven", "y", 2)
    await change(Disconnect(sender="bob", listener="eve"), "again")
    last = part_of(crews, run, "again", "eve")
    await until_begun(last)
    runs.append(last)
    await says(last, "eight", "z", 1)
    await says(run, "nine", "y", 2)

    # Whoever could read something can read it where it lives by now, and so can what it says.
    assert await texts(crews, part, "channel:x") == ["one", "four"]
    assert await texts(crews, run, "channel:y") == ["three", "five", "seven", "nine"]
    assert await texts(crews, last, "channel:z") == ["two", "six", "eight"]
    # What is said to everybody is there once, up to where somebody left, on both sides.
    before = {"ann": 1, "bob": 1, "cid": 1, "dan": 1}
    joined = {"bob": 3, "cid": 2, "dan": 3, "eve": 2}
    heard = {part: before | {"ann": 2}, run: before | joined, last: before | joined | {"eve": 3}}
    heard[run] |= {"bob": 4, "dan": 4}
    for where, turns in heard.items():
        public = Counter(await texts(crews, where, "public"))
        assert public == {f"{name}-{n}": 1 for name, n in spoken(turns)}
    own = {"ann": (part, 2), "bob": (run, 4), "dan": (run, 4), "eve": (last, 3)}
    for name, (where, turns) in own.items():
        read = [p for p in crews.prompted(where) if p["agent"] == name][-1]["messages"]
        seen = [m["content"] for m in read if m["type"] == "ai"]
        assert seen == [f"{name}-{n}" for n in range(turns - 1)]

    for each in (run, part, last):
        await each.stop()
        await each.result(LIMIT)
    await kept.look(runs)
    # An operator comes from any of them to all of them, and reads in their journals what was said.
    for each in runs:
        family = {graph.run: graph for graph in await crews.client().lineage(each.id)}
        assert {*family} == {other.id for other in runs}
    assert family[run.id].parents == (lake.id,)
    for each in (part, last):
        (forked,) = [e for e in await crews.entries(each) if isinstance(e, RunForked)]
        graph = family[RunId(each.id)]
        assert (graph.began, graph.parents, graph.started) == ("split", (run.id,), forked.at)
    (merged,) = [e for e in await crews.entries(run) if isinstance(e, RunMerged)]
    assert [(t.run, t.when) for t in family[run.id].took_in] == [(lake.id, merged.at)]
    found = {str(body["content"]) for body in kept.bodies.values()}
    numbers = "one two three four five six seven eight nine"
    said = {name: turns for name, (_, turns) in own.items()} | {"cid": 2}  # who was removed, too
    assert {*numbers.split(), *(f"{name}-{n}" for name, n in spoken(said))} <= found
    # Each change says of which kind it was, which graphs it touched and made, and whom it affects.
    told = await crews.entries(run, "ComponentChanged", "RunMerged")
    both, cut, again = (tuple(sorted((run.id, each.id))) for each in (lake, part, last))
    assert [(e.change, e.old_graph_ids, e.new_graph_ids) for e in told] == [
        ("nothing", (run.id,), (run.id,)),
        ("split", (run.id,), cut),
        ("merge", both, (run.id,)),
        ("nothing", (run.id,), (run.id,)),
        ("split", (run.id,), again),
    ]
    affected = [{*e.affected_creatures} for e in told]
    assert affected[0] == {"bob", "dan"}
    assert affected[3] == {"bob", "cid"}
    assert all({"bob", "dan"} <= each for each in (affected[1], affected[2], affected[4]))
