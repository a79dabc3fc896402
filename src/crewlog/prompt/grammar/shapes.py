"""Sentences about the shape of a whole crew: a hub, stages, a team with a plan, a conversation.

    The router sends each message to billing, support or general. Anything else goes to general.
    The supervisor decides which of discovery, builder and configurator begins; they work in this
    order, and the responder answers.
    The planner splits the work into steps for the coder and the tester. They carry out their steps,
    two at a time. The reviewer says who must work again, at most 2 times.

Each is read as a whole or not at all, before the sentence is cut into clauses. What follows a shape
and belongs to it (who answers what fits nobody, how many at a time) is added to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from crewlog.definition.model import NAME_PATTERN
from crewlog.model import Json
from crewlog.prompt.ast import AnyStatement, Artifact, Cap, Conversation, OnError, Use, Window
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.moves import ways
from crewlog.prompt.grammar.phrase import number
from crewlog.prompt.grammar.reading import Reading
from crewlog.prompt.grammar.shape_lists import EACH, MESSAGE, PICKS, SENDS, SPLITS, STEPS

_BEGINS = ways(
    "begins|starts|works first|goes first|comes first|is first|takes the first turn|runs first"
)
_FOR = ways("for|among|between|over|to")
_WORK = ways(
    "the work|the task|the request|the input|it|the job|the problem|the feature|what is to be done"
)
_AND_OR = word_set("and or , ; then")
_MOST = 999
_ONCE = {"once": 1, "twice": 2, "thrice": 3}

_FITS_NOBODY = ways(
    "anything else|everything else|any other message|all else|all other messages|whatever fits nobody|"
    "what fits nobody|what fits none of them|what none of them fits|everything that fits nobody|"
    "any other question|any other request|the rest|all the rest|other messages|all other questions"
)
_IF_NOBODY = ways(
    "if nobody fits|if none fits|if no one fits|if none of them fits|when nobody fits|if no agent fits|"
    "where nobody fits|if it fits nobody|if nobody else fits|otherwise"
)
_WHO_ANSWERS = ways(
    "who answers|which agent answers|which of them answers|who is to answer|who should answer"
)
_GOES_TO = ways("goes to|go to|is for|are for|is sent to|is answered by|are answered by|is left to")
_ANSWERS = ways("answers it|answers|replies|takes it|answers instead|takes over|steps in")
_THEY = ways("they|these|they all|all of them|the stages|all stages")
_ORDER = ways(
    "work in this order|follow in this order|work in that order|follow in that order|"
    "go on in this order|run in this order|work one after the other|follow one after the other|"
    "work in order|follow in order|take turns in this order|the others follow in this order"
)
_THE_END = ways(
    "answers|answers the user|tells the user what came of it|answers at the end|answers last|sums up|writes the answer|replies|"
    "speaks last|ends the work|gives the answer|writes the final answer|tells the user"
)
_WHO_NEXT = ways(
    "works next|goes next|comes next|is next|runs next|is to work next|gets the next turn"
)
_EACH_HOP = ways(
    "after each stage|after every stage|after each of them|after each step|after every step|"
    "at every step|after every hop|after each hop|each time"
)
_CARRY = ways(
    "carry out|carry out their steps|carry them out|do|do their steps|do their parts|work on them|"
    "work on their steps|work on these|do them|carry these out|take them|carry out the steps|"
    "carry out these steps|work on the steps|do the steps|carry out the plan|carry out their parts"
)
_AT_A_TIME = ways("at a time|at once|at the same time|in parallel|side by side")
_AT_MOST = ways("at most|no more than|not more than|up to|a maximum of|only")
_AGAIN = ways(
    "must work again|works again|has to work again|must try again|has to redo what|"
    "must mend what|has to mend what|must redo its part|has to correct what|must work once more"
)
_APPROVE_PLAN = ways(
    "i approve the plan first|i approve the plan|ask me to approve the plan|show me the plan first|"
    "the plan needs my approval|i must approve the plan|ask me before the plan is carried out|"
    "show me the plan for approval|i approve the plan before it is carried out"
)
_EVERYBODY = ways("each agent|every agent|all agents|everybody|everyone|each of them")
_MAY_CALL = ways(
    "may call its model|may call the model|can call its model|may ask its model|calls its model|"
    "may call their models|takes|may take|may make|makes|gets"
)
_WITH_WHAT_IT_HAS = ways(
    "it goes on with what it has|it ends with what it has|it stops with what it has|"
    "it goes on with what is there|it ends with what is there|it hands on what it has|"
    "it must make do with what it has|goes on with what it has|they go on with what they have|"
    "its turn ends with what is there"
)
_SOME_FAILS = ways(
    "if an agent fails|if any agent fails|if one of them fails|if any of them fails|"
    "when an agent fails|if someone fails|if somebody fails|should an agent fail"
)
_APOLOGY = ways(
    "the user gets an apology|the user still gets an answer|the user is told|tell the user|"
    "apologise to the user|apologize to the user|the user gets an answer all the same|"
    "say sorry to the user|the user gets an answer nevertheless"
)
_CHANGES = word_set("change changes build builds edit edits keep keeps write writes make makes")
_SEES = word_set("sees see reads read")
_SUMMED_UP = ways(
    "a summary of the older ones|a summary of what came before|a summary of the rest|"
    "a summary of all before|older ones are summed up|the older ones are summed up|"
    "what came before is summed up|the rest is summed up|older ones as a summary|"
    "older messages are summed up|older ones are summarised|older ones are summarized"
)
_TALK = ways(
    "the crew talks with its users|the crew talks with people|the crew chats with people|"
    "the crew chats with its users|the crew talks to people|the crew talks to its users|"
    "it is a conversation|this is a conversation|it is a chat|this is a chat|"
    "this is a conversation of many turns|it is a conversation of many turns|the crew holds a conversation|"
    "the crew answers one message after the other|the crew chats with the user|"
    "the crew talks with the user|the crew talks to the user"
)
_SILENCE = ways(
    "of silence|without a message|without any message|without messages|of quiet|in silence|"
    "without a word|with no message"
)
_CONVERSATION = ways(
    "a conversation|the conversation|a session|the session|the chat|a chat|every conversation"
)
_ENDS = ways("ends after|is over after|closes after|stops after|lasts until")

Found = list[AnyStatement] | None


class Shapes(Reading):
    """Reads one sentence."""

    def read(self) -> Found:
        """What it says; none where it is no sentence of this kind, or not understood as a whole."""
        for form in (
            self._hub,
            self._picked,
            self._else,
            self._often,
            self._stages,
            self._every_hop,
            self._plan,
            self._pool,
            self._reflection,
            self._approved,
            self._window,
            self._conversation,
            self._cap,
            self._apology,
            self._artifact,
        ):
            self.scan.at = 0
            made = form()
            if made is not None:
                return made
        return None

    # -- hubs ------------------------------------------------------------------------------------

    def _hub(self) -> Found:
        """`The router sends each message to billing, support or general`."""
        scan, who = self.scan, self.agents()
        if len(who) != 1 or scan.word not in SENDS:
            return None
        scan.at += 1
        if not self._each_message():
            return None
        one_of, begun = scan.takes(ways("to one of|to either|to whichever of")), scan.at
        if not one_of and not scan.takes(ways("to")):
            return None
        named = self.agents()
        if not one_of and "or" not in scan.words[begun : scan.at]:
            return None  # `to the lawyer and the clerk`: both of them get it
        scan.takes(ways("fits|fits best|is the right one"))
        return self._hub_of(who[0], named)

    def _picked(self) -> Found:
        """`For each message, the router picks one of billing and support`."""
        scan = self.scan
        fronted = scan.takes(ways("for")) and self._each_message()
        if fronted:
            scan.over({","})
        who = self.agents()
        if len(who) != 1 or scan.word not in PICKS:
            return None
        scan.at += 1
        if scan.takes(_WHO_ANSWERS):
            said = self._each_message() or (fronted and scan.takes(ways("it"))) or fronted
            if not (said or scan.word == ":") or not scan.takes(ways(":|,|–")):
                return None
            return self._hub_of(who[0], self.agents())
        if not scan.takes(ways("one of|between|among|which of")):
            return None
        named = self.agents()
        scan.takes(ways("to answer it|to answer|answers it|answers|is to answer it|is to answer"))
        if not fronted and not (scan.takes(ways("for")) and self._each_message()):
            scan.takes(ways("to answer"))
            if not self._each_message():
                return None
        return self._hub_of(who[0], named)

    def _each_message(self) -> bool:
        scan = self.scan
        if scan.word not in EACH or scan.rest[1:2] == [] or scan.rest[1] not in MESSAGE:
            return False
        scan.at += 2
        scan.takes(ways("of the user|of a user|from the user"))
        return True

    def _hub_of(self, router: str, agents: tuple[str, ...]) -> Found:
        agents = tuple(name for name in agents if name != router)
        options: dict[str, Json] = {"router": router, "agents": list(agents)}
        if len(agents) < 2 or not self._tail_of_hub(options):
            return None
        named = (router, *agents)
        self.state.worked, self.state.subject = named, agents
        use = Use(use="hub", options=options, agents=_all(named, options), words=self.words)
        return [use, Conversation(words=self.words)]

    def _tail_of_hub(self, options: dict[str, Json]) -> bool:
        """Reads what may follow in the sentence: `; if nobody fits, general answers`."""
        while not self.over():
            self.scan.over(_AND_OR)
            if self.over():
                return True
            if not (self._bound(options) or self._fallback(options)):
                return False
        return True

    def _fallback(self, options: dict[str, Json]) -> bool:
        scan, begun = self.scan, self.scan.at
        if scan.takes(_FITS_NOBODY) and scan.takes(_GOES_TO):
            who = self.agents()
        elif scan.takes(_IF_NOBODY):
            scan.over({","})
            scan.takes(ways("it goes to|send it to|pass it to"))
            who = self.agents()
            scan.takes(_ANSWERS)
        else:
            who = ()
        if len(who) != 1:
            scan.at = begun
            return False
        options["fallback"] = who[0]
        return True

    def _bound(self, options: dict[str, Json]) -> bool:
        """Reads `at most twice each`."""
        scan, begun = self.scan, self.scan.at
        scan.takes(ways("each of them|each|each at"))
        scan.takes(ways("is asked|works|answers|may be asked|may answer|may work"))
        scan.takes(_AT_MOST)
        most = self._times()
        if most is None:
            scan.at = begun
            return False
        scan.takes(ways("each|per message|a message|in a turn|per turn|for each message"))
        options["at_most"] = most
        return True

    def _times(self) -> int | None:
        scan = self.scan
        if scan.word in _ONCE:
            scan.at += 1
            return _ONCE[scan.words[scan.at - 1]]
        most = self._number()
        return most if most is not None and scan.takes(ways("times|time")) else None

    def _number(self) -> int | None:
        found = number(self.scan.word) if self.scan.word else None
        if found is None or found != int(found) or not 1 <= found <= _MOST:
            return None
        self.scan.at += 1
        return int(found)

    def _else(self) -> Found:
        """`Anything else goes to general`, behind a hub."""
        said: dict[str, Json] = {}
        if not self._fallback(said) or not self.over():
            return None
        at, options = self._shape("hub")
        return self._put(at, {**options, **said}) if at >= 0 else None

    def _often(self) -> Found:
        """`Each of them answers at most once per message`, behind a hub."""
        said: dict[str, Json] = {}
        if not self._bound(said) or not self.over():
            return None
        at, options = self._shape("hub")
        return self._put(at, {**options, **said}) if at >= 0 else None

    # -- stages ----------------------------------------------------------------------------------

    def _stages(self) -> Found:
        """`The supervisor decides which of A, B and C begins; they work in this order, and …`."""
        scan, who = self.scan, self.agents()
        if len(who) != 1 or scan.word not in PICKS:
            return None
        scan.at += 1
        if scan.takes(ways("which stage|which of the stages|which of them|who")):
            if not scan.takes(_BEGINS) or not scan.takes(ways(":|,|–")):
                return None
            stages = self.agents()
        else:
            stages = self.agents() if scan.takes(ways("which of")) else ()
            if not scan.takes(_BEGINS):
                return None
        if len(stages) < 2:
            return None
        scan.over(_AND_OR)
        if not scan.takes(_THEY):
            return None
        scan.over({"then"})
        return self._staged(who[0], stages, "first") if scan.takes(_ORDER) else None

    def _every_hop(self) -> Found:
        """`After each stage the supervisor decides which of A, B and C works next; R answers`."""
        scan = self.scan
        fronted = scan.takes(_EACH_HOP)
        scan.over({","})
        who = self.agents()
        if len(who) != 1 or scan.word not in PICKS:
            return None
        scan.at += 1
        fronted = scan.takes(_EACH_HOP) or fronted
        if not fronted or not scan.takes(ways("which of")):
            return None
        stages = self.agents()
        if len(stages) < 2 or not scan.takes(_WHO_NEXT):
            return None
        return self._staged(who[0], stages, "every_hop")

    def _staged(self, supervisor: str, stages: tuple[str, ...], hops: str) -> Found:
        scan = self.scan
        scan.over(_AND_OR | {"finally", "then", "at", "last", "in", "the", "end"})
        responder = self.agents()
        if len(responder) != 1 or not scan.takes(_THE_END):
            return None
        scan.over({"at", "the", "end", "finally", "last"})
        if not self.over():
            return None
        named = (supervisor, *stages, *responder)
        self.state.worked, self.state.subject = named, responder
        options: dict[str, Json] = {
            "supervisor": supervisor,
            "stages": list(stages),
            "responder": responder[0],
        }
        if hops != "first":
            options["hops"] = hops
        # The one that ends the part stands first.
        agents = (responder[0], supervisor, *stages)
        return [Use(use="stages", options=options, agents=agents, words=self.words)]

    # -- teams -----------------------------------------------------------------------------------

    def _plan(self) -> Found:
        """`The planner splits the work into steps for the coder and the tester`."""
        scan, who = self.scan, self.agents()
        if len(who) != 1 or scan.word not in SPLITS:
            return None
        scan.at += 1
        scan.takes(_WORK)
        scan.takes(ways("down|up"))
        if not scan.takes(ways("into|in|as")) or scan.word not in STEPS:
            return None
        scan.at += 1
        workers = self.agents() if scan.takes(_FOR) else ()
        if not workers or who[0] in workers or not self.over():
            return None
        self.state.worked, self.state.subject = (who[0], *workers), workers
        options: dict[str, Json] = {"planner": who[0], "workers": list(workers)}
        agents = (*workers, who[0])
        return [Use(use="team", options=options, agents=agents, words=self.words)]

    def _pool(self) -> Found:
        """`They carry out their steps, two at a time`, behind a plan."""
        scan = self.scan
        they = scan.takes(_THEY)
        who = () if they else self.agents()
        if not scan.takes(_CARRY):
            return None
        at, options = self._shape("team")
        if at < 0 or not (they or {*who} == {*names_of(options, "workers")}):
            return None
        scan.over({","})
        scan.takes(_AT_MOST)
        if (most := self._number()) is not None:
            scan.takes(ways("of them"))
            if not scan.takes(_AT_A_TIME):
                return None
            options["at_once"] = most
        return self._put(at, options) if self.over() else None

    def _reflection(self) -> Found:
        """`The reviewer says who must work again, at most 2 times`, behind a plan."""
        scan, who = self.scan, self.agents()
        if len(who) != 1 or scan.word not in PICKS:
            return None
        scan.at += 1
        if not scan.takes(ways("who|which of them")) or not scan.takes(_AGAIN):
            return None
        at, options = self._shape("team")
        if at < 0:
            return None
        scan.over({",", ";", "and"})
        scan.takes(ways("only they do|only those do|only they work again|they do so|they do"))
        scan.over({","})
        if not self.over():
            scan.takes(_AT_MOST)
            most = self._times()
            if most is None or not self.over():
                return None
            options["rounds"] = most
        if who[0] in (*names_of(options, "workers"), options["planner"]):
            return None
        options["reviewer"] = who[0]
        return self._put(at, options, first=who[0])

    def _approved(self) -> Found:
        """`I approve the plan first`, behind a plan."""
        if not self.scan.takes(_APPROVE_PLAN) or not self.over():
            return None
        at, options = self._shape("team")
        return self._put(at, {**options, "approve": True}) if at >= 0 else None

    # -- what is said of all ---------------------------------------------------------------------

    def _window(self) -> Found:
        """`The router sees the last 5 messages, and a summary of what came before`."""
        scan = self.scan
        everybody = scan.takes(_EVERYBODY)
        agents = () if everybody else self.agents()
        if not (agents or everybody):
            return None
        scan.takes(ways("only|may only|should only"))
        if scan.word not in _SEES:
            return None
        scan.at += 1
        scan.takes(_AT_MOST)
        if not scan.takes(ways("the last|the newest|the latest")):
            return None
        last = self._number()
        if last is None or not scan.takes(ways("messages|message")):
            return None
        scan.over({",", ";", "and", "with", "plus"})
        short = scan.takes(_SUMMED_UP)
        summary = "extract" if short else None
        if not self.over():
            return None
        return [Window(agents=agents, last=last, summary=summary, words=self.words)]

    def _conversation(self) -> Found:
        """`The crew talks with its users`, `A conversation ends after 30 minutes of silence`."""
        scan = self.scan
        if scan.takes(_TALK):
            return [Conversation(words=self.words)] if self.over() else None
        if not scan.takes(_CONVERSATION) or not scan.takes(_ENDS):
            return None
        idle = self.lapse()
        if idle is None or not scan.takes(_SILENCE) or not self.over():
            return None
        return [Conversation(idle=idle, words=self.words)]

    def _cap(self) -> Found:
        """`Discovery may call its model at most 8 times; then it goes on with what it has`."""
        scan = self.scan
        everybody = scan.takes(_EVERYBODY)
        agents = () if everybody else self.agents()
        if not (agents or everybody) or not scan.takes(_MAY_CALL) or not scan.takes(_AT_MOST):
            return None
        most = self._number()
        if most is None or not scan.takes(ways("times|time|model calls|calls of its model")):
            return None
        scan.takes(ways("in a turn|per turn|a turn|each turn"))
        scan.over(_AND_OR)
        ends = scan.takes(_WITH_WHAT_IT_HAS)
        if not self.over():
            return None
        return [Cap(agents=agents, most=most, ends=ends, words=self.words)]

    def _apology(self) -> Found:
        """`If an agent fails, the user gets an apology`, and the crew goes on."""
        scan = self.scan
        if not scan.takes(_SOME_FAILS):
            return None
        scan.over({","})
        if not scan.takes(_APOLOGY) or not self.over():
            return None
        return [OnError(policy="continue", words=self.words)]

    def _artifact(self) -> Found:
        """`The builder and the configurator change the artifact workflow`."""
        scan, agents = self.scan, self.agents()
        scan.takes(ways("may both|may|can both|can|together|alone|both|jointly"))
        if not agents or scan.word not in _CHANGES:
            return None
        scan.at += 1
        if not scan.takes(
            ways("the artifact|an artifact , the|an artifact called|one artifact , the")
        ):
            return None
        name = scan.word
        scan.at += bool(name)
        scan.takes(ways("together|step by step"))
        if not re.fullmatch(NAME_PATTERN, name) or not self.over():
            return None
        return [Artifact(name=name, writers=agents, words=self.words)]

    # -- what was said before --------------------------------------------------------------------

    def _shape(self, use: str) -> tuple[int, dict[str, Json]]:
        """The last shape of a kind that was said, and its options; -1 where there is none.

        It goes through all that was said, so the words of a sentence are looked at first: of
        thousands of sentences, few are about a shape.
        """
        for at in range(len(self.state.statements) - 1, -1, -1):
            said = self.state.statements[at]
            if isinstance(said, Use) and said.use == use:
                return at, dict(said.options)
        return -1, {}

    def _put(self, at: int, options: dict[str, Json], *, first: str = "") -> Found:
        """Adds what a sentence says to the shape that it belongs to."""
        said: Any = self.state.statements[at]
        agents = _all((first, *said.agents) if first else said.agents, options)
        words = (*said.words, *self.words)
        self.state.replace(at, options=options, agents=agents, words=words)
        return []


def names_of(options: dict[str, Json], key: str) -> tuple[str, ...]:
    """The agents that an option lists."""
    found: Any = options.get(key)
    return tuple(str(name) for name in found) if isinstance(found, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _all(agents: Sequence[str], options: dict[str, Json]) -> tuple[str, ...]:
    """The agents, with the one that options name besides."""
    fallback = options.get("fallback")
    return tuple(dict.fromkeys([*agents, *([str(fallback)] if fallback else [])]))
