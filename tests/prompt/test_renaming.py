"""A changed prompt changes the crew where it must, and nowhere else."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.corpus.cases import cases

from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.validate import check
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.registry import Registry
from crewlog.prompt.renaming import keep_names

REGISTRY = Registry.model_validate(
    {"model": "openai:m", "tools": {name: {"run": f"m:{name}"} for name in ("post", "look")}}
)


def _crew(*flow: Any, flags: dict[str, list[str]] | None = None, **more: Any) -> CrewDefinition:
    parts = [part for item in flow for part in (item if isinstance(item, list) else [item])]
    names = [part if isinstance(part, str) else part.get("agent") for part in parts]
    agents = {
        name: {"prompt": f"You are the {name}.", "writes_flags": (flags or {}).get(name, [])}
        for name in names
        if name
    }
    return load_data(
        {"crew": "notes", "model": "openai:m", "agents": agents, "flow": [*flow], **more}
    )


def _names(crew: CrewDefinition) -> list[str]:
    return [phase.name for phase in phases(crew)]


DRAFT = {"agent": "writer", "task": "drafts the notes."}
POLISH = {"agent": "writer", "phase": "writer_2", "task": "polishes the notes."}


def test_a_later_phase_keeps_its_name_when_an_earlier_one_goes() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    after = _crew("checker", {"agent": "writer", "task": "polishes the notes."})
    assert _names(keep_names(before, after)) == ["checker", "writer_2"]


def test_a_phase_keeps_its_name_when_another_comes_before_it() -> None:
    before = _crew(DRAFT, "checker")
    after = _crew(
        {"agent": "writer", "task": "collects links."},
        "checker",
        {**DRAFT, "phase": "writer_2"},
    )
    assert _names(keep_names(before, after)) == ["writer_2", "checker", "writer"]


def test_what_refers_to_a_phase_follows_it() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    after = _crew(
        "checker",
        {"agent": "writer", "task": "polishes the notes."},
        {"ask": "Good?", "phase": "gate_writer", "options": ["go on", "writer", "stop"]},
        {"if": "approved", "go": "writer", "at_most": 2, "after": "gate_writer"},
        {"agent": "printer", "after": ["writer", "checker"]},
        flags={"checker": ["approved"]},
    )
    kept = keep_names(before, after)
    assert check(kept) == []
    assert _names(kept)[1:3] == ["writer_2", "gate_writer_2"]
    ask, decision, last = kept.flow[2:]
    assert getattr(ask, "options", ()) == ("go on", "writer_2", "stop")
    assert getattr(decision, "go", "") == "writer_2"
    assert getattr(last, "after", ()) == ("writer_2", "checker")


def test_a_question_keeps_its_number() -> None:
    before = _crew("writer", {"ask": "Nice?"}, "checker", {"ask": "Print it?"}, "printer")
    after = _crew("writer", "checker", {"ask": "Print it?"}, "printer")
    assert _names(keep_names(before, after)) == ["writer", "checker", "ask_2", "printer"]


def test_another_question_is_another_phase() -> None:
    before = _crew("writer", {"ask": "Nice?", "phase": "nice"}, "printer")
    after = _crew("writer", {"ask": "Print it?"}, "printer")
    assert _names(keep_names(before, after)) == ["writer", "ask_1", "printer"]


def test_a_decision_keeps_its_name_when_something_comes_before_it() -> None:
    back = {"if": "approved", "go": "writer", "at_most": 2}
    flags = {"checker": ["approved"]}
    before = _crew("writer", "checker", back, "printer", flags=flags)
    after = _crew("writer", "checker", "lawyer", back, "printer", flags=flags)
    kept = keep_names(before, after)
    assert _names(kept) == ["writer", "checker", "lawyer", "after_checker", "printer"]


def test_where_a_decision_goes_in_the_end_follows_the_phase() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    after = _crew(
        "checker",
        {"if": "not read", "go": "checker", "at_most": 2, "else": "writer"},
        "printer",
        {"agent": "writer", "task": "polishes the notes."},
        flags={"checker": ["read"]},
    )
    kept = keep_names(before, after)
    assert check(kept) == []
    assert getattr(kept.flow[1], "otherwise", "") == "writer_2"


def test_joins_follow_the_phases_that_they_wait_for() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    polish = {"agent": "writer", "task": "polishes the notes."}
    for join in ({"any": ["writer", "checker"]}, {"quorum": 2, "of": ["writer", "checker", "x"]}):
        after = _crew([polish, "checker", "x"], {"agent": "printer", "after": join})
        kept = keep_names(before, after)
        assert check(kept) == []
        waits = getattr(kept.flow[1], "after", None)
        of = getattr(waits, "any", ()) or getattr(waits, "of", ())
        assert of[:2] == ("writer_2", "checker")


def test_a_phase_of_another_agent_is_another_phase() -> None:
    before = _crew("writer", {"agent": "checker", "phase": "last", "task": "reads it."}, "printer")
    after = _crew("writer", {"agent": "lawyer", "task": "reads it."}, "printer")
    assert _names(keep_names(before, after)) == ["writer", "lawyer", "printer"]


def test_order_stays() -> None:
    before = load_data(
        {
            "crew": "notes",
            "model": "openai:m",
            "agents": {
                "checker": {"prompt": "Check it.", "tools": ["b", "a"]},
                "writer": {"prompt": "Write.", "tools": []},
            },
            "tools": {"b": {"run": "x:b"}, "a": {"run": "x:a"}},
            "flow": ["writer", "checker"],
            "permissions": {"a": ["writer", "checker"]},
        }
    )
    after = load_data(
        {
            "crew": "notes",
            "model": "openai:m",
            "agents": {
                "writer": {"prompt": "Write.", "tools": []},
                "editor": {"prompt": "Edit.", "tools": []},
                "checker": {"prompt": "Check it.", "tools": ["a", "b"]},
            },
            "tools": {"a": {"run": "x:a"}, "b": {"run": "x:b"}},
            "flow": ["writer", "editor", "checker"],
            "permissions": {"a": ["checker", "writer", "editor"]},
        }
    )
    kept = keep_names(before, after)
    assert list(kept.agents) == ["checker", "writer", "editor"]
    assert kept.agents["checker"] == before.agents["checker"]
    assert kept.permissions == {"a": ("writer", "checker", "editor")}
    assert list(kept.tools) == ["b", "a"]


WHO = ("writer", "checker", "editor", "planner")
TASKS = ("drafts", "polishes", "prints", "sends", "reads")
WORK = st.lists(
    st.tuples(st.sampled_from(WHO), st.sampled_from(TASKS)), min_size=2, max_size=8, unique=True
)
LATER = (
    "",
    "Unless approved, back to the {before}, at most 2 times, otherwise ask me.",
    "If it is spam, stop.",
    "Ask me whether it is right.",
    "Wait two hours.",
)
"""What may be said behind a step."""
LAST = (
    "Only the {one} may use post.",
    "The {one} and the {other} may use look.",
    "Ask me before the {one} uses look.",
    "Only the {one} sees the {other}'s notes.",
    "If the {one} fails, continue without it.",
    "Ask me before the lawyer signs it.",
    "At most 40 steps.",
)
"""What may be said in the end."""


@st.composite
def prompts(draw: Any) -> list[str]:
    """The sentences of a prompt that the forms understand."""
    work = draw(WORK)
    said: list[str] = []
    for i, (who, task) in enumerate(work):
        before = draw(st.sampled_from(work[: i + 1]))[0]
        said += [_work(who, task), draw(st.sampled_from(LATER)).format(before=before)]
    agents = sorted({who for who, _ in work})
    one = draw(st.sampled_from(agents))
    other = draw(st.sampled_from(agents))
    last = draw(st.lists(st.sampled_from(LAST), unique=True))
    said += [each.format(one=one, other=other) for each in last if one != other]
    return [each for each in said if each]


def _work(who: str, task: str) -> str:
    return f"Then the {who} {task} it."


def _compiled(said: list[str], previous: CrewDefinition | None = None) -> CrewDefinition | None:
    """The crew of some sentences, unless something is wrong in it."""
    found = compile_prompt(" ".join(said), REGISTRY, previous=previous)
    return found.definition if found.ok else None


def _whole(said: list[str], previous: CrewDefinition | None = None) -> CrewDefinition:
    """The crew of sentences in which nothing is wrong."""
    found = compile_prompt(" ".join(said), REGISTRY, previous=previous)
    assert found.ok, (said, found.faults)
    assert found.definition is not None
    return found.definition


def test_without_a_change_nothing_changes_in_any_crew_of_the_corpus() -> None:
    for case in cases():
        assert keep_names(case.expected, case.expected) == case.expected, case.name


@settings(max_examples=60, deadline=None)
@given(prompts())
def test_without_a_change_nothing_changes(said: list[str]) -> None:
    crew = _whole(said)
    kept = _whole(said, previous=crew)
    assert kept == crew
    assert definition_hash(kept) == definition_hash(crew)


@settings(max_examples=60, deadline=None)
@given(prompts(), st.data())
def test_a_sentence_less_keeps_the_names_of_the_rest(said: list[str], data: Any) -> None:
    """Leaves one sentence out: every phase that is still there has its old name."""
    whole = _whole(said)
    gone = data.draw(st.integers(0, len(said) - 1))
    left = [*said[:gone], *said[gone + 1 :]]
    fresh, kept = _compiled(left), _compiled(left, previous=whole)
    assume(fresh is not None)
    assert fresh is not None
    assert kept is not None
    assert check(kept) == [], left
    assert len({*_names(kept)}) == len(_names(kept))
    assert sorted(kept.agents) == sorted(fresh.agents)
    before = {_done(*told): name for name, told in _told(whole).items()}
    now = {_done(*told): name for name, told in _told(kept).items()}
    assert now == {done: name for done, name in before.items() if done in now}


def _told(crew: CrewDefinition) -> dict[str, tuple[str, str]]:
    """What is done in each phase of an agent, by the phase's name."""
    found: dict[str, tuple[str, str]] = {}
    for phase in phases(crew):
        agent = getattr(phase.item, "agent", None)
        if agent is not None:
            task = getattr(phase.item, "task", None) or crew.agents[agent].prompt
            found[phase.name] = (agent, task)
    return found


def _done(who: str, what: str) -> tuple[str, str]:
    """Who does what in a phase; no two sentences say the same."""
    return who, next(task for task in (*TASKS, "signs") if task in what)


def _worked(work: list[tuple[str, str]], previous: CrewDefinition | None = None) -> CrewDefinition:
    """Agents that work in turn, each as often as it is named."""
    return _whole([_work(*each) for each in work], previous)


@settings(max_examples=100, deadline=None)
@given(WORK, st.data())
def test_swapped_sentences_keep_their_names(work: list[tuple[str, str]], data: Any) -> None:
    before = _worked(work)
    one, other = data.draw(st.tuples(*[st.integers(0, len(work) - 1)] * 2))
    work[one], work[other] = work[other], work[one]
    kept = _worked(work, previous=before)
    assert check(kept) == []
    assert _told(kept) == _told(before)


@settings(max_examples=100, deadline=None)
@given(WORK, st.data())
def test_a_sentence_more_renames_nothing(work: list[tuple[str, str]], data: Any) -> None:
    before = _worked(work)
    at = data.draw(st.integers(0, len(work)))
    agent = data.draw(st.sampled_from([*WHO, "lawyer"]))
    kept = _worked([*work[:at], (agent, "counts"), *work[at:]], previous=before)
    assert check(kept) == []
    found = _told(kept)
    for name, (who, what) in _told(before).items():
        assert found[name][0] == who
        task = next(task for task in TASKS if task in what)
        assert task in found[name][1]


@settings(max_examples=60, deadline=None)
@given(prompts(), st.data())
def test_a_renamed_agent_leaves_the_others_alone(said: list[str], data: Any) -> None:
    whole = _whole(said)
    old = data.draw(st.sampled_from(sorted({*whole.agents} - {"lawyer"})))
    kept = _whole([each.replace(old, "mailer") for each in said], previous=whole)
    assert check(kept) == []
    assert sorted(kept.agents) == sorted("mailer" if n == old else n for n in whole.agents)
    for was, now in zip(phases(whole), phases(kept), strict=True):
        agent = getattr(was.item, "agent", None)
        if agent is not None and agent != old:
            assert now.name == was.name
    for name, agent in whole.agents.items():
        if name != old:  # a log that is called by its writer is called by the new name
            reads = ["group:mailer" if log == f"group:{old}" else log for log in agent.reads]
            now = kept.agents[name]
            assert sorted(now.reads) == sorted(reads)
            assert now.model_copy(update={"reads": agent.reads}) == agent
