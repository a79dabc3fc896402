"""Reading replies: every form in which a model says a decision, and whatever else it may write."""

from __future__ import annotations

import json
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covers import covers
from crewlog.canonical_json import canonical
from crewlog.definition import decisions, registering
from crewlog.definition.apply import apply_operations
from crewlog.definition.decisions import AgentIn, Decision, decision, find_decision
from crewlog.definition.expand import expand
from crewlog.definition.model import CrewDefinition
from crewlog.definition.named import named_in
from crewlog.definition.operations import RemoveAgent
from crewlog.definition.reading import MOST_HANDED, Form
from crewlog.definition.validate import all_findings
from crewlog.errors import InvalidDefinition, UsageError
from crewlog.model import Json
from pace import assert_within

NAMES = ("billing", "technician", "tech-support", "general")


def crew(reply: Any, **more: Any) -> CrewDefinition:
    agents = {"router": {"prompt": "Route.", "reply": reply, **more}}
    agents |= {name: {"prompt": "Help.", "description": f"{name} things"} for name in NAMES}
    return CrewDefinition.model_validate({"crew": "c", "model": "scripted:x", "agents": agents})


def form(reply: Any) -> Form:
    return Form.of(crew(reply), "router")


ROUTE = form("route")
SCORE = form(
    {
        "schema": {
            "type": "object",
            "required": ["score"],
            "properties": {
                "score": {"type": "number"},
                "good": {"type": "boolean"},
                "note": {"type": "string", "default": "none"},
            },
            "additionalProperties": False,
        }
    }
)


# -- as asked -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"next": "billing"}',
        '  {"next": "billing", "rationale": "", "more": [1]}\n',
        'Here it is:\n```json\n{"next": "billing"}\n```\nBye!',
        '```\n{"next": "billing"}\n```',
        'I choose {"next": "billing"} since it is about money.',
        '<think>{"next": "technician"}? no.</think>{"next": "billing"}',
        'Not {"next": "technician"}. Final answer: {"next": "billing"}',
        'a {b [1] {"next": "billing"} }',
    ],
)
def test_json_is_read_wherever_it_stands(text: str) -> None:
    read = ROUTE.read(text)
    assert (read.how, read.faults) == ("json", ())
    assert ROUTE.fields(read.value)["next"] == "billing"


# -- leniently ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"next": "Billing"}',
        '{"NEXT": "billing"}',
        '{"next_agent": "billing"}',
        '{"route": {"agent": "billing"}}',
        '{"next": "**billing**"}',
        '"billing"',
        "billing",
        "Billing.",
        "billing\n\nThe technician cannot refund anything.",
        "Next: billing. The technician may help later.",
        "I would send this to billing, since the technician has no access to invoices.",
        "I think **billing** is best; technician and general cannot refund.",
        "Not the technician: billing.",
        "billing rather than technician",
        "This is one for billing.",
    ],
)
def test_a_reply_that_names_one_agent_and_mentions_another_picks_the_named_one(text: str) -> None:
    read = ROUTE.read(text)
    assert (read.how, read.faults) == ("lenient", ()), text
    assert ROUTE.fields(read.value)["next"] == "billing"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tech support", "tech-support"),
        ("Tech_Support, please", "tech-support"),
        ("route to tech-support", "tech-support"),
        ("billing or technician", None),
        ("billing; technician irrelevant", "billing"),
        ("**Billing** - the technician repairs things", "billing"),
        ("billing; technician", None),
        ("billing, or the technician", None),
        ("billings; technician irrelevant", None),
        ("neither this nor that", None),
        ("subbilling", None),
        ("", None),
    ],
)
def test_only_what_is_clear_is_taken(text: str, name: str | None) -> None:
    assert named_in(text, NAMES) == name


JUDGED = ("approve", "reject")
ANSWERED = ("yes", "no")
SORTED = ("billing", "technician", "other")


@pytest.mark.parametrize(
    ("text", "names", "name"),
    [
        ("Reject. The code is bad.", JUDGED, "reject"),
        ("reject - it fails the tests", JUDGED, "reject"),
        ("Reject \u2014 not good", JUDGED, "reject"),
        ("REJECT\n\nThe tests failed.", JUDGED, "reject"),
        ("# Reject\n\nWe cannot approve this.", JUDGED, "reject"),
        ("**reject**", JUDGED, "reject"),
        ("**Reject**: it fails", JUDGED, "reject"),
        ("**Reject.** It fails.", JUDGED, "reject"),
        ("`reject`\nbad", JUDGED, "reject"),
        ("'reject'", JUDGED, "reject"),
        ('"Reject". It is not good.', JUDGED, "reject"),
        ("Reject, we cannot approve this", JUDGED, "reject"),
        ("Reject: sorry, it does not compile.", JUDGED, "reject"),
        ("reject the change because it fails", JUDGED, "reject"),
        ("approve the change", JUDGED, "approve"),
        ("No, it is not.", ANSWERED, "no"),
        ("Yes, it is.", ANSWERED, "yes"),
        ("Yes, but it is slow.", ANSWERED, "yes"),
        ("Other: nothing fits", SORTED, "other"),
        ("llm; memory irrelevant", ("llm", "memory"), "llm"),
    ],
)
def test_a_text_that_begins_with_one_label_is_that_label(
    text: str, names: tuple[str, ...], name: str
) -> None:
    assert named_in(text, names) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Not reject.", JUDGED),
        ("rejected", JUDGED),
        ("approve.py is bad", JUDGED),
        ("no-one: yes", ANSWERED),
        ("No idea", ANSWERED),
        ("billing should be told", SORTED),
        ("billing is busy", SORTED),
        ("billing: it is busy", SORTED),
        ("billing, technician", SORTED),
        ("- billing\n- technician", SORTED),
        ("billing and technician", SORTED),
        ("billing: 0.2; technician: 0.8", SORTED),
        ("Approve. Wait, no: reject.", JUDGED),
        ("Approve. Actually reject.", JUDGED),
        ("Technician. Hmm, or billing.", SORTED),
        ("Billing. Wait, no.", SORTED),
        ("Approve, if the tests pass", JUDGED),
        ("Approve, but only if it is tested", JUDGED),
        ("approve the change if the tests pass", JUDGED),
        ("approve the change. Wait, I found a bug.", JUDGED),
        ('"Approve", said he; I say reject', JUDGED),
        ("billing?", SORTED),
    ],
)
def test_a_text_that_begins_with_no_clear_label_is_asked_again(
    text: str, names: tuple[str, ...]
) -> None:
    assert named_in(text, names) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("I cannot decide.", "there is no JSON in it that is whole"),
        ('{"next": "nobody", "rationale": "billing is busy"}', "is not one of billing, general"),
        ('{"rationale": "hm"}', "'next' is missing"),
        ('{"next": NaN}', "no JSON in it that is whole"),
        ('{"next": "bil', "there is no JSON"),
        ("[" * 5000, "there is no JSON"),
        ('{"next": ' * 3000, "there is no JSON"),
    ],
)
def test_what_is_not_clear_is_refused_with_its_place(text: str, fault: str) -> None:
    read = ROUTE.read(text)
    assert any(fault in each for each in read.faults), read


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("strategy", "Plan then parallel, I say.", {"strategy": "plan_then_parallel"}),
        ("strategy", '{"strategy": "direct execution"}', {"strategy": "direct_execution"}),
        ("reflection", '{"proceed": "yes"}', {"proceed": True, "actions": []}),
        (
            "reflection",
            '{"proceed": false, "actions": {"agent": "Billing", "task": "again"}}',
            {"actions": [{"target": "billing", "directive": "again"}]},
        ),
        ("terminate", '{"done": true, "confidence": "85%"}', {"done": True, "confidence": 0.85}),
        ("replan", "**No.**", {"replan": False, "reason": "**No.**"}),
        ("escalate", '{"escalate": "true", "question": "May we?"}', {"escalate": True}),
    ],
)
def test_each_decision_reads_what_is_clear(name: str, text: str, expected: dict[str, Json]) -> None:
    read = form(name).read(text)
    assert read.faults == ()
    assert expected.items() <= form(name).fields(read.value).items()


# -- plans --------------------------------------------------------------------------------------


def steps(*after: list[str], agent: str = "billing") -> str:
    return json.dumps(
        [{"id": f"s{i}", "agent": agent, "task": "t", "after": a} for i, a in enumerate(after)]
    )


def test_a_list_alone_is_a_plan_and_its_steps_are_numbered() -> None:
    plan = form("plan")
    read = plan.read('[{"assignee": "BILLING", "description": "refund", "depends_on": []}]')
    assert (read.how, read.faults) == ("lenient", ())
    assert plan.fields(read.value)["steps"] == [
        {"id": "1", "agent": "billing", "task": "refund", "after": []}
    ]


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (steps([], ["s0"], agent="nobody"), "'nobody' is not one of billing"),
        (steps(["s1"], ["s0"]), "the steps s0 and s1 wait for each other"),
        (steps(["s0"]), "wait for each other"),
        (steps(["x"]), "waits for 'x', which is no step: there are s0"),
        (
            '[{"id":"a","agent":"billing","task":"t"},{"id":"a","agent":"general","task":"t"}]',
            "two",
        ),
        ("[]", "is empty"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(said: str, fault: str) -> None:
    read = form("plan").read(f'{{"steps": {said}}}')
    assert any(fault in each for each in read.faults), read


# -- schemas ------------------------------------------------------------------------------------


def test_a_schema_holds_and_fills_in_its_defaults() -> None:
    assert SCORE.fields(SCORE.read('{"score": 2}').value) == {"score": 2, "note": "none"}
    read = SCORE.read('{"score": "2.5", "good": "yes"}')
    assert (read.how, SCORE.fields(read.value)["score"]) == ("lenient", 2.5)
    for text, fault in (('{"score": [1]}', "score: "), ('{"score": 1, "x": 2}', "'x'")):
        assert any(fault in each for each in SCORE.read(text).faults), text


def test_what_is_no_object_is_the_output_value() -> None:
    numbers = form({"schema": {"type": "array", "items": {"type": "integer"}}})
    assert numbers.fields(numbers.read("so: [1, 2]").value) == {"value": [1, 2]}


@pytest.mark.parametrize("said", ["1e999", "NaN", "Infinity", '"\\ud800"', "[" * 120 + "]" * 120])
def test_nothing_is_taken_that_no_journal_can_hold(said: str) -> None:
    anything = form({"schema": {"type": "object", "properties": {"x": {}}}})
    read = anything.read(f'{{"x": {said}}}')
    if not read.faults:
        canonical(read.value).decode("ascii")
        json.dumps(read.value, ensure_ascii=False).encode()
    else:
        assert said != '"\\ud800"'


# -- whatever comes -----------------------------------------------------------------------------

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *'{}[]":,\n',
                *("```", "```json\n", "next", '"next":', '"billing"', "technician", "not "),
                *("null", "true", "1e400", "\\u0000", "\ud800", "{" * 50),
            ]
        ),
        st.text(max_size=8),
    ),
    max_size=40,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.sampled_from(sorted({"route", "plan", "reflection", "terminate", "strategy"})))
def test_no_text_raises_and_what_is_read_can_be_kept(text: str, name: str) -> None:
    found = form(name)
    read = found.read(text)
    assert bool(read.faults) == (read.value is None)
    assert all(each and len(each) <= 300 for each in read.faults)
    canonical(found.fields(read.value) if not read.faults else list(read.faults))
    if name == "route" and not read.faults:
        assert read.value["next"] in NAMES


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 60_000, "billing technician " * 20_000, "[" * 300_000, '{"next": "x", ' * 20_000],
)
def test_the_work_is_bounded(text: str) -> None:
    began = time.process_time()
    assert ROUTE.read(text).faults
    assert time.process_time() - began < 5


# -- what the agent is told ---------------------------------------------------------------------


def test_the_agent_is_told_what_it_decides_and_who_there_is() -> None:
    told = form({"decision": "route", "among": ["billing", "general"]}).instructions
    assert '"enum": ["billing", "general"]' in told
    assert "- billing: billing things" in told
    assert "technician" not in told
    assert "x-" not in told
    assert "Who there is" not in form("replan").instructions


# -- decisions of one's own -----------------------------------------------------------------------


class Triage(Decision):
    """How bad it is, and whose."""

    severity: Literal["low", "high"]
    """`high` where people cannot work."""
    owner: AgentIn
    """Who looks into it."""


def test_a_decision_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_registered", {**decisions._registered})
    decision("triage")(Triage)
    found = form("triage")
    assert "How bad it is, and whose." in found.instructions
    read = found.read('{"severity": "HIGH", "owner": "Billing"}')
    assert found.fields(read.value) == {"severity": "high", "owner": "billing"}
    with pytest.raises(UsageError, match="cannot be a decision's name"):
        decision("my triage")
    with pytest.raises(UsageError, match="two decisions are called 'route'"):
        decision("route")(Triage)
    with pytest.raises(UsageError, match=r"is no crewlog\.Decision"):
        decision("other")(int)  # type: ignore[type-var]


def test_a_decision_that_raises_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rude(Triage):
        """Rude."""

        @classmethod
        def lenient(cls, said: Json, among: Any) -> Json:
            raise RuntimeError("no")

    monkeypatch.setattr(decisions, "_registered", {**decisions._registered})
    decision("rude")(Rude)
    assert form("rude").read("hello").faults


def test_a_name_that_is_near_is_offered() -> None:
    with pytest.raises(LookupError, match="Did you mean 'route'"):
        find_decision("rout")


# -- definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "more", "fault"),
    [
        ("rout", {}, "no decision is called 'rout'"),
        ({"decision": "route", "among": ["biling"]}, {}, "'biling', which is no agent"),
        ({"decision": "route", "fallback": {"next": "x"}}, {}, "'x' is not one of"),
        ({"decision": "route", "fallback": "general"}, {}, "the fallback of agent 'router'"),
        ({"schema": {"type": "objekt"}}, {}, "the schema of the reply of agent 'router'"),
        ({"schema": {"$ref": "http://x/y"}}, {}, "never fetched"),
        (
            {"schema": {"properties": {"a": {"$ref": "#/$defs/no"}}}},
            {},
            "leads nowhere: #/$defs/no",
        ),
        ({"schema": {"properties": {"a": {"$ref": "#no"}}}}, {}, "'$ref' leads nowhere: #no"),
        ({"schema": {"properties": {"a": {"pattern": "(?=a)"}}}}, {}, "the pattern '(?=a)'"),
        ({"schema": {"properties": {"text": {}}}}, {}, "a field 'text'"),
        ({"schema": {"properties": {f"a{n}": {} for n in range(65)}}}, {}, "has 65 fields"),
        ({"schema": {"properties": {"a b": {}}}}, {}, "'a b' of the reply of agent 'router'"),
        ({"schema": {}, "among": ["billing"]}, {}, "'among' has no effect"),
        ({"decision": "plan", "tries": 5}, {"max_calls": 3}, "never asked 5 times"),
        (
            {"schema": {}, "fallback": {"long": "x" * 3000}},
            {},
            "larger than 2,000 bytes",
        ),
    ],
)
def test_what_is_wrong_with_a_reply_is_told(reply: Any, more: dict[str, Any], fault: str) -> None:
    found = all_findings(crew(reply, **more))
    assert any(fault in each.message for each in found), [each.message for each in found]


@pytest.mark.parametrize("reply", [{}, {"decision": "route", "schema": {}}])
def test_a_reply_is_a_decision_or_a_schema(reply: Any) -> None:
    with pytest.raises(ValueError, match="exactly one of `decision` and `schema`"):
        crew(reply)


def test_a_definition_survives_its_json() -> None:
    made = crew({"decision": "route", "among": ["billing"], "fallback": {"next": "billing"}})
    data = json.loads(json.dumps(made.to_json()))
    assert CrewDefinition.from_json(data) == made


def test_json_behind_many_braces_is_found() -> None:
    code = "if (x) { y[1] = {a: 2}; } " * 4000
    assert ROUTE.read(f'{code} {{"next": "billing"}}').value["next"] == "billing"


SAID = [json.loads(line) for line in (Path(__file__).parent / "said.jsonl").open()]
"""What models say, with what it must be read as: null where it is not clear, and asked again."""


def test_what_models_say_is_read_right_or_asked_again() -> None:
    """A wrong pick costs a user the wrong agent, or opens a gate; a model call is cheap."""
    forms = {
        name: (form(name), field) for name, field in (("route", "next"), ("reflection", "proceed"))
    }
    wrong, again = list[Any](), list[str]()
    for said in SAID:
        found, field = forms[said["form"]]
        read = found.read(said["text"])
        got = None if read.faults else cast("dict[str, Json]", read.value)[field]
        if got is None and said["read"] is not None:
            again.append(said["text"])
        elif got != said["read"]:
            wrong.append((said["text"], got))
    assert not wrong
    assert not again
    assert len(SAID) > 300
    assert sum(said["read"] is None for said in SAID) > len(SAID) / 2


def test_a_builder_fills_in_what_an_agent_says_of_the_same_decision() -> None:
    def expanded(reply: Any) -> Any:
        agents = {"router": {"prompt": "R.", "reply": reply}, "a": {"prompt": "A."}}
        flow = [{"use": "hub", "with": {"router": "router", "agents": ["a"]}}]
        made = {"crew": "c", "model": "scripted:x", "agents": agents, "flow": flow}
        return expand(CrewDefinition.model_validate(made)).definition.agents["router"].reply

    found = expanded({"decision": "route", "tries": 7})
    assert (found.among, found.tries) == (expanded(None).among, 7)
    assert expanded({"decision": "route", "among": ["router"]}).among == ("router",)
    assert expanded("replan").decision == "replan"


def test_an_agent_that_leaves_is_named_no_more() -> None:
    made = crew({"decision": "route", "among": ["billing", "general"]})
    left = apply_operations(made, [RemoveAgent(name="billing")])
    reply = left.agents["router"].reply
    assert reply is not None
    assert reply.among == ("general",)
    with pytest.raises(InvalidDefinition, match="'general', which is no agent"):
        apply_operations(left, [RemoveAgent(name="general")])


@covers("C40")
def test_packages_bring_decisions_and_a_broken_one_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "triage_kit.py").write_text(
        "import crewlog\n\n\n@crewlog.decision('urgency')\nclass Urgency(crewlog.Decision):\n"
        "    '''How urgent it is.'''\n\n    urgent: bool\n"
    )
    (tmp_path / "empty_kit.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    brought = [
        EntryPoint(name, value, decisions.GROUP)
        for name, value in [("u", "triage_kit"), ("lost", "no_such_kit"), ("none", "empty_kit")]
    ]
    mine = {decisions.GROUP: brought}
    monkeypatch.setattr(registering, "entry_points", lambda *, group: mine.get(group, []))
    for table in ("_registered", "_broken"):
        monkeypatch.setattr(decisions, table, {**getattr(decisions, table)})
    monkeypatch.setattr(decisions, "_loaded", set())
    assert form("urgency").read('{"urgent": "yes"}').value == {"urgent": True}
    assert {"route", "urgency", "lost"} <= decisions.decisions().keys()
    for name, why in (("lost", "importing it fails"), ("none", "makes no decision")):
        (found,) = [each for each in all_findings(crew(name)) if "decision" in each.path]
        assert why in found.message


def test_a_fault_is_told_without_what_follows_from_it() -> None:
    read = form("plan").read(f'{{"steps": {steps([], agent="bakerr")}}}')
    assert [each.partition(":")[0] for each in read.faults] == ["'steps.0.agent'"]
    assert form("plan").read('{"steps": []}').faults == ("'steps' is empty",)


def test_many_words_are_read_in_time() -> None:
    for words in (
        "to ",
        "hand it over ",
        "not the billing, ",
        "billing: ",
        "i would send this to ",
        "....",
        "!;",
        "\n- ",
        "- \n",
        " \t",
    ):
        for text in (f"{words * 5000}x", f"billing {words * 5000}x"):
            assert_within(0.8, lambda text=text: named_in(text, NAMES))


def test_no_more_is_handed_on_than_a_run_can_carry() -> None:
    schema = {"type": "object", "properties": {"context": {"type": "array"}}}
    tagged = form({"schema": schema, "tagged": {"context": "for"}})
    items = [{"n": n, "for": "billing"} for n in range(MOST_HANDED + 1)]
    assert not tagged.read(json.dumps({"context": items[1:]})).faults
    assert tagged.read(json.dumps({"context": items})).faults == (
        "'context' has 201 items, and at most 200 can be handed on at once",
    )
    assert not form({"schema": schema}).read(json.dumps({"context": items})).faults
