"""What holds in every run: the journal is the truth, and everything happens once and in order."""

from __future__ import annotations

from collections import Counter
from typing import Any

from crewlog.authority.permissions import is_approval_required
from crewlog.ids import StepId, child_step_log, item_number, node_of, parent_or_self, private_log
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState
from graph.simulation import RUN, Simulation, as_json, crew_run, folded

CREWS = 100


async def crews() -> list[Simulation]:
    return [await crew_run(seed) for seed in range(CREWS)]


def has_late_arrivals(state: CrewState) -> bool:
    """Whether arrivals are to come that belong to an earlier generation of a join."""
    arrivals, generations = state.routing.arrivals, state.routing.generations
    counts = [count for starts in generations.values() for count in starts.items()]
    return any((count or 0) > arrivals.get(source, 0) for source, count in counts)


async def test_folding_the_journal_gives_the_live_state_after_every_entry() -> None:
    for sim in await crews():
        state = CrewState(run=RUN)
        live = sim.engine.journal.states  # type: ignore[attr-defined]
        for entry, then in zip(sim.journal, live, strict=True):
            state = fold(state, j.entry_from_json(entry))
            assert as_json(state) == as_json(then), entry
        assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_the_state_survives_json_at_every_position() -> None:
    for sim in await crews():
        for state in sim.engine.journal.states[::5]:  # type: ignore[attr-defined]
            assert as_json(CrewState.from_json(state.to_json())) == as_json(state)
            assert CrewState.from_json(state.to_json()) == state


async def test_the_crews_do_everything_that_the_other_tests_are_about() -> None:
    """Otherwise these tests could pass without testing anything."""
    kinds: Counter[str] = Counter()
    for sim in await crews():
        kinds.update(entry["kind"] for entry in sim.journal)
        kinds.update(entry["interrupt"]["kind"] for entry in sim.facts("InterruptRaised"))
        kinds.update("loop" for entry in sim.facts("NodesReached") if entry.get("loop"))
        kinds.update("late" for state in sim.engine.journal.states if has_late_arrivals(state))  # type: ignore[attr-defined]
        kinds.update("pool" for e in sim.facts("ParentStepStarted") if e.get("agents"))
        kinds.update("waits" for e in sim.facts("ParentStepStarted") if e.get("after"))
        kinds.update("append" for entry in sim.journal if entry.get("append"))
        kinds.update("handoff" for entry in sim.facts("ToolCallCompleted") if entry.get("goto"))
    never = {
        "ExecutionContinuedAsNew",
        "PromptReceived",
        "PromptRead",
        "PromptCompiled",
        "PromptCompileFailed",
    }
    never |= {"DefinitionEdited", "DefinitionApproved", "DefinitionRejected"}  # test_drafting.py
    never |= {"ChangeAccepted", "GraphSwapped", "SwapFailed"}  # test_swap_properties.py
    never |= {"DefinitionChanged"}  # the same
    never |= {
        "RunRolledBack",
        "RunForked",
        "RunReopened",
        "InterruptDeadlineSet",
    }  # test_rewinding.py
    never |= {"ArtifactOperationsApplied", "ArtifactOperationsRefused"}  # test_artifacts.py
    never |= {
        "BranchTargetRefused",
        "ExchangeStarted",
        "ExchangeEnded",
        "MessageQueued",
        "IdleDeadlineSet",
    }  # test_talks.py, test_routes.py
    never |= {
        "StructuredOutputParsed",
        "StructuredOutputRejected",
        "TurnLimitReached",
    }  # test_replies.py
    never |= {"AddressedItemUndelivered"}  # test_handoffs.py
    never |= {"AgentsWoken", "IdleStarted", "ComponentChanged"}  # test_listening.py
    never |= {"MergeRequested", "MergeAccepted", "MergeFrozen", "MergeFailed", "RunEndedByMerge"}
    # tests/state/test_run_merge_rules.py
    never |= {"RunMerged"}  # test_taking_in.py
    never |= {"LogsMerged"}  # tests/store/test_joined_logs.py
    wanted = {kind for kind in _entry_kinds() if kind not in never}
    wanted |= {"ask", "requirement", "step_failed", "outcome_unknown", "limit", "manual"}
    wanted |= {"tool_approval", "append"}
    wanted |= {"loop", "late", "handoff", "pool", "waits"}
    assert not wanted - set(kinds)
    assert min(kinds[kind] for kind in wanted) >= 2


def _entry_kinds() -> set[str]:
    classes = [j.Entry]
    for found in classes:
        classes += found.__subclasses__()
    return {found.__name__ for found in classes[1:] if "kind" in found.model_fields}


async def test_visits_never_repeat() -> None:
    for sim in await crews():
        reached = Counter(to["node"] for e in sim.facts("NodesReached") for to in e.get("to", ()))
        assert reached == Counter(sim.state.visits)
        for kind in ("StepStarted", "StepCompleted", "StepCancelled"):
            assert max(Counter(e["step"] for e in sim.facts(kind)).values(), default=0) <= 1


async def test_a_node_has_one_visit_under_way_at_a_time() -> None:
    for sim in await crews():
        under_way: dict[str, str] = {}
        for entry in sim.journal:
            step = entry.get("step", "")
            if entry["kind"] in ("StepStarted", "ParentStepStarted"):
                visit = parent_or_self(step)
                assert under_way.setdefault(node_of(step), visit) == visit
            elif entry["kind"] in ("StepCompleted", "StepCancelled") and not item_number(step):
                under_way.pop(node_of(step), None)


async def test_a_mapped_visit_has_a_step_for_each_item_and_ends_with_the_last() -> None:
    seen: Counter[int] = Counter()
    for sim in await crews():
        cut = {entry["step"] for entry in sim.facts("StepRedirected")}
        maps = {e["step"]: e["of"] for e in sim.facts("ParentStepStarted") if e["step"] not in cut}
        after = {e["step"]: e["after"] for e in sim.facts("ParentStepStarted") if e.get("after")}
        done: set[str] = set()
        started: dict[str, list[int]] = {visit: [] for visit in maps}
        left: dict[str, int] = dict(maps)
        for entry in sim.journal:
            step = entry.get("step") or ""
            if step and parent_or_self(step) in cut:
                continue  # people ended it before its items
            if entry["kind"] == "StepStarted" and item_number(step):
                visit = parent_or_self(step)
                started[visit].append(item_number(step))
                waited = after[visit][item_number(step) - 1] if visit in after else ()
                assert done >= {f"{visit}.{number}" for number in waited}
            elif entry["kind"] == "StepCompleted" and item_number(step):
                left[parent_or_self(step)] -= 1
                done.add(step)
            elif entry["kind"] == "StepCompleted" and step in maps:
                assert left[step] == 0, "the visit was completed before its items"
                numbers = sorted(started[step]) if step in after else started[step]
                assert numbers == list(range(1, maps[step] + 1))
                seen[maps[step]] += 1
            elif entry["kind"] == "NodesReached" and entry.get("source"):
                assert not item_number(entry["source"]), "no item routes on"
        completed = Counter(
            node_of(entry["step"])
            for entry in sim.facts("StepCompleted")
            if not item_number(entry["step"])
        )
        routed = Counter(
            entry["source"] for entry in sim.facts("NodesReached") if entry.get("source")
        )
        for node in {node_of(StepId(visit)) for visit in maps}:
            ends = completed[node] - routed[node]  # a visit that fails the run does not route on
            assert ends == 0 or sim.state.status == "failed"
        for visit, numbers in started.items():
            assert visit in after or numbers == list(range(1, len(numbers) + 1)), visit
        assert not [log for log in sim.state.messages if "#" in log] or sim.state.frontier
    assert {1, 3, 4} <= set(seen)


async def test_no_call_is_made_that_nobody_has_approved() -> None:
    for sim in await crews():
        plan = sim.engine.plan
        agents = {e["step"]: e.get("agent", "") for e in sim.facts("StepStarted")}
        raised = {e["interrupt"]["id"]: e["interrupt"] for e in sim.facts("InterruptRaised")}
        approved = {
            (raised[e["interrupt"]]["step"], raised[e["interrupt"]].get("call"))
            for e in sim.facts("InterruptAnswered")
            if raised[e["interrupt"]]["kind"] == "tool_approval" and e["decision"] == "approve"
        }
        calls = {
            (e["step"], c["call"]): c
            for e in sim.facts("ModelCallCompleted")
            for c in e.get("calls", ())
        }
        for step, number, _ in sim.made:
            call, agent = calls.get((step, number)), agents[step]
            if call is not None and is_approval_required(agent, call["tool"], plan.approvals):
                assert (step, number) in approved


async def test_no_turn_works_in_the_log_of_another_step() -> None:
    for sim in await crews():
        for entry in sim.journal:
            if entry["kind"] not in ("ModelCallCompleted", "ToolCallCompleted"):
                continue
            working = [log for log in entry["ref"]["logs"] if log.startswith("private:")]
            final = entry["kind"] == "ModelCallCompleted" and not entry.get("calls")
            own = private_log(entry["agent"])
            child = bool(item_number(entry["step"]))
            log = child_step_log(entry["step"]) if child and not final else own
            assert set(working) <= {log}


async def test_every_result_is_applied_once_and_tools_in_call_order() -> None:
    for sim in await crews():
        assert len(set(sim.made)) == len(sim.made)
        applied: list[tuple[str, int]] = []
        asked: dict[str, list[int]] = {}
        for entry in sim.journal:
            if entry["kind"] == "ModelCallCompleted":
                calls = [call["call"] for call in entry.get("calls", ())]
                assert not asked.get(entry["step"]), "the last batch is not over"
                asked[entry["step"]] = calls
                applied.append((entry["step"], entry["call"]))
            elif entry["kind"] == "ToolCallCompleted":
                assert asked[entry["step"]].pop(0) == entry["call"]
                applied.append((entry["step"], entry["call"]))
        assert len(set(applied)) == len(applied)


async def test_a_run_ends_with_nothing_left_or_says_why() -> None:
    ends = {"completed": "RunCompleted", "failed": "RunFailed", "stopped": "RunStopped"}
    for sim in await crews():
        state = sim.state
        assert state.is_ended
        assert not state.interrupts
        assert not state.frontier or state.status == "failed"
        last = [e["kind"] for e in sim.journal if e["kind"] != "CommandRejected"][-1]
        assert last == ends[state.status]


async def test_questions_are_answered_once_and_numbered_without_gaps() -> None:
    for sim in await crews():
        raised = [entry["interrupt"]["id"] for entry in sim.facts("InterruptRaised")]
        answered = [entry["interrupt"] for entry in sim.facts("InterruptAnswered")]
        assert raised == [f"i{n}" for n in range(1, len(raised) + 1)]
        assert len(set(answered)) == len(answered)
        assert set(answered) <= set(raised)


async def test_no_question_outlives_its_step() -> None:
    for sim in await crews():
        for state in sim.engine.journal.states:  # type: ignore[attr-defined]
            if state.is_ended or state.status == "stopping":
                continue
            steps = {q.step for q in state.interrupts.values() if q.step is not None}
            assert steps <= set(state.frontier)


async def test_commands_have_one_outcome_each() -> None:
    for sim in await crews():
        named: list[Any] = [e["command"] for e in sim.journal if e.get("command") is not None]
        assert len(set(named)) == len(named)
        assert named == list(sim.state.commands)
