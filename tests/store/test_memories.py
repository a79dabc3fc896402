"""What crews remember: the same of both stores, and of both at random, side by side."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import secrets
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covers import covers
from crewlog.definition.model import MemoryPolicy
from crewlog.errors import UsageError
from crewlog.ids import AgentName, CrewName, RunId, StepId
from crewlog.store import InMemoryStore, PostgresStore, Store
from crewlog.store.memories import (
    LONGEST_METADATA,
    Author,
    Embeddings,
    Memory,
    MemoryFilter,
    MemoryQuery,
    NewMemory,
    WriteOptions,
    build_memories,
    check_query,
    expiry_cutoff,
    split_words,
    write_options,
)

HOSTILE = "NUL \x00, lone \ud83d, 😀 é, '; DROP TABLE x;-- \\0000 \\ %s $1 ~ {a,b} \u2028 | & ! :*"
NUMBERS = itertools.count(1)


@pytest.fixture
def crew() -> CrewName:
    """A crew of the test's own: a module shares its database."""
    return CrewName(f"crew-{next(NUMBERS)}")


def note(crew: CrewName, key: str, text: str = "x", scope: str = "public", **more: Any) -> Memory:
    author = Author(agent=AgentName("a"), run=RunId("r"), step=StepId("a#1"))
    return Memory(crew=crew, scope=scope, key=key, text=text, **{"author": author, "at": 10} | more)


async def put(store: Store, *memories: Memory, **terms: Any) -> bool:
    return await store.memories.write(memories, WriteOptions(**{"now": memories[0].at} | terms))


async def keys(
    store: Store, crew: CrewName, text: str = "", *scopes: str, **more: Any
) -> list[str]:
    wanted = MemoryQuery(words=tuple(split_words(text)), limit=more.pop("limit", 50))
    found = await store.memories.search(crew, scopes or ("public",), wanted, **{"now": 100, **more})
    return [each.key for each in found.memories]


@covers("C44")
async def test_memories_fade_behind_newer_ones_and_then_go(store: Store, crew: CrewName) -> None:
    day = 86_400_000
    await put(store, note(crew, "old", "green tea assam", at=day))
    await put(store, note(crew, "new", "green coffee", at=20 * day))
    policy = MemoryPolicy(half_life=10 * 86_400)
    wanted = {"words": ("green", "tea", "assam"), "half_life": 10 * day}

    async def found(now: int, **more: Any) -> list[str]:
        rows = await store.memories.search(
            crew,
            ["public"],
            MemoryQuery(**(wanted | more)),
            now=now,
            expired_at=expiry_cutoff(policy, now),
        )
        return [each.key for each in rows.memories]

    assert await found(21 * day, half_life=0) == ["old", "new"]
    assert await found(2 * day) == ["old", "new"]
    assert await found(21 * day) == ["new", "old"]  # a quarter of three words is less than one
    assert await found(60 * day) == ["new", "old"]
    assert await found(61 * day) == ["new"]
    assert expiry_cutoff(policy, 61 * day) == 1 * day
    short = MemoryPolicy(half_life=10 * 86_400, retention=86_400)
    assert expiry_cutoff(short, 61 * day) == 60 * day


async def test_a_memory_comes_back_exactly(store: Store, crew: CrewName) -> None:
    memory = note(
        crew, HOSTILE, HOSTILE, metadata={HOSTILE: [HOSTILE, 1.0, None]}, expires_at=10**15
    )
    assert await put(store, memory)
    assert await store.memories.list_newest(crew, now=100) == [memory]
    found = await store.memories.search(crew, ["public"], MemoryQuery(words=("drop",)), now=100)
    assert found.memories == (memory,)
    assert found.by == "words"


async def test_the_more_words_the_better_and_then_the_newer(store: Store, crew: CrewName) -> None:
    await put(store, note(crew, "one", "green tea"))
    await put(store, note(crew, "two", "Green TEA, of Assam!", at=11))
    await put(store, note(crew, "three", "black tea", at=12))
    await put(store, note(crew, "four", "coffee", at=13))
    assert await keys(store, crew, "green tea assam") == ["two", "one", "three"]
    assert await keys(store, crew, "tea") == ["three", "two", "one"]
    assert await keys(store, crew, "tea", limit=1) == ["three"]
    assert await keys(store, crew, "FOUR") == ["four"], "the key is one of its words"
    assert await keys(store, crew, "milk") == []
    assert await keys(store, crew, "te") == [], "a part of a word is another word"
    assert await keys(store, crew) == ["four", "three", "two", "one"], "without words: the newest"


async def test_nothing_of_another_scope_or_crew_is_found(store: Store, crew: CrewName) -> None:
    await put(store, note(crew, "k", "secret", "agent:a"))
    await put(store, note(crew, "k", "secret", "group:g"))
    other = CrewName(f"{crew}-other")
    await put(store, note(other, "k", "secret"))
    assert await keys(store, crew, "secret") == []
    assert await keys(store, crew, "secret", "agent:b", "agent:", "agent:a ", "%", "*") == []
    assert await keys(store, crew, "secret", "agent:a", "group:g") == ["k", "k"]
    assert [each.scope for each in await store.memories.list_newest(crew, now=100)] == [
        "agent:a",
        "group:g",
    ]
    assert [(c.scope, c.count) for c in await store.memories.list_scopes(crew)] == [
        ("agent:a", 1),
        ("group:g", 1),
    ]


async def test_what_is_over_is_not_found_and_goes_with_the_next(
    store: Store, crew: CrewName
) -> None:
    await put(store, note(crew, "short", expires_at=50))
    await put(store, note(crew, "long", expires_at=500))
    await put(store, note(crew, "old", at=5))
    assert await keys(store, crew, now=49, expired_at=4) == ["long", "short", "old"]
    assert await keys(store, crew, now=50, expired_at=5) == ["long"]
    assert await keys(store, crew, "x", now=50, expired_at=5) == ["long"]
    listed = await store.memories.list_newest(crew, now=50)
    assert [each.key for each in listed] == ["long", "old"]
    await put(store, note(crew, "new", at=60), expired_at=5)
    assert (await store.memories.list_scopes(crew))[0].count == 2


async def test_a_scope_has_no_more_than_it_may(store: Store, crew: CrewName) -> None:
    for at in range(10, 20):
        await put(store, note(crew, f"k{at}", at=at), most_memories=3)
    assert await keys(store, crew) == ["k19", "k18", "k17"]
    await put(store, note(crew, "k17", at=20), most_memories=3)
    assert await keys(store, crew) == ["k17", "k19", "k18"], "one that is replaced makes no room"
    await put(store, note(crew, "a", at=21), note(crew, "b", at=21), most_memories=2)
    assert await keys(store, crew) == ["a", "b"]
    await put(store, note(crew, "z", scope="group:g"), most_memories=1)
    assert await keys(store, crew) == ["a", "b"], "another scope has room of its own"


async def test_many_writers_at_once_keep_to_it(store: Store, crew: CrewName) -> None:
    await asyncio.gather(*(put(store, note(crew, f"k{n}"), most_memories=5) for n in range(20)))
    assert (await store.memories.list_scopes(crew))[0].count == 5


async def test_a_call_writes_once(store: Store, crew: CrewName) -> None:
    call = f"{crew}/a#1/1/0"
    first = [put(store, note(crew, "k", "first"), call=call) for _ in range(5)]
    assert sorted(await asyncio.gather(*first)) == [False] * 4 + [True]
    await put(store, note(crew, "k", "second", at=11), call=f"{crew}/a#1/2/0")
    assert not await put(store, note(crew, "k", "first"), call=call)
    assert [each.text for each in await store.memories.list_newest(crew, now=100)] == ["second"]


async def test_what_is_forgotten_is_what_was_said(store: Store, crew: CrewName) -> None:
    async def fill() -> None:
        await store.memories.forget(MemoryFilter(crew=crew))
        other = Author(agent=AgentName("b"), run=RunId("q"), step=StepId("b#1"))
        await put(store, note(crew, "k1"), note(crew, "k2"))
        await put(store, note(crew, "k1", scope="group:g", author=other, expires_at=30))
        await put(store, note(crew, "k3", at=20, author=other))
        await put(store, note(CrewName(f"{crew}x"), "k1", author=other))

    async def left(**which: Any) -> int:
        await fill()
        before = sum(each.count for each in await store.memories.list_scopes(crew))
        gone = await store.memories.forget(MemoryFilter(crew=crew, **which))
        after = sum(each.count for each in await store.memories.list_scopes(crew))
        assert before - after == gone
        return after

    assert await left() == 0
    assert await left(scope="group:g") == 3
    assert await left(scope="public", key="k1") == 3
    assert await left(scope="public", key="k9") == 4
    assert await left(run=RunId("q")) == 2
    assert await left(run=RunId("q"), step=StepId("a#1")) == 4
    assert await left(before=20) == 1
    assert await left(expired_at=30) == 3
    assert await left(expired_at=29) == 4
    assert (await store.memories.list_scopes(CrewName(f"{crew}x")))[0].count == 1
    with pytest.raises(UsageError, match="need a crew or a run"):
        await store.memories.forget(MemoryFilter())
    with pytest.raises(UsageError, match="need a crew or a run"):
        await store.memories.forget(MemoryFilter(before=10**15))
    with pytest.raises(UsageError, match="within a scope"):
        await store.memories.forget(MemoryFilter(crew=crew, key="k1"))


async def test_a_deleted_run_leaves_its_memories_and_not_its_claims(
    store: Store, crew: CrewName
) -> None:
    run = RunId(f"run-of-{crew}")
    author = Author(agent=AgentName("a"), run=run, step=StepId("a#1"))
    call = f"{run}/a#1/1/0"
    await put(store, note(crew, "k", author=author), call=call)
    await store.delete([run], 100)
    assert await keys(store, crew) == ["k"]
    assert await put(store, note(crew, "k2", author=author), call=call)


async def test_words_by_their_stems(postgres: PostgresStore, crew: CrewName) -> None:
    await put(postgres, note(crew, "k", "The runners were running"), language="english")

    async def found(word: str, language: Any) -> bool:
        wanted = MemoryQuery(words=(word,), language=language)
        return bool((await postgres.memories.search(crew, ["public"], wanted, now=100)).memories)

    assert await found("runs", "english")
    assert await found("runner", "english")
    assert not await found("runs", "simple")
    assert await found("running", "simple")
    assert await found("running", "german"), "as it is, whatever the language was"


def embedded(*vectors: tuple[float, ...], model: str = "m") -> Embeddings:
    return Embeddings(model=model, vectors=vectors)


async def by_meaning(
    store: Store, crew: CrewName, vector: tuple[float, ...], *words: str, **more: Any
) -> tuple[str, list[str]]:
    wanted = MemoryQuery(words=words, embeddings=embedded(vector, **more), limit=2)
    found = await store.memories.search(crew, ["public"], wanted, now=100)
    assert not found.note, "the embedded PostgreSQL has pgvector"
    return found.by, [each.key for each in found.memories]


async def test_by_meaning(store: Store, crew: CrewName) -> None:
    x, y, d = (note(crew, key, key) for key in ("x", "y", "d"))
    await put(store, x, y, d, embeddings=embedded((1.0, 0.0), (0.0, 1.0), (0.9, 0.4)))
    await put(store, note(crew, "z", "y", "group:g"), embeddings=embedded((1.0, 0.0)))
    assert await by_meaning(store, crew, (1.0, 0.01)) == ("meaning", ["x", "d"])
    assert await by_meaning(store, crew, (0.0, 2.0), "x") == ("meaning", ["y", "d"])
    await put(store, note(crew, "plain", "old words", at=11))
    assert await by_meaning(store, crew, (1.0, 0.0), "old", model="n") == ("words", ["plain"])
    assert await by_meaning(store, crew, (1.0, 0.0, 0.0), "old") == ("words", ["plain"])
    assert (await by_meaning(store, crew, (1.0, 0.0, 0.0)))[0] == "time"


async def test_what_has_no_vector_fills_up_what_has(store: Store, crew: CrewName) -> None:
    await put(store, note(crew, "near", "tea"), embeddings=embedded((1.0, 0.0)))
    await put(store, note(crew, "plain", "tea", at=11))
    assert await by_meaning(store, crew, (1.0, 0.0), "tea") == ("meaning", ["near", "plain"])


async def test_a_database_without_pgvector_finds_by_words_and_says_so(
    postgres: PostgresStore, crew: CrewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres.memories, "_schema", "")
    await put(postgres, note(crew, "k", "tea"), embeddings=embedded((1.0, 0.0)))
    wanted = MemoryQuery(words=("tea",), embeddings=embedded((1.0, 0.0)))
    found = await postgres.memories.search(crew, ["public"], wanted, now=100)
    assert found.by == "words"
    assert "no pgvector" in found.note
    assert [each.key for each in found.memories] == ["k"]


# -- both, side by side -----------------------------------------------------------------------

WORDS = st.sampled_from(["tea", "TEA", "milk", "Straße", "STRASSE", "a_b", "1.5", "茶が", "é", "x"])
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
SCOPES = st.sampled_from(["public", "group:g", "agent:a"])
WRITES = st.tuples(
    st.just("write"),
    SCOPES,
    st.lists(
        st.tuples(st.sampled_from("abcd"), TEXTS), min_size=1, max_size=3, unique_by=lambda x: x[0]
    ),
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(1, 30)),
    st.sampled_from(["", "c1", "c2"]),
)
SEARCHES = st.tuples(
    st.just("search"), st.sets(SCOPES), st.one_of(st.just(""), TEXTS), st.integers(0, 9)
)
FORGETS = st.tuples(st.just("forget"), SCOPES, st.sampled_from("abcd"))


@settings(max_examples=int(os.environ.get("CREWLOG_MEMORY_EXAMPLES", "15")), deadline=None)
@given(steps=st.lists(st.one_of(WRITES, SEARCHES, FORGETS), min_size=5, max_size=25))
async def test_both_stores_find_the_same(postgres: PostgresStore, steps: list[Any]) -> None:
    crew = CrewName(secrets.token_hex(8))
    pair = (InMemoryStore().memories, postgres.memories)
    for now, step in enumerate(steps, 1):
        outcomes: list[Any] = []
        for memories in pair:
            if step[0] == "write":
                _, scope, given, most, keep, call = step
                expires = None if keep is None else now + keep
                rows = [
                    note(crew, key, text, scope, at=now, expires_at=expires) for key, text in given
                ]
                key = f"{crew}/a#1/{call[1:]}/0" if call else ""
                terms = WriteOptions(now=now, most_memories=max(most, len(rows)), call=key)
                outcomes.append(await memories.write(rows, terms))
            elif step[0] == "search":
                _, scopes, text, since = step
                half_life = since % 3 * 7  # none fades, or they fade fast
                wanted = MemoryQuery(words=tuple(split_words(text)), limit=4, half_life=half_life)
                outcomes.append(
                    await memories.search(crew, sorted(scopes), wanted, now=now, expired_at=since)
                )
            else:
                outcomes.append(
                    await memories.forget(MemoryFilter(crew=crew, scope=step[1], key=step[2]))
                )
            outcomes[-1] = (outcomes[-1], await memories.list_newest(crew, now=now))
        assert outcomes[0] == outcomes[1]


async def test_both_stores_order_vectors_alike(postgres: PostgresStore, crew: CrewName) -> None:
    rng = random.Random(5)  # noqa: S311
    pair = (InMemoryStore(), postgres)
    rows = [note(crew, f"k{n}", "x") for n in range(20)]
    vectors = [tuple(rng.uniform(-1, 1) for _ in range(8)) for _ in rows]
    for store in pair:
        await put(store, *rows[:10], embeddings=embedded(*vectors[:10]))
        await put(store, *rows[10:], embeddings=embedded(*vectors[10:]), now=50)
    for _ in range(20):
        vector = tuple(rng.uniform(-1, 1) for _ in range(8))
        half_life = rng.choice([0, 40])
        wanted = MemoryQuery(embeddings=embedded(vector), limit=10, half_life=half_life)
        one, other = [await s.memories.search(crew, ["public"], wanted, now=99) for s in pair]
        assert one == other


# -- what is checked before anything is stored ------------------------------------------------


def made(*artifacts: NewMemory, **policy: Any) -> list[Memory]:
    return build_memories(
        CrewName("c"),
        "public",
        artifacts,
        Author(),
        MemoryPolicy(**policy),
        now=1_000,
        key_seed="call",
    )


def test_bounds_are_kept() -> None:
    text = NewMemory(text="four")
    assert made(text, longest=4)
    cases: list[tuple[str, Any]] = [
        ("4 characters, and one may have 3", lambda: made(text, longest=3)),
        ("0 memories cannot be written", lambda: made()),
        ("21 memories cannot be written", lambda: made(*[text] * 21)),
        ("2 memories cannot be written", lambda: made(text, text, max=1)),
        (
            "two memories have the key 'k'",
            lambda: made(NewMemory(text="a", key="k"), NewMemory(text="b", key=" k")),
        ),
        (
            "bytes, and may have 4,096",
            lambda: made(NewMemory(text="a", metadata={"x": "y" * LONGEST_METADATA})),
        ),
        ("cannot be stored", lambda: made(NewMemory(text="a", metadata={"x": float("nan")}))),
        ("nested deeper", lambda: made(NewMemory(text="a", metadata={"x": nested(200)}))),
        ("may have 2,000", lambda: check_query("x" * 2_001)),
    ]
    for message, case in cases:
        with pytest.raises(UsageError, match=message):
            case()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_it_is_kept_as_long_as_the_shorter_of_both_says() -> None:
    def expires(keep: float | None, retention: float | None) -> int | None:
        (memory,) = made(NewMemory(text="a", keep=keep), retention=retention)
        return memory.expires_at

    assert expires(None, None) is None
    assert expires(5, None) == 6_000
    assert expires(5, 2) == 3_000
    assert expires(1, 2) == 2_000
    assert expiry_cutoff(MemoryPolicy(retention=2), 1_000) == 0
    assert expiry_cutoff(MemoryPolicy(retention=2), 5_000) == 3_000
    assert write_options(MemoryPolicy(max=3, retention=2), 5_000).most_memories == 3


def test_keys_are_made_of_the_call_and_differ() -> None:
    one, two = made(NewMemory(text="a"), NewMemory(text="a"))
    assert one.key != two.key
    assert made(NewMemory(text="b"))[0].key == one.key, "a retry means the same ones"


def test_words() -> None:
    assert split_words("Die STRASSE, die Straße!") == ["die", "strasse"]
    assert split_words("a_b-c.d '\"|&!:*<->\\\x00\ud83d") == ["a", "b", "c", "d"]
    assert split_words("茶が好き") == ["茶", "が", "好", "き"]
    assert split_words("हिन्दी") == ["हिन्दी"]
    assert split_words("x" * 100) == ["x" * 64]
    assert split_words("") == []
