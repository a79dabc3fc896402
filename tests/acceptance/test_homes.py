"""Nobody lives in two graphs: where who left a run is, says the engine alone, however long ago."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Disconnect, EditCrew, RemoveAgent
from crewlog.errors import CommandRejected, RunFailed, UsageError
from crewlog.ids import RunId

from .harness import LIMIT, RUN_LIMIT, Site
from .test_creatures import living, rested
from .test_graph_units import graph
from .test_merges import speaking, to
from .test_resumed_graphs import made_again, stopped
from .test_splits import part_of, until_begun

EDGES: dict[str, Any] = {
    "ann": {"listen": ["x"], "send": ["bridge"]},
    "bob": {"listen": ["x"]},
    "eve": {"listen": ["x"]},
    "cid": {"listen": ["bridge"], "send": ["y"]},
    "dan": {"listen": ["y"]},
}


def crew_of(site: Site) -> dict[str, Any]:
    return living(site, speaking("ann bob eve cid dan", 9), EDGES)


async def cut(site: Site, run: Run, sender: str, listener: str) -> Run:
    """Parts a graph between two; the run of the second one."""
    name = f"cut-{listener}"
    await run.change(operations=[Disconnect(sender=sender, listener=listener)], id=name)
    part = part_of(site, run, name, listener)
    await until_begun(part)
    await rested(part)
    return part


async def family(site: Site) -> tuple[Run, Run, Run]:
    """A run, a part of it, where cid lives, and a part of that, where dan does."""
    run = await site.start(crew_of(site), "")
    await rested(run)
    two = await cut(site, run, "ann", "cid")
    three = await cut(site, two, "cid", "dan")
    assert (await graph(run))[0] == {"ann", "bob", "eve"}
    assert (await graph(two))[0] == {"cid"}
    assert (await graph(three))[0] == {"dan"}
    return run, two, three


@covers("C99")
@pytest.mark.parametrize("how", ["definition", "edit"])
async def test_who_left_stays_there_whatever_people_write(crews: Site, how: str) -> None:
    crew = crew_of(crews)
    run = await crews.start(crew, "")
    await rested(run)
    part = await cut(crews, run, "ann", "cid")
    if how == "definition":
        written = copy.deepcopy(crew)
        written["agents"]["ann"]["prompt"] = "You are ann, and polite."
        await run.change(definition=written, id="new")
    else:
        await run.change(operations=[EditCrew(set={"graph": {"idle": "1h"}})], id="new")
    assert (await graph(run))[0] == {"ann", "bob", "eve"}
    assert (await graph(part))[0] == {"cid", "dan"}
    await stopped(run, part)
    parted = [e.split for e in await crews.entries(run, "ComponentChanged") if e.split_runs]
    assert parted == ["cut-cid"], "nobody left once more"


async def test_nobody_is_said_to_be_elsewhere_by_hand(crews: Site) -> None:
    crew = crew_of(crews)
    run = await crews.start(crew, "")
    await rested(run)
    nowhere = {"away": {"bob": "nowhere"}}
    with pytest.raises(
        CommandRejected, match="says that 'bob' lives in 'nowhere', and it has left for no"
    ):
        await run.change(operations=[EditCrew(set={"graph": nowhere})])
    with pytest.raises(
        CommandRejected, match="says that 'bob' lives in 'nowhere', and it has left for no"
    ):
        await run.change(definition={**crew, "graph": nowhere})
    assert "bob" in (await graph(run))[0]
    again = await crews.start({**crew, "graph": nowhere}, "")
    crews.runs.remove(again)  # it never began
    with pytest.raises(
        RunFailed, match="says that 'bob' lives in 'nowhere', and it has left for no"
    ):
        await again.result(LIMIT)
    assert await crews.store.get_run(RunId(again.id)) is None


@covers("C118")
async def test_who_went_on_from_where_it_left_for_stays_there(crews: Site) -> None:
    run, two, three = await family(crews)
    await stopped(two)
    await stopped(run)
    way = await run.way_back()
    assert (way.stays, way.returns) == ({"dan": three.id}, ("cid",))
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert (await graph(run))[0] == {"ann", "bob", "eve", "cid"}
    assert (await graph(three))[0] == {"dan"}


@covers("C118")
async def test_who_went_on_elsewhere_stays_there_as_a_paused_run_goes_back(crews: Site) -> None:
    run, two, three = await family(crews)
    await run.change(operations=[RemoveAgent(name="eve")], id="less")
    await run.pause()
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    way = await run.way_back()
    assert (way.stays, way.returns, way.home) == ({"cid": two.id, "dan": three.id}, ("eve",), ())
    assert "away" not in way.what
    await run.resume(from_="recipe")
    await rested(run)
    assert (await graph(run))[0] == {"ann", "bob", "eve"}
    assert (await graph(three))[0] == {"dan"}


@covers("C118")
async def test_a_part_of_a_part_does_not_go_on_where_its_creatures_came_home(crews: Site) -> None:
    run, two, three = await family(crews)
    await stopped(three)
    await stopped(two)
    await stopped(run)
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert {"cid", "dan"} <= (await graph(run))[0]
    await made_again(crews, run)
    for each, who in ((three, "dan"), (two, "cid")):
        with pytest.raises(UsageError, match=rf"continues {who} of"):
            await each.reopen(execution_timeout=RUN_LIMIT)
    # Nor once that run is part of another one itself.
    many = {name: {"listen": ["z"], "send": ["z"]} for name in ("p", "q", "r", "s", "t", "u")}
    big = await crews.start(living(crews, speaking("p q r s t u"), many), "")
    await rested(big)
    await run.change(operations=[to(big, "ann", "p", "tie")], id="tie")
    assert (await run.result(LIMIT)).surviving_run == big.id
    with pytest.raises(UsageError, match=r"continues cid of"):
        await two.reopen(execution_timeout=RUN_LIMIT)


async def test_a_namesake_where_it_came_from_keeps_nobody_from_going_on(crews: Site) -> None:
    run = await crews.start(crew_of(crews), "")
    await rested(run)
    part = await cut(crews, run, "ann", "cid")
    helper = {"prompt": "Help.", "model": crew_of(crews)["model"]}
    await run.change(operations=[AddAgent(name="helper", agent={**helper, "listen": ["x"]})])
    await part.change(operations=[AddAgent(name="helper", agent={**helper, "listen": ["y"]})])
    await stopped(part)
    await part.reopen(execution_timeout=RUN_LIMIT)
    await rested(part)
    assert (await graph(part))[0] == {"cid", "dan", "helper"}


@covers("C118")
@pytest.mark.parametrize("first", ["home", "other"])
async def test_who_was_taken_in_by_another_run_is_in_one_place(crews: Site, first: str) -> None:
    run = await crews.start(crew_of(crews), "")
    await rested(run)
    part = await cut(crews, run, "ann", "cid")
    many = {name: {"listen": ["z"], "send": ["z"]} for name in ("p", "q", "r", "s")}
    big = await crews.start(living(crews, speaking("p q r s"), many), "")
    await rested(big)
    await part.change(operations=[to(big, "cid", "p", "tie")], id="tie")
    assert (await part.result(LIMIT)).surviving_run == big.id
    await stopped(big, run)
    if first == "home":
        await run.reopen("recipe", execution_timeout=RUN_LIMIT)
        await rested(run)
        assert (await graph(run))[0] == {"ann", "bob", "eve", "cid", "dan"}
        with pytest.raises(UsageError, match=r"continues cid and dan of"):
            await big.reopen(execution_timeout=RUN_LIMIT)
        return
    await big.reopen(execution_timeout=RUN_LIMIT)
    await rested(big)
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert (await graph(big))[0] == {"cid", "dan", "p", "q", "r", "s"}
    assert (await graph(run))[0] == {"ann", "bob", "eve"}


@covers("C118")
async def test_a_run_that_goes_on_while_its_creatures_are_called_home_is_in_one_place(
    crews: Site,
) -> None:
    async def both(run: Run, part: Run) -> str:
        home = run.reopen("recipe", execution_timeout=RUN_LIMIT)
        on = part.reopen(execution_timeout=RUN_LIMIT)
        began = await asyncio.gather(home, on, return_exceptions=True)
        assert not isinstance(began[0], BaseException), "it goes on in any case"
        await rested(run)
        if "cid" not in (await graph(run))[0]:
            await rested(part)
            assert (await graph(part))[0] == {"cid", "dan"}
            assert (await graph(run))[0] == {"ann", "bob", "eve"}
            return "went on"
        assert (await graph(run))[0] == {"ann", "bob", "eve", "cid", "dan"}
        if not isinstance(began[1], UsageError):
            # The claims come one after the other: it may see one of the two, or both.
            claimed = "(cid|dan|cid and dan)"
            with pytest.raises(RunFailed, match=rf"{run.id}.* {claimed} of .*{part.id}"):
                await part.result(LIMIT)
            # Its workflow has failed, as it should, and its journal has nothing of that.
            crews.runs = [each for each in crews.runs if each.id != part.id]
        assert (await crews.entries(part))[-1].kind == "RunStopped", "nothing of it was recorded"
        # The run may not have stored yet that it continues them.
        with pytest.raises(UsageError, match=r"(continues|about to continue) cid and dan of"):
            await part.reopen(execution_timeout=RUN_LIMIT)
        return "came home"

    pairs: list[tuple[Run, Run]] = []
    for _ in range(4):
        run = await crews.start(crew_of(crews), "")
        await rested(run)
        pairs.append((run, await cut(crews, run, "ann", "cid")))
    for pair in pairs:
        await stopped(*pair)
    for pair in pairs:
        assert await both(*pair) in ("went on", "came home")
