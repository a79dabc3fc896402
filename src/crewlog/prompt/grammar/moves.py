"""What moves a run: going back, trying again, repeating, stopping, going on, leaving out, waiting.

Each reader looks at the words of one clause from left to right: who (if anyone is named), helping
verbs, the verb by its class, and what follows it. It answers only where it has understood all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from crewlog.prompt.grammar.lexicon import verb_base, word_set
from crewlog.prompt.grammar.phrase import number


@cache
def ways(text: str) -> tuple[tuple[str, ...], ...]:
    """Phrases, between bars, the longest first."""
    said = [tuple(way.split()) for line in text.splitlines() for way in line.split("|")]
    return tuple(sorted((w for w in said if w), key=len, reverse=True))


PRONOUNS = word_set(
    "it this that they he she we you i them us things everything work all one who which"
)
HELPING = word_set(
    "must has have had needs need should can could to will would shall may might "
    "gets get is are be been was were 's do does let lets please just simply "
    "then and also always now means want wants wish asked told allowed supposed "
    "going had better straight right directly ahead kindly simply ends ended "
    "lands"
)
_DETERMINERS = word_set("the a an its his her their our my your this that these those")
MOVES = word_set(
    "go come hand pass send give kick bounce throw return move loop jump route "
    "hop ship travel step turn report take fall push bring rewind head refer "
    "forward redirect transfer drop put toss point lead feed"
)
MOVED = word_set(
    "sent handed passed given kicked bounced thrown returned moved looped routed "
    "pushed brought taken referred forwarded redirected transferred put tossed "
    "pointed going coming sending handing passing"
)
_RESTARTS = word_set(
    "start begin restart resume retry repeat redo continue try run go loop work proceed starting"
)
_ON_THE_WAY = ways("in that case|round trip|all the way|the ball is|off we go|a round")
_AFRESH = ways(
    "all over again|over again|all over|over|again|afresh|anew|from scratch"
    "|once more|back|once again"
)
_ANOTHER = ways(
    "another go|another try|another attempt|another round|another turn"
    "|another chance|another pass|another shot|another look|another draft"
    "|another version|a second go|a second try|a second attempt|a new version"
    "|a new draft|a new attempt|over|one more time|one more go|one more try|again"
    "|once more|once again|over again|all over|anew|afresh|from scratch"
    "|a second time"
)
_REVISES = word_set(
    "revise rework rewrite redo redraft rethink reconsider re-do retry repeat "
    "fix correct improve amend mend repair rebuild restart rerun re-run adjust "
    "refine polish update patch overhaul remake redesign recast recheck revisit"
)
_REPEATS = word_set("repeat loop iterate alternate circle cycle ping-pong")
_ROUNDS = ways(
    "back and forth|in a loop|in circles|in rounds|in turns|round and round"
    "|around|round|through this|over this|over and over|again and again|at it"
    "|on it together|on it|together"
)
_SO = ways(
    "this|that|it|so|these steps|these two steps|these two|this loop|all of this|the same|both"
)
_DOING = word_set(
    "going doing repeating working iterating looping revising trying improving "
    "refining polishing at on"
)
_STOPS = ways(
    "give up|stop|end|quit|drop it|forget it|forget about it|call it a day"
    "|abandon|leave it|finish|halt|cease|is over|that is it|are done|is done|done"
    "|throw it away|close it|end of story|the end|call it off|cancel|pack it in"
    "|call it quits|terminate"
)
_FAILS = ways(
    "fail|abort|raise an error|error out|is a failure|counts as failed|break off"
    "|report a failure|count it as failed|end with an error|stop with an error"
    "|count as failed"
)
_GOES_ON = ways(
    "go on|continue|carry on|move on|proceed|go ahead|press on|keep going"
    "|accept it|accept|take it|use it|publish|ship it|ship|live with it"
    "|use what there is|take what we have|take what there is|leave it at that"
    "|leave it|publish it|publish it as it is|take the last one"
    "|take the last version|take the best one|take the best version|let it pass"
    "|let it go"
)
_ANYWAY = ways(
    "anyway|regardless|as it is|as is|nevertheless|all the same|at that"
    "|without it|to the next step|with the next step|with the run|with it"
    "|with what we have|with what we have got|with what there is"
    "|with the last one|with the best one|with the last version"
    "|with the best version|with the last draft|with the best draft|from there"
    "|then|here|there|now|please"
)
_WHOLE = ways(
    "everything|the run|the whole run|it|it all|the whole thing|the crew"
    "|the process|here|there|right there|right here|altogether|trying|at once"
    "|immediately|then|at that point|at this point|with an error|please"
    "|straight away|right away|it there|the work|completely|for good|on it"
)
_RUN = ways("the run|the crew|the whole thing|the whole run|the process|everything")
_SKIPS = ways(
    "skip|leave out|omit|pass over|drop|bypass|do without|jump over"
    "|not bother with|do not bother with|forgo|spare|do not need|miss out"
    "|go without|dispense with|leave aside|pass by"
)
_SKIPPED = ways(
    "skipped|left out|passed over|not needed|omitted|bypassed|dropped|spared"
    "|not necessary|superfluous|unnecessary|not called|not required|left aside"
    "|dispensed with"
)
_IDLE = ways(
    "need not|does not need to|does not have to|do not need to|do not have to"
    "|can sit it out|can sit this one out|sits it out|sits this one out"
    "|sit it out|has nothing to do|stays out of it|is off the hook|is out"
)
_OWN = ways("'s step|'s turn|'s part|'s work|'s review|'s check")
_THEN = ways(
    "altogether|then|entirely|completely|and go on|this time|in that case|and continue|and move on"
)
_SOME = word_set(
    "me us human humans person people someone somebody colleague boss user "
    "supervisor operator anybody"
)


class Scan:
    """The words of a clause, read from left to right."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.at = 0

    @property
    def rest(self) -> Sequence[str]:
        """What is not read yet."""
        return self.words[self.at :]

    @property
    def word(self) -> str:
        """The word at hand; empty at the end."""
        return self.words[self.at] if self.at < len(self.words) else ""

    def over(self, words: Iterable[str]) -> None:
        """Passes over any number of these words."""
        while self.word and self.word in words:
            self.at += 1

    def takes(self, phrases: Sequence[tuple[str, ...]], *, base: bool = False) -> bool:
        """Whether one of these phrases is next; reads it. With `base`, its verb in any form."""
        first = self.word
        firsts = (first, verb_base(first)) if base and first else (first,)
        for way in phrases:
            if way[0] not in firsts:  # nearly always: a slice of each would cost most of a reading
                continue
            if tuple(self.words[self.at + 1 : self.at + len(way)]) == way[1:]:
                self.at += len(way)
                return True
        return False

    def agents(self) -> tuple[str, ...]:
        """The agents that are next, with what joins them."""
        named: list[str] = []
        at = self.at
        while at < len(self.words):
            word = self.words[at]
            if word.startswith("@"):
                named.append(word)
                self.at = at + 1
            elif not (named and word in {",", "and", "or"}) and word not in {"both", "either"}:
                break
            at += 1
        return tuple(named)

    def noun(self) -> bool:
        """Whether a thing is next (`the whole draft`), of at most four words; reads it."""
        if self.word not in _DETERMINERS:
            return False
        at = self.at + 1
        while at < len(self.words) and at - self.at < 5 and self.words[at][0].isalpha():
            if self.words[at] in HELPING or verb_base(self.words[at]) in MOVES | _RESTARTS:
                break
            if self.words[at] in {"back", "over", "again", "to", "with", "at", "from"}:
                break
            at += 1
        if at == self.at + 1:
            return False
        self.at = at
        return True


def back_to(words: Sequence[str]) -> str:
    """The agent that a clause leads back to; empty where it leads nowhere back.

    `back to the writer`, `it goes straight back to the writer`, `return to the writer`, `start over
    with the writer`, `the editor hands it back to the writer`.
    """
    scan = Scan(words)
    scan.agents()
    while True:
        at = scan.at
        if scan.word == "back" or _way_back(scan):
            break
        if scan.takes(_ON_THE_WAY) or scan.noun():
            continue
        scan.over(PRONOUNS | HELPING)
        if scan.at != at:
            continue
        if verb_base(scan.word) not in MOVES and scan.word not in MOVED | {"off", "up", ","}:
            return ""
        scan.at += 1
    if scan.word == "back":
        scan.at += 1
        scan.over({"over", "straight", "again", "right", "on"})
        if scan.word not in {"to", "with", "at", "onto"} and not scan.takes(
            (("into", "the", "hands", "of"),)
        ):
            return ""
        scan.at += scan.word in {"to", "with", "at", "onto"}
    if not scan.word.startswith("@") or scan.words[scan.at - 1] not in {
        "to",
        "with",
        "at",
        "from",
        "of",
        "onto",
    }:
        return ""
    target = scan.word
    scan.at += 1
    follows = scan.word
    fine = not follows or follows in word_set(
        "again once to for with , who so and it goes step phase 's over we stage in as"
    )
    return target if fine else ""


def _way_back(scan: Scan) -> bool:
    """Whether `return … to` or `start over with` is next; reads up to its preposition's end."""
    words, begin = scan.words, scan.at
    verb = verb_base(scan.word)
    if verb not in _RESTARTS and verb not in {"return", "go", "revert"} and scan.word != "returned":
        return False
    scan.at += 1
    scan.over({"it", "this", "that", "them", "everything", "things", "we", "all"})
    if scan.word != "back":
        scan.noun()
    again = scan.takes(_AFRESH)
    scan.takes(_AFRESH)
    back = verb in {"return", "revert"} or words[begin] == "returned"
    if back and scan.word == "to":
        scan.at += 1
        return True
    if scan.word in {"with", "from", "at"} and (again or verb in _RESTARTS - {"go", "work", "run"}):
        scan.at += 1
        return scan.word.startswith("@")
    scan.at = begin
    return False


def tries_again(words: Sequence[str]) -> tuple[str, ...]:
    """Who works once more: `the writer tries again`, `have it rework the draft`; empty for nobody.

    Agents as `@0`, or the pronoun alone.
    """
    scan = Scan(words)
    scan.over({"let", "have", "make", "get", "ask", "tell", "then", "so"})
    if scan.takes(ways("it is|that is|is it")):
        turn = scan.agents()
        ends = tuple(scan.rest) in {("'s", "turn"), ("'s", "turn", "again"), ("again",)}
        return turn if ends else ()
    who: tuple[str, ...] = scan.agents()
    if not who and scan.word in {"it", "he", "she", "they"}:
        who = (scan.word,)
        scan.at += 1
    if not who:
        return ()
    scan.over(HELPING | {"quickly", "carefully", "has", "had"})
    if scan.takes(_ANOTHER):
        return who
    verb = verb_base(scan.word)
    rest = scan.rest
    if any(word.startswith("@") for word in rest):
        return ()
    if verb in _REVISES or tuple(rest[:2]) in {("starts", "over"), ("start", "over")}:
        return who
    said = " ".join(rest) + " "
    marked = any(f" {' '.join(way)} " in said for way in _ANOTHER)
    return who if marked and "," not in rest else ()


def repeats(words: Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Whether a clause says that something is repeated, and by whom where it says that.

    `they repeat this`, `the writer and the editor go back and forth`, `keep at it`.
    """
    scan = Scan(words)
    scan.over({"let", "have", "then"})
    group = scan.agents()
    if not group:
        scan.over(
            {
                "they",
                "both",
                "we",
                "you",
                "this",
                "that",
                "it",
                "these",
                "the",
                "two",
                "three",
                "last",
            }
        )
        scan.over({"steps", "all", "of", "them", "these", "step", "process"})
    scan.over((HELPING | {"both", "together", "all"}) - {"is", "are"})
    if scan.word in {"is", "are"} and scan.words[scan.at + 1 : scan.at + 2] == ["repeated"]:
        scan.at += 2
        return (not _mentions(scan.rest), group)
    verb = verb_base(scan.word)
    scan.at += 1
    if verb in _REPEATS:
        return (not _mentions(scan.rest), group)
    if verb in {"go", "run", "work", "bounce", "play", "pass", "toss", "hand"}:
        scan.over({"it", "this", "on", "the", "draft", "text", "between", "them"} - {"on"})
        return (scan.takes(_ROUNDS) and not _mentions(scan.rest), group)
    if verb == "keep":
        if scan.word in {"bouncing", "passing", "handing", "sending", "throwing"}:
            return (not _mentions(scan.rest), group)
        return (scan.word in _DOING and not _mentions(scan.rest), group)
    if verb == "do":
        return (scan.takes(_SO) and not _mentions(scan.rest), group)
    if verb in {"continue", "carry"}:
        scan.over({"on", "with", "this", "that", "like", "so", "working", "revising", "until"})
        return (not scan.rest, group)
    if verb == "take":
        return (scan.word == "turns" and not _mentions(scan.rest), group)
    return (False, ())


def _mentions(words: Sequence[str]) -> bool:
    return any(word[0] in "@#$~" for word in words)


Outcome = Literal["ask_human", "end", "fail", "next"]


_OUTCOMES: tuple[tuple[Outcome, tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]], ...] = (
    ("fail", _FAILS, _WHOLE),
    ("end", _STOPS, _WHOLE),
    ("next", _GOES_ON, _ANYWAY),
)


def outcome(words: Sequence[str]) -> Outcome | None:
    """What a clause without agents makes of the run: `give up`, `we just go on`, `ask me`."""
    scan = Scan(words)
    scan.over({"then", "and", "so"})
    scan.takes((("let", "us"),))
    if not scan.takes(_RUN):
        scan.over({"we", "you", "it", "i", "they", "both", "everyone"})
    elif not scan.rest:
        return None
    scan.over(
        word_set(
            "just simply then please should must will can may also shall us to has have is we all"
        )
    )
    begin = scan.at
    if begin and tuple(scan.words[begin - 1 :]) in {("is", "over"), ("is", "done")}:
        return "end"
    for kind, verbs, tails in _OUTCOMES:
        scan.at = begin
        if scan.takes(verbs, base=True):
            while scan.takes(tails) or scan.takes((("and",),)):
                pass
            if not scan.rest:
                return kind
    scan.at = begin
    return "ask_human" if _asks(scan) else None


_TELLS = word_set(
    "ask tell call consult check come get ping alert notify escalate refer hand "
    "leave bring contact go bother inform send be pass turn involve report page "
    "defer"
)
_LINKS = word_set("with to in back over it up the matter on this that for out decision question")


def _asks(scan: Scan) -> bool:
    """Whether people are asked: `check with me`, `hand it over to a human`, `it is up to me`."""
    words = scan.rest
    if not words:
        return False
    if tuple(words[:3]) in {("is", "my", "call"), ("up", "to", "me"), ("let", "me", "decide")}:
        return True
    if words[0] == "let" and words[-1] in {"know", "decide", "see", "choose", "judge"}:
        return words[-2] in _SOME
    if words[0] in {"want", "would", "wish", "like", "decide", "hear"}:
        return _own_say(words)
    verb = verb_base(words[0])
    if verb not in _TELLS and words[0] not in {"handed", "sent", "passed", "up", "asked"}:
        return False
    at = 1
    while at < len(words) and words[at] in _LINKS:
        at += 1
    begin = at
    while (
        at < len(words) and words[at] in {"a", "the", "real", "my", "human", "some", "an"} - _SOME
    ):
        at += 1
    if at >= len(words) or words[at] not in _SOME:
        return False
    at += 1
    if words[at : at + 1] and words[at] in {"being", "operator", "supervisor"}:
        at += 1
    tail = words[at:]
    del begin
    return (
        not _mentions(tail)
        and len(tail) <= 6
        and not set(tail) & {"whether", "which", "before", ","}
    )


def _own_say(words: Sequence[str]) -> bool:
    """`I want to know`, `I decide`, `I would like to hear about it`."""
    said = set(words)
    return (
        bool(said & {"know", "told", "asked", "decide", "hear", "look", "see", "step"})
        and len(words) <= 8
    )


def skips(words: Sequence[str]) -> tuple[str, ...]:
    """Who is passed over: `skip the tester`, `the tester is not needed`; empty for nobody."""
    scan = Scan(words)
    if scan.takes((("there", "is", "no", "need", "for"), ("no", "need", "for"))):
        return scan.agents() if _ends_at_agents(scan) else ()
    scan.over(word_set("we you just can may please simply should then it"))
    who = scan.agents()
    if who:
        scan.takes(_OWN)
        if scan.takes(_IDLE):
            return who
        scan.over(word_set("is are can be may should gets will simply just then get"))
        return who if scan.takes(_SKIPPED) and (scan.takes(_THEN) or not scan.rest) else ()
    scan.takes(_RUN)
    scan.over(word_set("just can may simply should then"))
    if not scan.takes(_SKIPS, base=True):
        return ()
    scan.takes((("the", "step", "of"), ("the", "turn", "of")))
    return scan.agents() if _ends_at_agents(scan) else ()


def _ends_at_agents(scan: Scan) -> bool:
    """Whether agents, and next to nothing behind them, are all that is left."""
    ahead = Scan(scan.rest)
    if not ahead.agents():
        return False
    ahead.takes(_OWN)
    ahead.takes(_THEN)
    return not ahead.rest


@dataclass(frozen=True, slots=True)
class Wait:
    """`Wait for both`, `wait for two of them`."""

    join: Literal["all", "any"] | int = "all"
    agents: tuple[str, ...] = ()


_FINISHED = ways(
    "to finish|to be done|to be ready|to complete|are done|is done|have finished"
    "|has finished|are finished|is finished|are ready|is ready|finish|finishes"
    "|are through|are in|have reported|have delivered"
)


def waits_for(words: Sequence[str]) -> Wait | None:
    """Whom a clause waits for: `wait for both`, `wait until two of them are done`."""
    scan = Scan(words)
    scan.over(word_set("we you then please must should just"))
    if scan.word not in {"wait", "waits", "waiting"}:
        return None
    scan.at += 1
    if scan.word not in {"for", "until", "till"}:
        return None
    scan.at += 1
    if agents := scan.agents():
        wait = Wait("all", agents)
    else:
        scan.over({"the", "at", "least", "any"} if len(scan.rest) > 1 else ())
        any_of = scan.words[scan.at - 1] == "any" or scan.word in {
            "first",
            "any",
            "either",
            "one",
            "whichever",
            "whoever",
        }
        count = number(scan.word)
        if count is not None and count > 1:
            wait = Wait(int(count))
        elif any_of:
            wait = Wait("any")
        elif scan.word in word_set("both all everyone everybody them everything two others each"):
            wait = Wait()
        else:
            return None
        scan.at += 1
        scan.over(
            word_set("of them these the others one ones agents three four all two is first comes")
        )
    scan.takes(_FINISHED)
    return wait if not scan.rest else None
