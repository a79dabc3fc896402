"""Ways to say one thing: each construction in many wordings, against the statement it is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from crewlog.prompt.ast import PromptAst
from crewlog.prompt.compile import compiled
from crewlog.prompt.grammar import read
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate(
    {
        "models": ["openai:gpt-5"],
        "tools": {
            "write_file": {"run": "a:b", "words": ["save files"]},
            "deploy": {"run": "a:c", "risk": "high", "words": ["roll out"]},
            "web_search": {"run": "a:d", "words": ["search the web"]},
        },
    }
)
CREW = "The writer drafts the text. The checker reads it. "


def said(text: str, kind: str) -> list[dict[str, Any]]:
    reading: PromptAst = read(text, REGISTRY).ast
    out: list[dict[str, Any]] = []
    for statement in reading.statements:
        if statement.kind == kind:
            found = statement.model_dump(mode="json", exclude_defaults=True)
            found.pop("words", None)
            out.append(found)
    return out


NOT_APPROVED = {"of": {"name": "approved"}}


@pytest.mark.parametrize(
    "words",
    [
        "unless approved, back to the writer, at most 3 times, otherwise ask me",
        "If it isn't approved, it goes back to the writer, no more than three times; after that ask me",
        "If not approved, go back to the writer (max 3 times), otherwise ask a human",
        "Unless it is approved, return to the writer, up to three times, or else ask me",
        "If it's not approved, the writer tries again, at most 3 times, then ask me",
        "If it is not approved, kick it back to the writer, 3 rounds max, otherwise ask me",
        "If it has not been approved, send it back to the writer, three times at most, otherwise ask me",
        "Unless approved, start over with the writer, not more than 3 times, otherwise ask me",
        "If it is not approved, the writer revises it, at most 3 times, otherwise ask me",
        "The writer and the checker repeat this until approved, at most 3 times, otherwise ask me",
        "Loop until approved, at most 3 times, otherwise ask me",
    ],
)
def test_back(words: str) -> None:
    (found,) = said(f"{CREW}{words}.", "back")
    assert found["condition"] == NOT_APPROVED
    assert (found["at_most"], found["otherwise"]) == (3, "ask_human")
    assert found.get("to", found.get("group", ["?"])[0]) == "writer"


@pytest.mark.parametrize(
    ("words", "agents"),
    [
        ("the topic is sport and the checker's score is below 5", [None, "checker"]),
        ("the writer's topic is sport and the checker's score is below 5", ["writer", "checker"]),
        ("the writer's topic is sport or the checker rejects it", ["writer", "checker"]),
        ("the totals match and the writer's score is below 5", [None, "writer"]),
        ("the totals match and the checker says that it is harmless", [None, "checker"]),
        ("the draft is ready and it is harmless", [None, None]),
    ],
)
def test_a_condition_on_what_several_decide(words: str, agents: list[str | None]) -> None:
    (back,) = said(f"{CREW}If {words}, go back to the writer, at most 3 times.", "back")
    assert [fact.get("agent") for fact in back["condition"]["of"]] == agents
    (stop,) = said(f"{CREW}If {words}, stop.", "stop")
    assert stop["condition"] == back["condition"]


@pytest.mark.parametrize("link", [", then", " and then", " and", ", and"])
def test_a_review_of_its_own_behind_what_it_does(link: str) -> None:
    text = f"The writer drafts it{link} reviews its own work, at most 2 times."
    assert said(text, "step") == [{"parts": [{"agent": "writer", "task": "drafts it"}]}]
    (inside,) = said(text, "inside")
    assert (inside["use"], inside["options"]) == ("review_loop", {"rounds": 2})


@pytest.mark.parametrize(
    "words",
    [
        "The planner plans, then the coder codes, and finally the tester tests it.",
        "First the planner plans. Next the coder codes. Lastly the tester tests it.",
        "Planner -> coder -> tester",
        "The planner kicks off, followed by the coder, and then it's the tester's turn.",
        "1. The planner plans.\n2. The coder codes.\n3. The tester tests.",
        "- Planner: plans the work\n- Coder: writes the code\n- Tester: tests the code",
        "First the planner plans, second the coder codes, third the tester tests.",
        "Have the planner plan it. Then let the coder code it. Afterwards have the tester test it.",
        "The plan is drawn up by the planner, the code is written by the coder, and the tester tests it.",
        "The planner plans and hands over to the coder, who codes; after that the tester takes over.",
    ],
)
def test_one_after_the_other(words: str) -> None:
    steps = said(words, "step")
    assert [p["agent"] for s in steps for p in s["parts"]] == ["planner", "coder", "tester"]
    assert all("place" not in s and "after" not in s for s in steps)


@pytest.mark.parametrize(
    "words",
    [
        "The designer and the developer work in parallel.",
        "The designer draws the screens; meanwhile the developer builds the models.",
        "While the designer draws the screens, the developer builds the models.",
        "The designer draws the screens while the developer builds the models.",
        "The designer draws the screens and, at the same time, the developer builds the models.",
        "In parallel, the designer draws the screens and the developer builds the models.",
        "The designer and the developer simultaneously prepare the launch.",
        "The screens are drawn by the designer, while the models are built by the developer.",
    ],
)
def test_side_by_side(words: str) -> None:
    steps = said(words, "step")
    assert [p["agent"] for s in steps for p in s["parts"]] == ["designer", "developer"]
    assert len(steps) == 1 or [s.get("place") for s in steps] == [None, "beside"]


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("Once both are done, the editor edits", {}),
        ("When they're both finished, the editor edits", {}),
        ("After both finish, the editor takes over", {}),
        ("As soon as any of them is done, the editor edits", {"join": "any"}),
        ("As soon as either is finished, the editor gets to work", {"join": "any"}),
        ("When two of them are done, the editor edits", {"join": 2}),
        ("After the writer finishes, the editor edits", {"of": ["writer"]}),
        ("The editor starts once the writer is done", {"of": ["writer"]}),
        ("The editor waits for the writer", {"of": ["writer"]}),
        ("The editor edits as soon as the writer has finished", {"of": ["writer"]}),
    ],
)
def test_waits(words: str, after: dict[str, Any]) -> None:
    *_, last = said(f"{CREW}{words}. The editor is kind.", "step")
    assert last["parts"][0]["agent"] == "editor"
    assert last["after"] == after


@pytest.mark.parametrize(
    "words",
    [
        "Only the writer may write files",
        "Nobody but the writer may use write_file",
        "No one except the writer can write files",
        "write_file may only be used by the writer",
        "write_file is only for the writer",
        "The writer alone may write files",
        "The writer is the only one who may write files",
        "The writer may use write_file, and nobody else may use it",
        "Only the writer is allowed to save files",
        "Only the writer has access to write_file",
    ],
)
def test_only(words: str) -> None:
    (found,) = said(f"{CREW}{words}.", "allow")
    assert found == {"agents": ["writer"], "tools": ["write_file"], "only": True}


@pytest.mark.parametrize(
    "words",
    [
        "The writer may not use deploy",
        "The writer must not roll out",
        "The writer can't use deploy",
        "The writer isn't allowed to use deploy",
        "Never let the writer use deploy",
        "deploy is off limits for the writer",
        "The writer is not permitted to deploy",
    ],
)
def test_deny(words: str) -> None:
    (found,) = said(f"{CREW}{words}.", "deny")
    assert found == {"agents": ["writer"], "tools": ["deploy"]}


@pytest.mark.parametrize(
    "words",
    [
        "Ask me before the checker starts",
        "I approve the text before the checker reads it",
        "Wait for my approval before the checker starts",
        "Before the checker starts, ask me",
        "The checker needs my approval",
        "The checker waits for my go-ahead",
        "The checker only starts after I have approved",
        "Before the checker reads it, I want to approve it",
    ],
)
def test_ask_before(words: str) -> None:
    (found,) = said(f"{CREW}{words}.", "ask")
    assert found["before"] == "checker"


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        ("When unsure, ask a human.", "gate", {}),
        ("Whenever an agent is unsure, it should ask a human.", "gate", {}),
        ("If the checker isn't sure, it asks me.", "gate", {"agents": ["checker"]}),
        ("The checker asks a human when in doubt.", "gate", {"agents": ["checker"]}),
        ("If its confidence is below 70 %, ask me.", "gate", {"agents": ["checker"], "below": 0.7}),
        ("deploy needs my approval.", "ask_tool", {"tools": ["deploy"]}),
        ("Ask me before anyone uses deploy.", "ask_tool", {"tools": ["deploy"]}),
        ("Never use deploy without asking me.", "ask_tool", {"tools": ["deploy"]}),
        ("If the writer fails, continue without it.", "on_error", {"agents": ["writer"], "policy": "continue"}),
        ("Should the writer crash, stop.", "on_error", {"agents": ["writer"], "policy": "fail"}),
        ("Ask me if the writer fails.", "on_error", {"agents": ["writer"], "policy": "ask"}),
        ("No more than 3 agents may work in parallel.", "limit", {"what": "parallel", "most": 3}),
        ("The run has a maximum of 40 steps.", "limit", {"what": "steps", "most": 40}),
        ("The checker is turned off for the moment.", "switch", {"agents": ["checker"]}),
        ("The writer runs on gpt-5.", "model", {"agents": ["writer"], "model": "openai:gpt-5"}),
        ("Only the checker sees the writer's notes.", "sees", {"agents": ["checker"], "whose": ["writer"]}),
        ("Keep the writer's drafts from the checker.", "sees", {"agents": ["checker"], "whose": ["writer"], "hidden": True}),
        ("The checker works blind.", "sees", {"agents": ["checker"], "hidden": True}),
        ("The writer double-checks its own work, up to three times.", "inside", {"agent": "writer", "use": "review_loop", "options": {"rounds": 3}}),
        ("The writer plans first and then executes the plan.", "inside", {"agent": "writer", "use": "planner_executor"}),
    ],
)  # fmt: skip
def test_rules(words: str, kind: str, expected: dict[str, Any]) -> None:
    assert said(f"{CREW}{words}", kind) == [expected]


@pytest.mark.parametrize(
    ("words", "before"),
    [
        ("I would be grateful if you asked me before the writer starts", "writer"),
        ("I'd like you to ask me before the checker starts", "checker"),
        ("I'd appreciate it if you checked with me before the writer starts", "writer"),
        ("Could you please ask me before the writer starts?", "writer"),
        ("You always ask me before the writer starts", "writer"),
        ("I've got to approve it before the writer starts", "writer"),
        ("I am to be asked before the writer starts", "writer"),
        ("The mailer mails it, though not before I've approved the text", "mailer"),
        ("The mailer, provided I say yes, mails it to the printers", "mailer"),
        ("Once I've approved, the mailer mails it to the printers", "mailer"),
        ("The mailer mails it; please check with me beforehand", "mailer"),
        ("Show me the report before the mailer mails it", "mailer"),
        ("Show it to me before the mailer mails it", "mailer"),
        ("The checker shows me the report before the mailer mails it", "mailer"),
        ("I want to see the final text before the mailer mails it", "mailer"),
        ("I'd like to read the report before the mailer mails it", "mailer"),
        ("Wake me before the mailer mails it", "mailer"),
    ],
)
def test_people_are_asked_however_politely(words: str, before: str) -> None:
    (asked,) = said(f"{CREW}{words}.", "ask")
    assert asked["before"] == before


def agents_of(step: dict[str, Any]) -> list[str]:
    return [part["agent"] for part in step["parts"]]


@pytest.mark.parametrize(
    ("words", "agents"),
    [
        ("We've got the engineer preparing the room", [["engineer"]]),
        ("Get the fact checker to hold it against the sources", [["fact_checker"]]),
        ("Have it looked over by the reviewer", [["reviewer"]]),
        (
            "It is read by the editor, and last of all the typesetter sets it",
            [["editor"], ["typesetter"]],
        ),
        ("Oh, and the editor reads it, of course", [["editor"]]),
        ("Good afternoon. The editor reads it, twelve times at most", [["editor"]]),
        ("Using web_search, the scout looks for news", [["scout"]]),
        ("Every week our columnist comes up with a column", [["columnist"]]),
        ("The editor, who's a stickler for grammar, goes through it", [["editor"]]),
        ("The editor reads it and hands it on to the printer", [["editor"], ["printer"]]),
        ("The tester searches the web, the editor writes", [["tester"], ["editor"]]),
        ("Unless the numbers match, the auditor then recomputes everything", [["auditor"]]),
    ],
)
def test_whom_a_sentence_puts_to_work(words: str, agents: list[list[str]]) -> None:
    assert [agents_of(step) for step in said(f"{words}.", "step")] == agents


@pytest.mark.parametrize(
    ("words", "each"),
    [
        ("The planner splits the job into tasks, and each task goes to a coder", "tasks"),
        ("A summary of each source is written by a coder", "sources"),
        ("Every source is read by a coder", "sources"),
        ("Every source is read by the coder", None),
    ],
)
def test_one_for_each(words: str, each: str | None) -> None:
    assert said(f"{words}.", "step")[-1]["parts"][0].get("for_each") == each


@pytest.mark.parametrize(
    ("words", "condition"),
    [
        ("If the customer's angry, the helper calls", {"name": "customer_angry", "about": "customer"}),
        ("If the score's under 0.8, the helper calls", {"name": "score", "operator": "<", "value": 0.8}),
        ("The helper calls if the priority's high", {"name": "priority", "operator": "==", "value": "high"}),
        ("If the priority's medium, the helper calls", {"name": "priority", "operator": "==", "value": "medium"}),
        ("Approved? Then the helper calls", {"name": "approved"}),
        ("Is it approved? If so, the helper calls", {"name": "approved"}),
        ("If the smoke tests fail, the helper calls", {"name": "smoke_tests_fail"}),
        ("The helper, if it is approved, calls", {"name": "approved"}),
    ],
)  # fmt: skip
def test_conditions_as_they_are_spoken(words: str, condition: dict[str, Any]) -> None:
    (part,) = said(f"{CREW}{words}.", "step")[-1]["parts"]
    found = part["only_if"]
    assert {key: found[key] for key in condition if key in found} == condition


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        ("deploy may be used by nobody", "deny", {"tools": ["deploy"]}),
        ("Files may be saved only by the writer", "allow",
         {"agents": ["writer"], "tools": ["write_file"], "only": True}),
        ("Don't let anyone but the writer use deploy", "allow",
         {"agents": ["writer"], "tools": ["deploy"], "only": True}),
        ("The writer and the checker may search the web, and neither may deploy", "deny",
         {"agents": ["writer", "checker"], "tools": ["deploy"]}),
        ("The checker's switched off", "switch", {"agents": ["checker"]}),
        ("The checker is, for now, switched off", "switch", {"agents": ["checker"]}),
        ("Carry on without the checker if it fails", "on_error",
         {"agents": ["checker"], "policy": "continue"}),
        ("Max. 200 steps", "limit", {"what": "steps", "most": 200}),
        ("The writer may deploy but has to run everything past me first", "ask_tool",
         {"agents": ["writer"], "tools": ["deploy"]}),
        ("The checker looks for news (web_search)", "allow",
         {"agents": ["checker"], "tools": ["web_search"]}),
    ],
)  # fmt: skip
def test_rules_as_people_say_them(words: str, kind: str, expected: dict[str, Any]) -> None:
    found = said(f"{CREW}{words}.", kind)[-1]
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    "words",
    [
        "If the moon and quux why, back to the writer",
        "If the moon and quux why, publish it: the helper does that",
        "Otherwise the helper calls",
        "Everything else goes to the helper",
    ],
)
def test_what_hangs_on_words_not_understood_is_reported(words: str) -> None:
    reading = read(f"{CREW}{words}. The helper may search the web.", REGISTRY)
    steps = [agents_of(s.model_dump()) for s in reading.ast.statements if s.kind == "step"]
    assert steps == [["writer"], ["checker"]]
    assert "not_understood" in {remark.code for remark in reading.remarks}


PARALLEL = "The scout and the archivist work in parallel"


@pytest.mark.parametrize(
    "words",
    [
        f"{PARALLEL}. The scout uses web_search to find news. The archivist reads the feeds.",
        f"{PARALLEL}: the scout finds news, and the archivist reads the feeds.",
        f"{PARALLEL}, the scout finds news, the archivist reads the feeds.",
        "In parallel, the scout and the archivist work: the scout finds news, the archivist reads.",
        f"{PARALLEL}. Both write down what they find.",
    ],
)
def test_what_each_of_those_side_by_side_does_is_no_phase_of_its_own(words: str) -> None:
    prompt = f"{words} Then the editor picks."
    found = compiled(prompt, read(prompt, REGISTRY).ast, REGISTRY).definition
    assert found is not None
    assert found.to_json()["flow"] == [["scout", "archivist"], "editor"]
    assert all("Your part: " in found.agents[name].prompt for name in ("scout", "archivist"))


GRADED = "The writer drafts a report. The grader grades it. "


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("While the grade is under 8, the writer rewrites the report", None),
        ("While the grade is under 8, the writer rewrites the report, at most 4 times", 4),
        ("While the grade is under 8, the writer works on it (at most 4 times)", 4),
        ("While the grade is under 8, back to the writer, at most 4 times", 4),
        ("The writer rewrites it while the grade is under 8, at most 4 times", 4),
        (
            "While the grade is under 8 (and fewer than four rounds were done), the writer revises",
            4,
        ),
        ("While the grade is under 8 and fewer than 4 rounds were done, the writer revises it", 4),
    ],
)
def test_a_while_that_is_no_work_is_a_loop(words: str, most: int | None) -> None:
    (back,) = said(f"{GRADED}{words}.", "back")
    assert back["condition"] == {"name": "grade", "operator": "<", "value": 8}
    assert (back["to"], back.get("at_most")) == ("writer", most)
    assert len(said(f"{GRADED}{words}.", "step")) == 2


@pytest.mark.parametrize(
    "words",
    [
        "While the moon is full or so, the publisher publishes",
        "While the grade is under 8, the publisher publishes",
        "If the tests fail twice, stop",
        "If the tests have failed for the second time, the publisher publishes",
        "Once the tests have failed three times in a row, stop",
        "If the grade is under 8 (or the like), the publisher publishes",
    ],
)
def test_what_no_condition_can_hold_is_reported_with_its_clause(words: str) -> None:
    reading = read(f"{GRADED}{words}.", REGISTRY)
    assert len(reading.ast.statements) == 2, reading.ast.statements
    assert {remark.code for remark in reading.remarks} == {"not_understood"}


@pytest.mark.parametrize(
    "words",
    ["while the painter paints", "while the pictures are drawn by the painter"],
)
def test_a_while_of_work_is_side_by_side(words: str) -> None:
    prompt = f"The writer drafts, {words}. The editor reads."
    found = compiled(prompt, read(prompt, REGISTRY).ast, REGISTRY).definition
    assert found is not None
    assert [sorted(item) for item in found.to_json()["flow"][:1]] == [["painter", "writer"]]


REVIEWED = "The writer drafts. The lawyer and the editor review it in parallel. "


@pytest.mark.parametrize(
    ("words", "when"),
    [
        ("If both approve, stop", "lawyer.approved and editor.approved"),
        ("If both the lawyer and the editor approve, stop", "lawyer.approved and editor.approved"),
        ("If both of them have approved it, stop", "lawyer.approved and editor.approved"),
        ("If they both approve, stop", "lawyer.approved and editor.approved"),
        ("Unless both approve, stop", "not (lawyer.approved and editor.approved)"),
        ("If not both approve, stop", "not (lawyer.approved and editor.approved)"),
        ("If either rejects it, stop", "lawyer.rejected or editor.rejected"),
        ("If one of them rejects it, stop", "lawyer.rejected or editor.rejected"),
        ("If neither approves, stop", "not (lawyer.approved or editor.approved)"),
        ("If none of them approves, stop", "not (lawyer.approved or editor.approved)"),
    ],
)
def test_what_a_group_decides_each_of_it_decides(words: str, when: str) -> None:
    prompt = f"{REVIEWED}{words}. The mailer sends it."
    found = compiled(prompt, read(prompt, REGISTRY).ast, REGISTRY).definition
    assert found is not None
    assert {"if": when, "go": "end"} in found.to_json()["flow"]
    assert found.agents["lawyer"].writes_flags == found.agents["editor"].writes_flags


def test_both_are_the_last_two_that_worked() -> None:
    prompt = "The writer drafts. The lawyer reads it. The editor reads it. If both approve, stop."
    (stop,) = said(prompt, "stop")
    assert [fact["agent"] for fact in stop["condition"]["of"]] == ["lawyer", "editor"]


def test_both_of_three_side_by_side_are_nobody() -> None:
    prompt = "The writer, the lawyer and the editor work in parallel. If both approve, stop."
    reading = read(prompt, REGISTRY)
    assert [s.kind for s in reading.ast.statements] == ["step"]
    assert [remark.code for remark in reading.remarks] == ["not_understood"]


def test_as_soon_as_somebody_rejects_it_is_a_loop() -> None:
    words = "As soon as one of them rejects it, the writer redoes it, at most 3 times."
    (back,) = said(f"{REVIEWED}{words}", "back")
    assert (back["to"], back["at_most"]) == ("writer", 3)
    assert [fact["agent"] for fact in back["condition"]["of"]] == ["lawyer", "editor"]


@pytest.mark.parametrize(
    "words",
    ["back to the lawyer and the editor", "the lawyer and the editor try again"],
)
def test_a_loop_back_to_several_side_by_side_is_an_error(words: str) -> None:
    prompt = f"{REVIEWED}The judge decides. If it is rejected, {words}, at most 3 times."
    found = compiled(prompt, read(prompt, REGISTRY).ast, REGISTRY)
    assert not found.ok
    assert "not_understood" in [remark.code for remark in found.remarks]


def test_a_loop_back_to_several_in_a_row_goes_to_the_first() -> None:
    words = "If it is rejected, back to the writer and the editor, at most 3 times."
    prompt = f"The writer drafts. The editor edits. The judge decides. {words}"
    found = compiled(prompt, read(prompt, REGISTRY).ast, REGISTRY).definition
    assert found is not None
    assert found.to_json()["flow"][-1] == {"if": "rejected", "go": "writer", "at_most": 3}


@pytest.mark.parametrize(
    "words",
    [
        "Neither may see the other's review. Then the mailer mails it",
        "Neither of them may see the other's notes. Then the mailer mails it",
        "Then the mailer mails it. Neither reviewer may see the other's review",
    ],
)
def test_neither_sees_the_work_of_the_other(words: str) -> None:
    both = "The pro reviewer and the con reviewer review the note in parallel."
    assert said(f"{both} {words}.", "sees") == [
        {"agents": ["pro_reviewer"], "whose": ["con_reviewer"], "hidden": True},
        {"agents": ["con_reviewer"], "whose": ["pro_reviewer"], "hidden": True},
    ]


def test_neither_of_nobody_in_particular_is_reported() -> None:
    text = "The writer and the editor write it in parallel. Then the mailer mails it."
    reading = read(f"{text} Neither may see the other's notes.", REGISTRY)
    assert not [s for s in reading.ast.statements if s.kind == "sees"]
    assert [remark.code for remark in reading.remarks] == ["not_understood"]


@pytest.mark.parametrize(
    "words", ["I want to see the final text", "Show me the report", "I'd like to check it"]
)
def test_what_people_want_to_see_is_a_question_where_it_is_said(words: str) -> None:
    reading = read(f"{CREW}{words}. Then the mailer mails it.", REGISTRY)
    assert [s.kind for s in reading.ast.statements] == ["step", "step", "ask", "step"]
    assert not reading.remarks


@pytest.mark.parametrize("words", ["I want to see a table", "Show me how it is done"])
def test_what_people_would_like_there_to_be_is_no_question(words: str) -> None:
    reading = read(f"{CREW}{words}.", REGISTRY)
    assert not [s for s in reading.ast.statements if s.kind == "ask"]
    assert "not_understood" in {remark.code for remark in reading.remarks}


@pytest.mark.parametrize(
    "between",
    [
        "Blurt the report out of the window",
        "The editor edits the text",
        "deploy needs my approval",
        "When unsure, ask a human",
    ],
)
def test_a_no_belongs_to_the_question_just_before(between: str) -> None:
    asked = f"{CREW}Ask me whether the tone is right."
    no = "If I say no, back to the writer."
    (found,) = said(f"{asked} {no}", "ask")
    assert found["reject_to"] == "writer"
    reading = read(f"{asked} {between}. {no}", REGISTRY)
    (ask,) = [s for s in reading.ast.statements if s.kind == "ask"]
    assert ask.reject_to is None
    assert "not_understood" in {remark.code for remark in reading.remarks}


def test_what_is_approved_every_time_and_is_no_tool_is_said_to_be_asked_once() -> None:
    reading = read(f"{CREW}I approve every draft.", REGISTRY)
    assert reading.ast.statements[-1].kind == "ask"
    assert [remark.code for remark in reading.remarks] == ["read_as_words"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Blimey the checker, ask the moon", "ask"),
        ("Let the moon know of the checker and tell us", "ask"),
        ("No approval of the moon, no deploy for the checker", "ask_tool"),
        ("Hardly ever may the checker roll out", "ask_tool"),
        ("Never mind that the checker may hardly roll out", "deny"),
        ("Round and round until the writer is blue", "back"),
        ("When the moon and quux why, the writer", "step"),
    ],
)
def test_the_remedy_is_a_sentence_that_is_read(words: str, kind: str) -> None:
    (remark,) = [r for r in read(f"{CREW}{words}.", REGISTRY).remarks if r.code == "not_understood"]
    found = re.search(r"'(.+\.)'", remark.diagnostic.remedy)
    assert found is not None, remark.diagnostic.remedy
    reading = read(f"{CREW}{found[1]}", REGISTRY)
    assert not reading.remarks
    assert kind in [s.kind for s in reading.ast.statements[2:]]


def test_a_stop_behind_a_branch_is_part_of_it() -> None:
    text = f"{CREW}If it is approved, the mailer just sends it and we stop there. The editor edits."
    assert said(text, "stop") == [{"condition": {"name": "approved"}}]
