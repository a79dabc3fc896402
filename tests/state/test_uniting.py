"""Uniting: what was parted is whole again, and of two strangers nothing is mixed up."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from crewlog.canonical_json import hash_json
from crewlog.definition.renaming import NewNames
from crewlog.errors import ComponentConflict
from crewlog.ids import (
    AgentName,
    ContentHash,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
)
from crewlog.state.command_outcomes import OUTCOMES_KEPT, add_outcome, may_be_older
from crewlog.state.components import Rename
from crewlog.state.fold import fold
from crewlog.state.journal import MessageAdded, MessageRef
from crewlog.state.logs import merged_head
from crewlog.state.model import (
    Call,
    ChildStepProgress,
    CommandOutcome,
    CrewState,
    FrontierStep,
    Idle,
    Interrupt,
    ListElement,
    LogHead,
    Output,
    Routing,
    Turn,
    WakingMessage,
)
from crewlog.state.run_merge.surviving_state import (
    MergeNames,
    artifact_conflict,
    artifact_heads,
    log_merges,
    merged_interrupts,
    merged_state_changes,
    merged_steps,
    new_names,
    transferred_state,
)
from crewlog.state.split import original_run_changes, split_run_state
from crewlog.usage import Usage
from state.test_parting import world


@pytest.mark.parametrize("seed", range(60))
def test_what_was_parted_is_whole_again(seed: int) -> None:
    whole, share = world(seed)
    goes = split_run_state(whole, RunId("r.1"), share, whole.definition, ())
    stays = whole.model_copy(update=original_run_changes(whole, share))
    part = CrewState.from_json(transferred_state(goes))
    names = MergeNames(
        renames=NewNames(),
        nodes={node: node for node in share.nodes},
        merged_agents=frozenset(share.agents),
        visit_offsets={},
        quotas={},
    )
    both = stays.model_copy(update=merged_state_changes(stays, part, names))
    for field in (
        "frontier",
        "detached_steps",
        "visits",
        "usage",
        "quotas",
        "flags",
        "added_budgets",
        "tags",
    ):
        assert getattr(both, field) == getattr(whole, field), field
    asked = {question.id: question for question in merged_interrupts(part, names)}
    assert asked == {
        id_: question
        for id_, question in whole.interrupts.items()
        if question.step is not None and id_ not in stays.interrupts
    }
    joins = {join.log: join for join in log_merges(stays, part, names)}
    # What both have, both have from before: nothing was said since.
    assert {join.one for join in joins.values()} <= {""}
    heads = {log: head.head for log, head in stays.messages.items()}
    heads |= {log: merged_head(join.one, join.two, 41) for log, join in joins.items()}
    assert heads == {log: head.head for log, head in whole.messages.items()}


def test_what_was_said_since_is_gone_on_from_in_both() -> None:
    whole, share = world(3)
    goes = split_run_state(whole, RunId("r.1"), share, whole.definition, ())
    stays = whole.model_copy(update=original_run_changes(whole, share))
    body = hash_json("more")
    said = MessageAdded(ref=MessageRef(body=body, logs=(LogName("public"),)))
    goes = fold(goes, said)
    names = MergeNames(NewNames(), {n: n for n in share.nodes}, frozenset(share.agents), {}, {})
    (join,) = (each for each in log_merges(stays, goes, names) if each.log == "public")
    assert join.one == whole.messages[LogName("public")].head
    assert join.two == goes.messages[LogName("public")].head
    assert join.more == 4


@pytest.mark.parametrize("goes_on", ["neither", "one", "two", "both"])
def test_an_artifact_is_as_the_side_has_it_that_changed_it(goes_on: str) -> None:
    log, before = LogName("artifact:doc"), ContentHash("before")
    names = MergeNames(NewNames(), {}, frozenset(), {}, {})

    def side(name: str, length: int) -> CrewState:
        changed = goes_on in (name, "both")
        head = LogHead(head=ContentHash(name), length=length) if changed else None
        return CrewState(run=RunId(name), messages={log: head or LogHead(head=before, length=3)})

    one, two = side("one", 5), side("two", 7)
    behind = {} if goes_on == "both" else {log: before}
    if goes_on == "both":
        with pytest.raises(ComponentConflict, match=r"both changed the artifact 'doc'"):
            log_merges(one, two, names, behind)
        # What was looked at is no more what is there: it went on meanwhile.
        with pytest.raises(ComponentConflict, match="both changed"):
            log_merges(one, two, names, {log: before})
        return
    joins = log_merges(one, two, names, behind)
    assert [(j.log, j.one, j.two, j.more) for j in joins] == (
        [(log, "", "two", 4)] if goes_on == "two" else []
    )


NAMES = MergeNames(
    renames=NewNames({"a": "a-2"}, {"p": "p-2"}, {"g": "g-2"}),
    nodes={NodeName("a"): NodeName("a-2"), NodeName("b"): NodeName("b.inbox")},
    merged_agents=frozenset({AgentName("a-2"), AgentName("b")}),
    visit_offsets={NodeName("a-2"): 4},
    quotas={"k": "k2"},
)


@pytest.mark.parametrize(
    ("log", "now"),
    [
        ("public", "public"),
        ("channel:p", "channel:p-2"),
        ("channel:q", "channel:q"),
        ("group:g", "group:g-2"),
        ("readers:a+b", "readers:a-2+b"),
        ("private:a", "private:a-2"),
        ("private:a#3.7", "private:a-2#7.7"),
        ("artifact:a.notes", "artifact:a-2.notes"),
        ("artifact:doc", "artifact:doc"),
    ],
)
def test_logs_are_called_as_what_they_are_of(log: str, now: str) -> None:
    assert NAMES.log(LogName(log)) == now


def test_a_step_is_called_by_its_node_and_its_answers_with_it() -> None:
    held = {
        "kind": "ToolCallCompleted",
        "step": "a#1",
        "agent": "a",
        "ref": {"body": "x", "logs": ["private:a", "channel:p"]},
    }
    turn = Turn(calls=(Call(call=2, tool="t", status="buffered", completion=[held]),))
    entry = FrontierStep(step=StepId("a#1"), node=NodeName("a"), status="running", turn=turn)
    gone = FrontierStep(step=StepId("z#1"), node=NodeName("z"))
    part = CrewState(
        run=RunId("o"),
        frontier={entry.step: entry, gone.step: gone},
        visits={NodeName("a"): 3, NodeName("z"): 1},
        routing=Routing(completed={NodeName("a"): 2}),
        agent_outputs={AgentName("a"): {"text": Output(position=1, logs=(LogName("channel:p"),))}},
        private_context={"agent:a": {"k": 1}, "group:g": {"m": 2}},
        flags={"f": "theirs", "h": 2},  # type: ignore[dict-item]
        usage={AgentName("a"): Usage(calls=2, cost=0.5)},
        quotas={"k": 2, "m": 1},
        commands={"c1": CommandOutcome(position=3), "crewlog:x": CommandOutcome(position=4)},
    )
    state = CrewState(
        run=RunId("r"),
        visits={NodeName("a-2"): 4},
        routing=Routing(completed={NodeName("a-2"): 4}),
        flags={"f": "ours"},  # type: ignore[dict-item]
        messages={LogName("public"): LogHead(head=ContentHash("x"), length=1)},
        quotas={"k2": 1},
        usage={AgentName("a-2"): Usage(calls=1, cost=0.7)},
    )
    assert [*merged_steps(part, NAMES)] == ["a-2#5"]
    both = state.model_copy(update=merged_state_changes(state, part, NAMES))
    ((step, found),) = both.frontier.items()
    assert (step, found.step, found.node) == ("a-2#5", "a-2#5", "a-2")
    assert found.turn is not None
    assert found.turn.calls[0].completion == [
        {
            "kind": "ToolCallCompleted",
            "step": "a-2#5",
            "agent": "a-2",
            "ref": {"body": "x", "logs": ["private:a-2", "channel:p-2"]},
        }
    ]
    assert both.visits == {"a-2": 7}
    assert both.routing.completed == {"a-2": 6}
    assert both.agent_outputs[AgentName("a-2")]["text"].logs == ("channel:p-2",)
    assert both.private_context == {"agent:a-2": {"k": 1}, "group:g-2": {"m": 2}}
    assert both.flags == {"f": "ours", "h": 2}
    assert both.usage == {"a-2": Usage(calls=2, cost=0.7)}
    assert both.quotas == {"k2": 2, "m": 1}
    assert [*both.commands] == ["c1"]


def test_of_what_people_ruled_the_stricter_counts() -> None:
    own: dict[str, Any] = {"t": {"b": "deny"}, "u": {"b": "allow"}, "v": {"*": "ask"}}
    there: dict[str, Any] = {
        "t": {"b": "allow"},
        "u": {"b": "deny"},
        "v": {"a": "allow", "b": "deny"},
        "w": {"a": "ask", "z": "deny"},
        "x": {"z": "deny"},
    }
    state, part = (
        CrewState(run=RunId("r"), live_permissions=own),
        CrewState(run=RunId("o"), live_permissions=there),
    )
    assert merged_state_changes(state, part, NAMES)["live_permissions"] == {
        "t": {"b": "deny"},
        "u": {"b": "deny"},
        "v": {"*": "ask", "b": "deny"},
        "w": {"a-2": "ask"},
    }


def test_who_comes_has_its_own_values_and_what_is_shared_is_as_it_was_here() -> None:
    def values(who: str) -> Any:
        return {"agent:b": {who: 1, "both": who}, "group:h": {who: 1, "both": who}}

    state = CrewState(run=RunId("r"), private_context=values("ours"))
    part = CrewState(run=RunId("o"), private_context=values("theirs"))
    assert merged_state_changes(state, part, NAMES)["private_context"] == {
        "agent:b": {"theirs": 1, "both": "theirs"},
        "group:h": {"theirs": 1, "ours": 1, "both": "ours"},
    }


@pytest.mark.parametrize(("ours", "theirs"), [(3, 8), (8, 3)])
def test_what_was_counted_in_both_is_the_larger(ours: int, theirs: int) -> None:
    """Both count it from before they parted."""
    node = NodeName("b.inbox")
    state = CrewState(run=RunId("r"), visits={node: ours})
    part = CrewState(run=RunId("o"), visits={NodeName("b"): theirs})
    assert merged_state_changes(state, part, NAMES)["visits"][node] == 8


def test_people_are_asked_before_those_who_come_as_they_were() -> None:
    before = (NodeName("a"), NodeName("z"))
    state = CrewState(run=RunId("r"), breakpoints=(NodeName("q"),))
    part = CrewState(run=RunId("o"), breakpoints=before)
    assert merged_state_changes(state, part, NAMES)["breakpoints"] == ("q", "a-2")


def test_what_is_taken_over_is_not_what_that_run_did_as_one() -> None:
    part = transferred_state(
        CrewState(run=RunId("o"), tags={"good": 3}, error="no", steps=4, visits={NodeName("b"): 2})
    )
    assert part == {"run": "o", "visits": {"b": 2}}


def test_the_heads_of_artifacts_are_those_of_no_other_log() -> None:
    heads = {log: LogHead(head=ContentHash(log), length=1) for log in ("public", "artifact:doc")}
    state = CrewState(run=RunId("r"), messages={LogName(log): h for log, h in heads.items()})
    assert artifact_heads(state) == {"artifact:doc": "artifact:doc"}


def test_new_names_are_of_their_kind() -> None:
    kinds: tuple[Literal["agent", "channel", "group"], ...] = ("agent", "channel", "group")
    renamed = [Rename(kind=kind, run=RunId("o"), was="n", now=kind) for kind in kinds]
    names = NAMES._replace(renames=new_names(renamed))
    assert [names.log(LogName(f"{kind}:n")) for kind in ("private", "channel", "group")] == [
        "private:agent",
        "channel:channel",
        "group:group",
    ]
    assert NAMES.step(StepId("z#1")) == "z#1", "of what does not come nothing is called otherwise"


def test_logs_come_by_name_also_artifacts_that_only_the_other_run_has() -> None:
    heads = {
        LogName(log): LogHead(head=ContentHash(log), length=2) for log in ("public", "group:g")
    }
    doc = {LogName("artifact:doc"): LogHead(head=ContentHash("doc"), length=3)}
    part = CrewState(run=RunId("o"), messages={**heads, **doc})
    joins = log_merges(CrewState(run=RunId("r")), part, NAMES)
    assert [(j.log, j.one, j.two, j.more) for j in joins] == [
        ("artifact:doc", "", "doc", 3),
        ("group:g-2", "", "group:g", 2),
        ("public", "", "public", 2),
    ]
    refused = artifact_conflict(RunId("r"), RunId("o"), ["a", "b"])
    assert "both changed the artifacts 'a', 'b' since" in refused.message
    assert "give the artifacts another name" in refused.remedy


def test_what_the_surviving_run_says_of_all_holds_and_what_it_does_not_say_comes() -> None:
    log = LogName("channel:p")
    state = CrewState(
        run=RunId("r"),
        frontier={StepId("z#1"): FrontierStep(step=StepId("z#1"), node=NodeName("z"))},
        detached_steps={StepId("z#2"): FrontierStep(step=StepId("z#2"), node=NodeName("z"))},
        flags={"f": ["ours"], "i": []},  # type: ignore[dict-item]
        flag_positions={"f": ((1, 0),)},  # type: ignore[dict-item]
        shared_context={"k": "ours", "l": 1},
        added_budgets={"cost": 1.0, "wall": 7.0},
        former_names={LogName("channel:p-2"): (LogName("channel:o"),)},
        agent_outputs={AgentName("q"): {"text": Output(position=1)}},
        idle=Idle(deadline=5),
    )
    part = CrewState(
        run=RunId("o"),
        frontier={StepId("b#1"): FrontierStep(step=StepId("b#1"), node=NodeName("b"))},
        detached_steps={StepId("b#2"): FrontierStep(step=StepId("b#2"), node=NodeName("b"))},
        flags={"f": ["theirs"], "h": [2]},  # type: ignore[dict-item]
        flag_positions={"f": ((2, 0),), "h": ((3, 0),), "i": ((4, 0),)},  # type: ignore[dict-item]
        shared_context={"k": "theirs", "m": 2},
        added_budgets={"cost": 3.0, "tokens": 4.0},
        messages={
            log: LogHead(head=ContentHash("x")),
            LogName("public"): LogHead(head=ContentHash("y")),
        },
        former_names={log: (LogName("channel:n"),)},
        agent_outputs={
            AgentName("q"): {"text": Output(position=2)},
            AgentName("y"): {"text": Output(position=3)},
        },
    )
    both = state.model_copy(update=merged_state_changes(state, part, NAMES))
    assert [*both.frontier] == ["z#1", "b.inbox#1"], "who was here was first"
    assert [*both.detached_steps] == ["z#2", "b.inbox#2"]
    assert both.flag_positions == {"f": ((1, 0),), "h": ((3, 0),)}
    assert both.shared_context == {"k": "ours", "l": 1, "m": 2}
    assert both.added_budgets == {"cost": 3.0, "wall": 7.0, "tokens": 4.0}
    assert both.former_names == {"channel:p-2": ("channel:o", "channel:p", "channel:n")}
    assert {name: found["text"].position for name, found in both.agent_outputs.items()} == {
        "q": 1,
        "y": 3,
    }
    assert both.idle is None
    still = part.model_copy(update={"frontier": {}})
    alone = state.model_copy(update={"frontier": {}})
    assert merged_state_changes(alone, still, NAMES)["idle"] == Idle(deadline=5)


def test_what_either_run_was_told_is_known() -> None:
    _, older = add_outcome({}, "", "c0", CommandOutcome(position=1))
    assert older == ""
    many = {f"c{n}": CommandOutcome(position=n) for n in range(1, OUTCOMES_KEPT + 1)}
    state, part = (
        CrewState(run=RunId("r"), commands=dict(made[0]), older_commands=made[1])
        for made in (
            add_outcome(many, "", "mine", CommandOutcome(position=200)),
            add_outcome(
                {f"d{c}": o for c, o in many.items()}, "", "theirs", CommandOutcome(position=3)
            ),
        )
    )
    both = state.model_copy(update=merged_state_changes(state, part, NAMES))
    assert len(both.commands) <= OUTCOMES_KEPT
    for command in (*many, *(f"d{c}" for c in many), "mine", "theirs"):
        assert command in both.commands or may_be_older(both.older_commands, command), command
    same = CrewState(run=RunId("o"), commands={"mine": CommandOutcome(position=9)})
    found = merged_state_changes(state, same, NAMES)["commands"]
    assert found["mine"].position == 200, "of one id the surviving run's word holds"


@pytest.mark.parametrize("field", ["calls", "tool_calls", "input_tokens", "output_tokens", "cost"])
@pytest.mark.parametrize(("ours", "theirs"), [(3, 8), (8, 3)])
def test_what_each_agent_used_is_the_larger_of_both(field: str, ours: int, theirs: int) -> None:
    state = CrewState(run=RunId("r"), usage={AgentName("b"): Usage(**{field: ours})})
    part = CrewState(run=RunId("o"), usage={AgentName("b"): Usage(**{field: theirs})})
    assert merged_state_changes(state, part, NAMES)["usage"] == {"b": Usage(**{field: 8})}


@pytest.mark.parametrize(("ours", "theirs"), [("m", ""), ("", "m"), ("", "")])
def test_what_had_no_price_in_either_run_had_none(ours: str, theirs: str) -> None:
    state = CrewState(run=RunId("r"), usage={AgentName("b"): Usage(unpriced=ours)})
    part = CrewState(run=RunId("o"), usage={AgentName("b"): Usage(unpriced=theirs)})
    assert merged_state_changes(state, part, NAMES)["usage"][AgentName("b")].unpriced == (
        ours or theirs
    )


def test_a_visit_comes_with_all_that_it_names() -> None:
    held: dict[str, Any] = {"kind": "OutputSet", "step": "a#1", "logs": ["channel:p", "public"]}
    turn = Turn(calls=(Call(call=2, tool="t", status="buffered", completion=[held]),))
    parts = (ListElement(value=1, position=(1, 0), logs=(LogName("channel:p"),)),)
    was = (StepId("a#0"),)
    mapped = ChildStepProgress(
        of=1, former_steps=was, logs=(LogName("group:g"),), agents=(AgentName("a"),), elements=parts
    )
    entry = FrontierStep(
        step=StepId("a#1"),
        node=NodeName("a"),
        turn=turn,
        child_steps=mapped,
        waking_message=WakingMessage(log=LogName("channel:p"), body=ContentHash("x")),
        redirect=NodeName("b"),
    )
    (found,) = merged_steps(CrewState(run=RunId("o"), frontier={entry.step: entry}), NAMES).values()
    assert found.turn is not None
    assert found.turn.calls[0].completion == [
        {"kind": "OutputSet", "step": "a-2#5", "logs": ["channel:p-2", "public"]}
    ]
    assert found.child_steps == ChildStepProgress(
        of=1,
        former_steps=(StepId("a#0"), StepId("a#1")),
        logs=(LogName("group:g-2"),),
        agents=(AgentName("a-2"),),
        elements=(ListElement(value=1, position=(1, 0), logs=(LogName("channel:p-2"),)),),
    )
    assert found.waking_message is not None
    assert (found.waking_message.log, found.redirect) == ("channel:p-2", "b.inbox")
    same = NAMES._replace(
        renames=NewNames(), nodes={NodeName("a"): NodeName("a")}, visit_offsets={}
    )
    assert [
        *merged_steps(CrewState(run=RunId("o"), frontier={entry.step: entry}), same).values()
    ] == [entry]


def test_what_was_asked_about_steps_that_come_is_asked_about_them() -> None:
    steps = {"i1": "a#1", "i2": "z#1", "i3": "b#2.1", "i4": None}
    asked = {
        InterruptId(id_): Interrupt(
            id=InterruptId(id_), kind="ask", question="?", step=StepId(step) if step else None
        )
        for id_, step in steps.items()
    }
    found = merged_interrupts(CrewState(run=RunId("o"), interrupts=asked), NAMES)
    assert [(each.id, each.step) for each in found] == [("i1", "a-2#5"), ("i3", "b.inbox#2.1")]


@pytest.mark.parametrize(("ours", "theirs"), [(3, 8), (8, 3), (0, 8)])
def test_how_often_one_was_done_that_both_know_is_the_larger(ours: int, theirs: int) -> None:
    node = NodeName("b.inbox")
    mine = Routing(completed={node: ours} if ours else {})
    there = Routing(completed={NodeName("b"): theirs, NodeName("z"): 9})
    state, part = CrewState(run=RunId("r"), routing=mine), CrewState(run=RunId("o"), routing=there)
    assert merged_state_changes(state, part, NAMES)["routing"].completed == {node: 8}
    none = CrewState(run=RunId("o"))
    assert merged_state_changes(state, none, NAMES)["routing"] == mine


def test_of_who_comes_what_it_set_last_is_what_it_set_there() -> None:
    log, agent = LogName("channel:p"), AgentName("b")
    parts = (
        ListElement(value=1, position=(1, 0), logs=(log,)),
        ListElement(value=2, position=(2, 0)),
    )
    state = CrewState(run=RunId("r"), agent_outputs={agent: {"text": Output(position=1)}})
    there = {agent: {"notes": Output(position=2, elements=parts)}}
    part = CrewState(run=RunId("o"), agent_outputs=there)
    (output,) = merged_state_changes(state, part, NAMES)["agent_outputs"][agent].values()
    assert output.position == 2
    assert [each.logs for each in output.elements] == [("channel:p-2",), ()]


def test_an_artifact_that_was_made_shorter_is_no_longer_for_it() -> None:
    log = LogName("artifact:doc")
    mine = CrewState(run=RunId("r"), messages={log: LogHead(head=ContentHash("1"), length=5)})
    part = CrewState(run=RunId("o"), messages={log: LogHead(head=ContentHash("2"), length=3)})
    (join,) = log_merges(mine, part, NAMES, {log: ContentHash("1")})
    assert (join.one, join.two, join.more) == ("", "2", 0)
