"""Sentences that make calls wait for a person's yes: `Publishing needs my approval`.

They only ever take away: who may call a tool is said elsewhere. Where not everybody may say yes,
those who may are kept; where two must, which no run can ask for, the sentence is not read.
"""

from __future__ import annotations

from crewlog.prompt.ast import Answers, AnyStatement, AskTool
from crewlog.prompt.grammar.calls import Call, Calls
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.moves import ways

_WHOSE = ways(
    "my|our|a human 's|a person 's|someone 's|somebody 's|the user 's|a human|human|manual|personal|"
    "an operator 's"
)
_KIND = word_set("first prior explicit written express personal manual human final an a the")
_CONSENT = word_set(
    "approval permission consent okay ok sign-off signoff go-ahead yes confirmation blessing "
    "agreement authorisation authorization clearance"
)
_ANYBODY = ways("me|us|a human|a person|somebody|someone|people|the user|one of us|humans")
_NEEDS = ways(
    "needs|need|requires|require|must have|must get|has to get|have to get|must obtain|needs to get|"
    "must ask for|has to ask for|must first get|must wait for|waits for|wait for|has to wait for|"
    "must await|must seek|has to have|have to have|may not go ahead without|calls for|is subject to|"
    "are subject to|only happens with|happens only with|is only allowed with|is allowed only with|"
    "are only allowed with|must be subject to|needs to have|must always have|always needs|"
    "always requires|always need|first needs|only with|only works with"
)
_TO = ways(
    "to|before|for|in order to|every time|each time|whenever|any time|prior to|so as to|before it can|"
    "before it may|before they may|before they can|before it is allowed to"
)
_USES = ways(
    "calls of|calls to|every call of|every call to|each call of|each call to|any call of|any call to|"
    "all calls of|all calls to|every use of|each use of|any use of|all uses of|the use of|use of|"
    "uses of|using|calling|every|each|any|all|a call of|a call to|the call of|each and every call of|"
    "all use of|making calls of|making a call of|running|invoking|use|uses|call|calls|each and every"
)
_ANY_CALL = ways(
    "any tool call|every tool call|all tool calls|each tool call|every call|any call of a tool|"
    "every call of a tool|calls of tools|calls of any tool|calls of every tool|every use of a tool"
)
_WITH = ways(
    "with|after|upon|subject to|given|on|if given|as long as it has|if it has|after getting"
)
_IT = ways("it|they|he|she|anyone|anybody|somebody|someone|any agent")
_MUST = ways(
    "must always|must|has to|have to|needs to|need to|shall|should|is to|are to|will|want to|"
    "would like to|always|always has to"
)
_APPROVE = ways(
    "approve|approves|confirm|confirms|authorise|authorises|authorize|authorizes|okay|okays|ok|clear|"
    "clears|sign off|sign off on|signs off|signs off on|say yes to|says yes to|agree to|agrees to|"
    "give approval for|vet|vets|permit|release"
)
_APPROVED = ways(
    "approved|confirmed|authorised|authorized|okayed|cleared|signed off|signed off on|vetted|permitted|"
    "released|agreed to|green-lit"
)
_BE = ways(
    "must be|has to be|have to be|needs to be|need to be|is to be|are to be|is|are|should be|shall be|"
    "must always be|must first be|gets|get|will be"
)
_FIRST = ways(
    "first|beforehand|in advance|before it happens|before it is made|before it runs|every time|each time|"
    "before it goes out|always|every single time|before it goes ahead|, always|, every time|, each time"
)
_ASK = ways(
    "ask|asks|check with|checks with|consult|consults|ask for permission from|get an okay from|wait for|check in with"
)
_USED = ways(
    "is used|is called|is run|is invoked|gets used|gets called|are used|are called|is made"
)


class Consents(Calls):
    """Reads one sentence."""

    def read(self) -> list[AnyStatement] | None:
        """What waits for a yes; none where the sentence is none, or not understood as a whole."""
        if not self._mentions():
            return None
        forms = (
            self._agents_need,
            self._tools_need,
            self._approved_by,
            self._approve,
            self._without,
            self._ask_before,
            self._get,
            self._granted,
        )
        for form in forms:
            self.scan.at = 0
            self.call = Call()
            self.named: tuple[str, ...] = ()
            if form() and self._plain():
                return self._made_of()
        return None

    def _plain(self) -> bool:
        """Whether the sentence is read to its end, and says nothing that no question can have."""
        call = self.call
        self.scan.takes(_FIRST)
        if not self._tail(positive=False) or call.only_if or call.bounds:
            return False
        return bool(call.tools or call.every_tool) and not call.only

    def _made_of(self) -> list[AnyStatement]:
        call = self.call
        made: list[AnyStatement] = self._given() if call.gives else []
        if call.condition is not None or call.groups or call.every_tool:
            made.append(self._rule("ask"))
        else:
            agents = () if call.nobody else call.agents
            made.append(AskTool(tools=call.tools, agents=agents, words=self.words))
        if self.named:
            self.only_these(self.named)
            made.append(Answers(people=self.named, words=self.words))
        return made

    # -- the parts -------------------------------------------------------------------------------

    def _consent(self) -> bool:
        """Reads `my approval`, `the okay of ana`."""
        scan = self.scan
        if not scan.takes(_WHOSE):
            scan.over(_KIND)
        if scan.rest[1:2] == ["'s"]:
            name = self.person()
            if name is None:
                return False
            self.named = (name,)
            scan.at += 1
        scan.over(_KIND)
        if scan.word not in _CONSENT:
            return False
        scan.at += 1
        if not scan.takes(ways("from|by|of")):
            return True
        return not self.named and self._somebody()

    def _somebody(self) -> bool:
        """Reads who says yes: anybody, or one of some people. Not two who both must."""
        if self.scan.takes(_ANYBODY):
            return self.scan.word not in {"and", "or"}
        found: list[str] = []
        self.scan.takes(ways("either"))
        while (name := self.person()) is not None:
            found.append(name)
            if not self.scan.takes(ways(", or|,|or")):
                break
        self.named = tuple(dict.fromkeys(found))
        return bool(found) and self.scan.word != "and"

    def _thing(self) -> bool:
        """Reads the calls: `every call of publish by the writer`, `publishing`."""
        if self.scan.word[:1] == "@" and self.scan.rest[1:2] == ["'s"]:
            if not self._subject():
                return False
            self.scan.at += 1
        if not self._called():
            return False
        return not self.scan.takes(ways("by")) or (self._subject() and not self.call.only)

    def _called(self) -> bool:
        """Reads `every call of publish`, `any tool call`, `publishing`."""
        at = self.scan.at
        if self.scan.takes(_ANY_CALL):
            self.call.every_tool = True
            return True
        if self.scan.word in {"any", "every", "all", "each"} and self._tools():
            return True
        self.scan.at = at
        self.scan.takes(_USES)
        return self._tools()

    def _deed(self) -> bool:
        """Reads what comes behind `before`: `it publishes`, `publish is used`, `calling publish`."""
        scan, call = self.scan, self.call
        known = call.agents
        if scan.word[:1] == "@":
            if known or not self._subject() or scan.word == "'s":
                return False
        elif scan.takes(ways("anything is|anything gets|something is")):
            return scan.word[:1] == "$" and self._tools()
        else:
            scan.takes(_IT)
        scan.takes(ways("may|can"))
        if not self._called():
            return False
        scan.takes(_USED)
        return True

    # -- the forms -------------------------------------------------------------------------------

    def _agents_need(self) -> bool:
        """`The checker needs my permission to publish`, `It must get my okay before it publishes`."""
        if not self._subject() or self.call.nobody or self.call.only:
            return False
        if not self.scan.takes(_NEEDS) or not self._consent():
            return False
        return self.scan.takes(_TO) and self._deed()

    def _tools_need(self) -> bool:
        """`Publishing requires approval by ana`, `Every use of publish needs my okay`."""
        return self._thing() and self.scan.takes(_NEEDS) and self._consent()

    def _approved_by(self) -> bool:
        """`Each call of publish must be approved by ana or ben`."""
        if not self._thing() or not self.scan.takes(_BE) or not self.scan.takes(_APPROVED):
            return False
        return self.scan.takes(ways("by")) and self._somebody()

    def _approve(self) -> bool:
        """`Ana or Ben must approve every use of publish`."""
        scan = self.scan
        if not scan.takes(ways("i|we")) and not self._somebody():
            return False
        scan.takes(_MUST)
        if not scan.takes(_APPROVE):
            return False
        scan.over({"the"})
        return self._thing()

    def _without(self) -> bool:
        """`Nothing is published without my approval`, `The writer may not publish without it`."""
        scan = self.scan
        if scan.takes(ways("without")):
            if not self._consent() or not scan.takes(ways(",")):
                return False
            return self._refused() and self.over()
        return self._refused() and scan.takes(ways("without")) and self._consent()

    def _refused(self) -> bool:
        """Reads what may not be: `nothing is published`, `nobody may use publish`, `never publish`."""
        scan, call = self.scan, self.call
        if scan.takes(
            ways("nothing is|nothing gets|nothing may be|nothing must be|nothing will be")
        ):
            return scan.word[:1] == "$" and self._tools()
        if scan.takes(ways("never|do not ever|do not|no")):
            scan.takes(_USES)
            return self._tools()
        if scan.word[:1] in {"#", "$"}:
            if not self._tools():
                return False
            never = scan.takes(ways("is never|are never|is not|must never be|may never be"))
            if not never and not scan.takes(ways("must not be|may not be|can not be|is not to be")):
                return False
            return scan.takes(ways("used|called|run|invoked|to be used|allowed|permitted"))
        if not self._subject() or call.only:
            return False
        scan.takes(
            ways("may|must|can|shall|should|will|is allowed to|are allowed to|do|does|is to")
        )
        denied = scan.takes(ways("not ever|never|not"))
        scan.takes(ways("ever|be allowed to"))
        if denied == call.nobody:
            return False
        if scan.takes(ways("allowed to|permitted to|to")) and not denied:
            return False
        scan.takes(_USES)
        return self._tools()

    def _ask_before(self) -> bool:
        """`Always ask me before publishing`, `Before anything is published, ask me`."""
        scan = self.scan
        if scan.takes(ways("before")):
            if not self._deed() or not scan.takes(ways(",")):
                return False
            return self._asks_people()
        if scan.word not in {"always", "ask", "check", "consult", "please"}:
            if not self._subject() or self.call.nobody or self.call.only:
                return False
            must = scan.takes(_MUST)
            scan.takes(ways("first|always"))
            if not must and not scan.word.endswith("s"):
                return False
        return self._asks_people() and scan.takes(ways("before|prior to")) and self._deed()

    def _asks_people(self) -> bool:
        self.scan.takes(ways("always|please|first|you must|you always|it must|it has to"))
        return self.scan.takes(_ASK) and self._somebody()

    def _get(self) -> bool:
        """`Get my approval for every use of publish`, `Run every publish by me first`."""
        scan = self.scan
        if scan.takes(ways("run|pass|put|clear")):
            if not scan.takes(ways("every|each|any|all")):
                return False
            scan.takes(ways("call of|call to|use of|calls of"))
            return self._tools() and scan.takes(ways("by|past|with")) and self._somebody()
        if not scan.takes(ways("get|always get|obtain|ask for|seek|wait for")):
            return False
        return self._consent() and scan.takes(ways("for|before")) and self._deed()

    def _granted(self) -> bool:
        """`The writer may use publish with my permission`: the right, and a question each time."""
        scan, call = self.scan, self.call
        if not self._subject() or call.nobody or call.only or call.groups or not call.agents:
            return False
        if not scan.takes(ways("may|can|could|is allowed to|are allowed to")):
            return False
        scan.takes(ways("use|call|run"))
        if not self._tools() or call.every_tool:
            return False
        scan.over({",", "but", "only"})
        call.gives = scan.takes(_WITH) and self._consent()
        return call.gives
