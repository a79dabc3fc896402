"""Bounds of calls that are said of a number: `No more than 100 searches a day`, `a quota of 5 per run`.

Each gives a rule that counts, and nothing to anybody.
"""

from __future__ import annotations

from crewlog.prompt.ast import AnyStatement
from crewlog.prompt.grammar.calls import AT_MOST, MOST, Call, Calls
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.moves import ways
from crewlog.prompt.grammar.phrase import number

_CALLS = word_set("calls call uses use times time invocations invocation runs requests")
_OF_CALLS = ways("calls of|calls to|uses of|call of|call to|use of|invocations of")
_LIMITS = ways(
    "limit|restrict|cap|keep|limit calls of|limit the use of|limit calls to|keep calls of"
)
_IS_LIMITED = ways(
    "is limited to|are limited to|is restricted to|is capped at|is limited at|are capped at|"
    "is allowed|is good for|is rationed to"
)
_BOUND = ways("quota|limit|budget|cap|allowance|maximum")
_THERE_IS = ways("there is a|set a|there shall be a|there must be a|put a|impose a")
_HAS = ways("has a|have a|gets a|comes with a")
_GETS = ways("gets|get|has|have|is given|are given|is granted|are granted|is entitled to")
_MAY_MAKE = ways("may make|can make|may have|can have|must make")
_EACH_DAY = {"daily": "day", "hourly": "hour"}
_TOGETHER = ways("in total|in all|altogether|together|all together")


class Counts(Calls):
    """Reads one sentence."""

    def read(self) -> list[AnyStatement] | None:
        """The rule that counts; none where the sentence is none, or not understood as a whole."""
        if not self._mentions():
            return None
        for form in (self._at_most, self._limited, self._quota, self._has, self._gets):
            self.scan.at = 0
            self.call = Call()
            if form() and self.call.bounds and not self._more():
                return [self._rule("count", bound) for bound in self.call.bounds]
        return None

    def _more(self) -> bool:
        """Whether words are left that were not read."""
        self.scan.takes(_TOGETHER)
        return not self.over()

    def _number(self) -> int | None:
        """Reads how many."""
        most = number(self.scan.word) if self.scan.word else None
        if most is None or most != int(most) or not 1 <= most <= MOST:
            return None
        self.scan.at += 1
        return int(most)

    def _counted(self, most: int | None) -> bool:
        """Reads in what it is counted, which has to be said."""
        per = self.window()
        if most is None or not per:
            return False
        self.call.bounds.append((most, per))
        return True

    def _at_most(self) -> bool:
        """`No more than 100 searches a day`, `At most 3 calls of publish per run`."""
        self.scan.takes(ways("make|there may be|there shall be|allow|do"))
        if not self.scan.takes(AT_MOST):
            return False
        most = self._number()
        self.scan.takes(_OF_CALLS)
        if not self._tools() or (self.scan.takes(ways("by")) and not self._whose()):
            return False
        return self._counted(most)

    def _whose(self) -> bool:
        return self._subject() and not (self.call.nobody or self.call.only or self.call.each)

    def _limited(self) -> bool:
        """`Limit search to 50 calls per run`, `Search is limited to 50 calls per run`."""
        named = self.scan.word[:1] == "@"
        if named and not (self._whose() and self.scan.takes(ways("'s"))):
            return False
        ordered = self.scan.takes(_LIMITS)
        self.scan.takes(_OF_CALLS)
        if not self._tools() or (self.scan.takes(ways("by")) and not self._whose()):
            return False
        if not self.scan.takes(ways("to|at|below") if ordered else _IS_LIMITED):
            return False
        if self.scan.words[self.scan.at - 1] == "below":
            return False  # "below 5" is not "at most 5"
        return self._calls()

    def _calls(self, per: str = "") -> bool:
        """`50 calls per run`, `at most twice a day`; in what, where that is said before."""
        self.scan.takes(AT_MOST)
        if not per and self._bound():
            return not self.call.bare
        most = self._number()
        self.scan.over(_CALLS)
        if per and most is not None and self.over():
            self.call.bounds.append((most, per))
            return True
        return self._counted(most)

    def _quota(self) -> bool:
        """`There is a quota of 100 per day on search`, `The limit for search is 5 calls per run`."""
        if self.scan.takes(_THERE_IS):
            if not self.scan.takes(_BOUND) or not self.scan.takes(ways("of")) or not self._calls():
                return False
            return self.scan.takes(ways("on|for|to|of")) and self._tools()
        self.scan.over({"the", "a"})
        per = _EACH_DAY.get(self.scan.word, "")
        self.scan.at += bool(per)
        if not self.scan.takes(_BOUND) or not self.scan.takes(ways("for|of|on")):
            return False
        return self._tools() and self.scan.takes(ways("is")) and self._calls(per)

    def _has(self) -> bool:
        """`Search has a budget of 30 calls per run`."""
        if not self._tools() or not self.scan.takes(_HAS) or not self.scan.takes(_BOUND):
            return False
        return self.scan.takes(ways("of")) and self._calls()

    def _gets(self) -> bool:
        """`The researcher gets 20 searches per hour`, which bounds its calls and gives no tool."""
        if not self._whose():
            return False
        if not self.scan.takes(_MAY_MAKE) and not self.scan.takes(_GETS):
            return False
        self.scan.takes(ways("a quota of|a limit of|a budget of|an allowance of|a maximum of"))
        self.scan.takes(AT_MOST)
        most = self._number()
        self.scan.takes(_OF_CALLS)
        return self._tools() and self._counted(most)
