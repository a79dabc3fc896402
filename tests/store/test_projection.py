"""The pure parts: facts that merge in any order, and text that comes back exactly."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crewlog.canonical_json import hash_json
from crewlog.ids import CrewName, InterruptId, RunId
from crewlog.store.codec import dump_json, load_json, pack, unpack
from crewlog.store.projection import InterruptProjection, RunProjection, project, run_row
from store.journals import random_journal, seeded

ANY_TEXT = st.text(st.characters())  # surrogates included
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_json_comes_back_exactly(value: object) -> None:
    text = dump_json(value)
    assert b"\0" not in text.encode(), "Postgres must be able to hold it"
    assert hash_json(load_json(text)) == hash_json(value)
    assert load_json(text) == value


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT)
def test_text_comes_back_exactly(text: str) -> None:
    packed = pack(text)
    assert b"\0" not in packed.encode()
    assert unpack(packed) == text


def test_text_stays_readable() -> None:
    assert pack("Grüße 😀 from 'eve'") == "Grüße 😀 from 'eve'"
    assert dump_json({"text": "Grüße 😀"}) == '{"text":"Grüße 😀"}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_json_has_no_nan(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json(value)


RUN_FACTS = [
    RunProjection(
        crew=CrewName("c"),
        definition=hash_json(1),
        definition_position=1,
        recipe=hash_json(1),
        started_at=5,
        started_by="eve",
        status_position=1,
        position=1,
    ),
    RunProjection(crew=CrewName("d"), definition=hash_json(2), definition_position=5, position=5),
    RunProjection(
        source_position=6, source=RunId("other"), status_position=7, restore_position=7, position=7
    ),
    RunProjection(status="paused", status_position=2, position=2),
    RunProjection(position=3),
    RunProjection(status="failed", status_position=4, ended_at=9, error="no", position=4),
]


def test_run_facts_merge_in_any_order() -> None:
    for size in range(1, 6):
        for chosen in itertools.combinations(RUN_FACTS, size):
            merged = set()
            for order in itertools.permutations(chosen):
                facts = RunProjection()
                for one in (*order, order[0]):
                    facts = facts.merge(one)
                merged.add(facts)
            assert len(merged) == 1


def test_interrupt_facts_merge_in_any_order() -> None:
    name, question = InterruptId("i"), {"question": "?"}
    asked = InterruptProjection(name, 3, 5, question, asked_position=3)
    answer = InterruptProjection(name, decision="yes", answered_by="eve", answered_position=4)
    assert asked.is_open(0)
    assert not answer.is_open(0)
    assert not asked.merge(answer).is_open(0)
    again = InterruptProjection(name, 3, 9, question, asked_position=6)
    assert asked.merge(answer).merge(again).is_open(6)
    assert not asked.merge(answer).merge(again).is_open(7), "it was rolled back since"
    other = InterruptProjection(name, decision="no", answered_by="ann", answered_position=8)
    merged = set()
    for order in itertools.permutations([asked, answer, again, other]):
        facts = InterruptProjection(name)
        for one in (*order, order[0]):
            facts = facts.merge(one)
        merged.add(
            (
                facts.position,
                facts.at,
                facts.asked_position,
                facts.decision,
                facts.answered_position,
            )
        )
    assert merged == {(3, 5, 6, "no", 8)}


def test_waiting_is_running_with_a_question() -> None:
    run = RunId("r")
    assert (
        run_row(run, RunProjection(status="running"), has_open_interrupt=True).status == "waiting"
    )
    assert (
        run_row(run, RunProjection(status="running"), has_open_interrupt=False).status == "running"
    )
    assert run_row(run, RunProjection(status="paused"), has_open_interrupt=True).status == "paused"


def test_projection_is_pure_and_splits() -> None:
    journal = random_journal(RunId("r"), seeded(1))
    whole = project(journal.run, journal.batch())
    assert vars(whole) == vars(project(journal.run, journal.batch()))
    for cut in range(1, len(journal)):
        parts = [
            project(journal.run, journal.batch(1, cut)),
            project(journal.run, journal.batch(cut + 1)),
        ]
        for name in ("journal_entries", "log_links", "steps", "checkpoints", "tags"):
            assert dict(row for part in parts for row in getattr(part, name).items()) == getattr(
                whole, name
            )
