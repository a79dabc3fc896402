"""The forms: the sentences that the offline reader knows, in one table.

The parser (`crewlog.prompt.forms_reader`), `docs/prompts.md` and the hints are made from it. A
clause matches one form as a whole, or none. In a pattern `{slot}` stands for words of the prompt,
`[…]` may be left out, `(a|b)` is one of these; case and white space do not matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from crewlog.prompt.vocabulary import obligations

_WORDS = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Form:
    """One form."""

    name: str
    """The method of the reader that takes it: `take_NAME`."""
    title: str
    """What it says, for the docs."""
    patterns: tuple[str, ...]
    examples: tuple[str, ...]
    """Sentences that match, for the docs and the tests."""

    @cached_property
    def regexes(self) -> tuple[re.Pattern[str], ...]:
        """The patterns, compiled."""
        return tuple(_compiled(pattern) for pattern in self.patterns)


def _needed(pattern: str) -> tuple[str, ...]:
    """Words of a pattern of which one stands in every text that matches; none where there are none.

    Of several choices it is the one with the longest words: these are the rarest.
    """
    for what in (r"\[[^\[\]]*\]", r"\[[^\[\]]*\]", r"\{\w+\}", r"\w+\([^()]*\)"):
        pattern = re.sub(what, " ", pattern)
    groups = [
        tuple(next(iter(_WORDS.findall(each)), "") for each in group.split("|"))
        for group in re.findall(r"\(([^()]*)\)", pattern)
    ]
    single = [(word,) for word in _WORDS.findall(re.sub(r"\([^()]*\)", " ", pattern))]
    fit = [group for group in (*single, *groups) if all(len(word) > 1 for word in group)]
    return max(fit, key=lambda group: min(map(len, group)), default=())


def _compiled(pattern: str) -> re.Pattern[str]:
    out: list[str] = []
    for token in re.findall(r"\{\w+\}|\[|\]|\(|\)|\||\s+|,|[^\s{}\[\]()|,]+", pattern):
        if token.startswith("{"):
            name = token[1:-1]
            out.append(f"(?P<{name}>{_SLOTS.get(name, '.+?')})")
        elif token == "[":
            out.append("(?:")
        elif token == "]":
            out.append(")?")
        elif token == "(":
            out.append("(?:")
        elif token in {")", "|"}:
            out.append(token)
        elif token.isspace():
            out.append(r"\s+")
        elif token == ",":
            out.append(r"\s*,")
        else:
            out.append(re.escape(token))
    return re.compile("".join(out), re.IGNORECASE)


BOUND = (
    r"(?:at\s+most|no\s+more\s+than|not\s+more\s+than|up\s+to|max(?:imum)?)\s+[\w-]+"
    r"(?:\s+(?:more\s+)?(?:times?|rounds?))?|[\w-]+(?:\s+(?:times?|rounds?))?\s+"
    r"(?:at\s+(?:the\s+)?most|max(?:imum)?|tops)"
)
"""How often: `at most 3 times`, `no more than twice`, `3 times at most`."""
_SLOTS = {
    "bound": BOUND,
    "number": r"[\w,.]+",
    "number2": r"[\w,.]+",
    "count": r"\w+",
    "percent": r"\d+(?:\.\d+)?\s*(?:%|percent|per\s+cent)?",
}
"""What stands in a slot where not any words do."""
_BACK = "[then ][we |you |it |run |the run ](go back to|goes back to|back to|return to|returns to|start over with|start again with) {agent}"

FORMS: tuple[Form, ...] = (
    Form(
        "crew",
        "the crew's name",
        ("crew: {name}",),
        ("Crew: release-notes",),
    ),
    Form(
        "agents",
        "who takes part",
        (
            "(there are|we have|we have got|you have|here are) {count} agents: {names}",
            "agents: {names}",
            "the agents are {names}",
            "you are (a|our) {what} (made up of|of) {names}",
            "the crew (has|consists of|is made up of) {names}",
        ),
        (
            "There are three agents: a planner, a coder and a tester.",
            "Agents: planner, UI designer.",
        ),
    ),
    Form(
        "parallel",
        "steps side by side",
        (
            "while {first}, {second}",
            "{first}, while {second}",
            "(in the meantime|meanwhile|at the same time|in parallel|simultaneously), {second}",
            "(meanwhile|simultaneously|at the same time|in parallel) {second}",
            "{first}(, and at the same time,| and, at the same time,| and at the same time| and in parallel|, in parallel,|, meanwhile) {second}",
        ),
        (
            "While the scriptwriter drafts the episode, the sound designer looks for music.",
            "Meanwhile, the illustrator makes the pictures.",
        ),
    ),
    Form(
        "each",
        "a step for each item of a list",
        (
            "for (each|every) {item}, [have |let ]{step}",
            "for (each|every) of the {maker}'s {items}, {step}",
        ),
        ("For each topic, a researcher writes a page.",),
    ),
    Form(
        "late",
        "how long a step waits for what it needs",
        (
            "if {condition} within {duration}, {late}",
            "{agent} waits for that [for ]at most {duration}[; otherwise|, otherwise] {late}",
        ),
        ("If the models are not ready within two hours, skip the painter.",),
    ),
    Form(
        "on_error",
        "what happens where a step fails",
        (
            "(if|should|when) {agent} (fails|fail|cannot be reached|can not be reached), {error}",
            "if {agent} does not (answer|finish|respond) within {duration}, {error}",
            "if {agent} takes longer than {duration}, {error}",
        ),
        (
            "If the coder fails, continue without it.",
            "If the vendor fails, the archive takes over.",
            "If the vendor cannot be reached, the archivist looks it up instead.",
            "If the vendor does not answer within ten minutes, the archive takes over.",
            "If the vendor takes longer than an hour, continue without it.",
        ),
    ),
    Form(
        "skip",
        "a step that is skipped",
        ("if {condition}, skip {agent}", "skip {agent} (if|unless) {condition}"),
        ("If the change is trivial, skip the tester.",),
    ),
    Form(
        "stop",
        "an early end",
        (
            "(if|unless) {condition}, [we |the run ](stop|stops|end|ends)[ there| here| the run]",
            "otherwise stop",
        ),
        ("If it is spam, stop.",),
    ),
    Form(
        "back",
        "a loop",
        (
            f"(if|unless) {{condition}}, {_BACK}[, {{bound}}][, (and |)(otherwise|after that|afterwards|else|and then|then) {{then}}]",
            f"{_BACK} (if|unless) {{condition}}[, {{bound}}][, (otherwise|after that) {{then}}]",
            "(if|unless) {condition}, {agent} (revises|tries again|tries once more|has another go|repeats it|repeats|starts over)[ {what}][, {bound}][, (and |)(otherwise|after that|then) {then}]",
            "{agents} repeat (this|it|that) until {condition}[, {bound}][, (otherwise|then|after that) {then}]",
        ),
        (
            "Unless approved, back to the writer, at most 3 times, otherwise ask me.",
            "The writer and the checker repeat this until approved, at most 4 times, otherwise give up.",
        ),
    ),
    Form(
        "then",
        "what comes after a loop",
        ("{then}", "otherwise[,] {then}"),
        ("Otherwise go on.", "After that, give up."),
    ),
    Form(
        "rejected",
        "where the run goes after a no",
        ("if I (reject it|reject them|say no|do not approve it|refuse), " + _BACK,),
        ("If I reject it, back to the writer.",),
    ),
    Form(
        "ask_before",
        "a question before a step",
        (
            "ask me before {step}",
            "(wait for|get) my (approval|ok|consent) before {step}",
            "{step}, subject to my approval",
            "subject to my approval, {step}",
            "I (approve|confirm|sign off) {what} before {step}",
            "{step}, but only after I have (said yes|approved|approved it)",
        ),
        ("I approve the plan before the coder starts.", "Ask me before the publisher publishes."),
    ),
    Form(
        "unsure",
        "a question where an agent is unsure",
        (
            "when unsure, {agents} (asks|ask) (a human|me|people)",
            "when {agents} (is|are) unsure, [it |they |]ask(s|) (a human|me|people)",
            "when unsure, ask (a human|me|people)",
            "if {agent} is (less than|not) {percent} (sure|confident), ask me",
            "(if|when) (its|their|the) confidence is (below|under|less than|lower than) {percent}, ask (me|a human)",
            "(if|when) {agent}'s confidence is (below|under|less than|lower than) {percent}, ask (me|a human)",
            "ask me (where|if) (it|{agent}) is less than {percent} sure",
            "ask me (if|when|whenever) (its|their|the) confidence is (below|under|less than|lower than) {percent}",
        ),
        ("When unsure, the mediator asks a human.", "If its confidence is below 70 %, ask me."),
    ),
    Form(
        "ask",
        "a question at this place",
        (
            "(if|unless) {condition}, ask me[ {question}]",
            "[you ]ask me {question}",
            "otherwise ask me[ {question}]",
        ),
        ("Ask me whether the tone is right.", "If the offer is above 20,000, ask me."),
    ),
    Form(
        "ask_tool",
        "calls that wait for a yes",
        (
            "ask me before (anyone|anybody|any agent) uses {tools}",
            "ask me before {agents} (uses|use) {tools}",
            "{tools} (needs|need) my (approval|ok|consent)",
            "ask me before any risky tool",
            "calls of tools of high risk wait for a yes",
        ),
        ("Ask me before anyone uses deploy.", "deploy needs my approval."),
    ),
    Form(
        "quota",
        "how many calls there may be",
        (
            "{agents} (may|can) (use|call) {tools} {bound} (per|a|an|each|every) {period}",
            "(nobody|no one) (may|can) (use|call) {tools} more than {number} times (per|a|an) {period}",
        ),
        ("The registry may use register_crew at most 20 times per day.",),
    ),
    Form(
        "rule",
        "tools that are used on a condition only",
        (
            "{agents} (may|can) [only ]use {tools} only (if|when|after) {condition}",
            "{agents} (may|can) use {tools} (if|unless|when) {condition}",
            "(nobody|no one) (may|can) use {tools} unless {condition}",
        ),
        ("The publisher may use publish only if the checker approves it.",),
    ),
    Form(
        "never",
        "tools that an agent may not use",
        (
            "{agents} (may not|must not|can not|cannot|must never|may never) (use |call |){tools}",
            "(nobody|no one) (may|can) (use |call |){tools}",
        ),
        ("The chatbot may not issue refunds.", "Nobody may use send_email."),
    ),
    Form(
        "only",
        "tools for some agents alone",
        (
            "only {agents} (may|can|gets to|get to) (use |){tools}",
            "(nobody|no one) (but|except|other than) {agents} (may|can) (use |){tools}",
            "{agents} (has|have|uses|use) {tools}, and (nobody|no one) else (may use it|has it)",
            "{tools} (may|can) only be used by {agents}",
        ),
        ("Only the writer may write files.",),
    ),
    Form(
        "needs",
        "a step for which a tool must be available",
        (
            "{agents} (works |work |)only if {tools} (is|are) available",
            "{agents} only (works|work) if {tools} (is|are) available",
        ),
        ("Audio works only if configure_audio is available.",),
    ),
    Form(
        "model",
        "an agent's model",
        ("{agents} (uses|use) the model {model}", "the crew uses the model {model}"),
        ("The writer uses the model gpt-5.",),
    ),
    Form(
        "sight",
        "who sees what",
        (
            "only {agents} (sees|see|may see|can see) {owner}'s (notes|work|results)",
            "{agents} (may|can|must|does|do)( not|not) see {owner}'s (notes|work|results)",
            "{agents} (works|work) blind",
            "{agents} (sees|see) nothing of the others",
        ),
        ("Only the mediator sees the lawyer's notes.", "The sceptic works blind."),
    ),
    Form(
        "inside",
        "how an agent works inside its step",
        (
            "{agent}[,] [who ](plans|plan) first[,] and then carries the plan out",
            "{agent} (plans|plan) first, then (carries|carry) the plan out",
            "{agent} reviews its own work[,] {bound}",
        ),
        ("The coder reviews its own work, at most 2 times.",),
    ),
    Form(
        "switch",
        "an agent that takes no part",
        ("{agents} (is|are) switched (off|on)[ for now]",),
        ("The tester is switched off for now.",),
    ),
    Form(
        "limit",
        "bounds of the run",
        (
            "(at most|no more than|not more than) {number} (steps|step)[ in all][, and no more than {number2} at a time]",
            "[with ](at most|no more than|not more than|never more than) {number} at a time",
            "[the run ](spend|spends) at most {number} (dollars|tokens)",
            "the run takes at most {duration}",
        ),
        ("At most 20 steps, and no more than 3 at a time.", "Spend at most 2 dollars."),
    ),
    Form(
        "people",
        "who answers, and until when",
        (
            "only {people} may answer",
            "if nobody answers within {duration}, {default}",
            "a yes holds for {duration}",
        ),
        ("If nobody answers within a day, reject it.",),
    ),
    Form(
        "wait",
        "a pause",
        (
            "wait until {time}",
            "wait[ for] {duration}",
            "{duration} later[,] {step}",
            "after {duration}[,] {step}",
        ),
        ("Wait two hours.", "Wait until 1 December 2026 at 9:00 UTC."),
    ),
    Form(
        "after",
        "what a step waits for",
        (
            "(once|when|after|as soon as) {done}, {step}",
            "{step} (after|once|as soon as) {done}",
        ),
        (
            "Once both are done, the aggregator puts the parts together.",
            "As soon as one of them is done, the editor starts.",
            "Once Backend's models are ready, Audio writes the playback.",
        ),
    ),
    Form(
        "if_step",
        "a step on a condition",
        (
            "(if|unless) {condition}, {step}",
            "otherwise[,] {step}",
        ),
        ("If it is a bug, the engineer reproduces it.", "Otherwise the editor takes over."),
    ),
    Form(
        "builder",
        "a shape of the whole crew",
        (
            "{lead} decides who works next: {names}, {bound}",
            "{lead} decides who works next: {names}",
            "{lead} sends each message to {names}",
            "{lead} decides which of {names} begins",
            "{lead} splits the work into steps for {names}[, {number} at a time]",
        ),
        (
            "The lead decides who works next: writer, editor or checker (at most 10 times).",
            "The router sends each message to billing, shipping or general.",
            "The supervisor decides which of discovery, builder and configurator begins.",
            "The planner splits the work into steps for pricing and cart, two at a time.",
        ),
    ),
    Form(
        "builder_more",
        "more about such a shape",
        (
            "anything else goes to {fallback}",
            "each of them answers {bound} per message",
            "they work in this order, and {responder} answers",
            "they carry out their steps, {number} at a time",
            "I approve {what} first",
            "{checks} (check|checks) their work[ before {reviewer}]",
            "{reviewer} says who must work again[, {bound}]",
        ),
        (
            "Anything else goes to general.",
            "The reviewer says who must work again, at most 2 times.",
        ),
    ),
    Form(
        "conversation",
        "a crew that people talk with",
        (
            "the crew talks with (its users|people)",
            "[the |a ]conversation ends after {duration} of silence",
            "{agent} answers before {others}",
            "if (an|any) agent fails, the user gets an apology",
        ),
        ("The conversation ends after 30 minutes of silence.",),
    ),
    Form(
        "turn",
        "what an agent's turns may take, and how they end",
        (
            "{agents} (sees|see) the last {number} messages",
            "{agents} may call (its|their) model {bound}",
            "[then ]it goes on with what it has",
            "{agents} (change|changes) the artifact {artifact}",
            "{agent} says whether the goal is reached[ and how sure it is]",
            "{agents} only (runs|run) {tools}",
        ),
        (
            "The router sees the last 5 messages.",
            "The builder may call its model at most 12 times.",
        ),
    ),
    Form(
        "group",
        "a name for several agents",
        ("the group {group} (has|is) {names}",),
        ("The group desk has the writer and the checker.",),
    ),
    Form(
        "tools",
        "tools that agents have",
        (
            "{agents} (may|can) (use |){tools}",
            "{tools} (may|can) be used by {agents}",
            "{agents} (has|have|uses|use) {tools}",
            "[we ](give|let) {both}",
            "[we ]give {tools} to {agents}",
            "{agents}'s tool is {tools}",
        ),
        ("The collector and the checker may use git_log.",),
    ),
    Form(
        "trait",
        "what an agent is or keeps to",
        ("{agents} (should|must|needs to|has to|is|are) {text}",),
        ("The UI designer should use Material 3.",),
    ),
    Form(
        "step",
        "who does what",
        (
            "[you |we ](have|let|get) {bare}",
            "{step}",
        ),
        ("The writer drafts the notes.", "Then the checker reviews them."),
    ),
)
"""The forms, in the order in which they are tried."""


@cache
def _by_word() -> tuple[list[tuple[Form, re.Pattern[str]]], dict[str, list[int]]]:
    """Every pattern, and the places of those that need a word, by the word."""
    patterns: list[tuple[Form, re.Pattern[str]]] = []
    places: dict[str, list[int]] = {}
    for form in FORMS:
        for pattern, regex in zip(form.patterns, form.regexes, strict=True):
            for word in dict.fromkeys(_needed(pattern.casefold()) or ("",)):
                places.setdefault(word, []).append(len(patterns))
            patterns.append((form, regex))
    return patterns, places


def matches(text: str) -> Iterator[tuple[Form, re.Match[str]]]:
    """The forms that a text matches as a whole, in the order in which they are tried."""
    patterns, places = _by_word()
    said = {"", *_WORDS.findall(text.casefold())}
    for place in sorted({place for word in said for place in places.get(word, ())}):
        form, regex = patterns[place]
        if found := regex.fullmatch(text):
            yield form, found


FORM_OF = {
    "consent": "ask_before",
    "exclusive": "only",
    "forbidden": "never",
    "return": "back",
    "bound": "back",
    "quorum": "after",
    "stand_in": "on_error",
    "time_limit": "late",
    "sight": "sight",
    "each": "each",
    "pause": "wait",
    "condition": "if_step",
}
"""The form for words that oblige (`crewlog.prompt.vocabulary.OBLIGING`), for hints."""
_NEAR = 0.3
"""The part of an example's fixed words that a text has at least, to be near it."""
_OBLIGES = 0.5
"""What a form that says what a clause obliges to is nearer by."""


@cache
def _examples() -> tuple[list[tuple[Form, str]], dict[str, list[tuple[int, float]]]]:
    """Every example with its form, and the places of those with a word outside the slots.

    A place stands with the word's part of all such words of the example; a rare word counts for
    more.
    """
    places = [(form, example) for form in FORMS for example in form.examples]
    fixed = [_fixed_words(form, example) for form, example in places]
    spread = Counter(word for words in fixed for word in words)
    by_word: dict[str, list[tuple[int, float]]] = {}
    for place, words in enumerate(fixed):
        whole = sum(1 / spread[word] for word in words)
        for word in words:
            by_word.setdefault(word, []).append((place, 1 / spread[word] / whole))
    return places, by_word


def _fixed_words(form: Form, example: str) -> set[str]:
    """The words of an example that stand in no slot."""
    said = example.rstrip(".")
    found = next((match for regex in form.regexes if (match := regex.fullmatch(said))), None)
    rest = list(said.casefold())
    for slot in range(1, found.re.groups + 1 if found else 0):
        start, end = found.span(slot) if found else (0, 0)
        rest[start:end] = " " * (end - start)
    return {*_WORDS.findall("".join(rest))}


def nearest(text: str) -> tuple[Form, str]:
    """The form that a text is nearest to, and its example that is.

    It is the example with most of its fixed words in the text. A form for what the text obliges to
    is nearer than others.
    """
    places, by_word = _examples()
    near: dict[int, float] = {}
    for word in {*_WORDS.findall(text.casefold())}:
        for place, part in by_word.get(word, ()):
            near[place] = near.get(place, 0.0) + part
    obliged = {FORM_OF[kind] for kind, _ in obligations(text)} - {"if_step"}
    if obliged:
        for place, (form, _) in enumerate(places):
            if form.name in obliged:
                near[place] = near.get(place, 0.0) + _OBLIGES
    best = max(near, key=lambda place: (near[place], -place), default=None)
    if best is None or near[best] < _NEAR:
        return FORMS[-1], FORMS[-1].examples[0]
    return places[best]
