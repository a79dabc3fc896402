"""Sentences about the shape of a crew in many more words than `shapes` reads, each as a pattern.

    A dispatcher reads every ticket and passes it on to billing or support.
    The planner makes a plan for the baker and the cook, and I approve it. They work two at a time.
    The tests and the compiler check their work before the reviewer.
    If the reply cannot be read after three tries, general answers.

A pattern is only tried on a sentence that has one of the form's words, and reads all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from crewlog.model import Json
from crewlog.prompt.ast import AnyStatement, Ask, Conversation, Does, Part, Shown, Step, Use, Words
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.phrase import agents_in, number, pattern, tools_in
from crewlog.prompt.grammar.shapes import Found, Shapes, names_of
from crewlog.prompt.names import agent_name

_LEAD = r"(?:(?:then|first|next|finally|and|after that|afterwards|in the end) (?:, )?)?"
_EACH = r"(?:each|every|any|each incoming|every incoming|each new|every new|all|all the|all incoming|incoming)"
_ANY = _EACH[:-1] + "|the|a|an)"
_MESSAGE = (
    r"(?:messages?|questions?|requests?|quer(?:y|ies)|tickets?|enquir(?:y|ies)|inquir(?:y|ies)|prompts?|inputs?|mails?|emails?)"
    r"(?: (?:of|from|by) (?:the|a|our) (?:users?|customers?|clients?|callers?))?"
)
_SENDS = r"(?:sends|passes|hands|routes|forwards|directs|dispatches|gives|assigns|delegates|relays|refers|triages)"
_PICKS = r"(?:picks|chooses|decides|selects|determines|says|names)"
_READS = r"(?:reads|takes|gets|receives|looks at|sees|picks up|triages|looks through)"
_BY = (
    r"(?: (?:, )?(?:whichever|whoever|whatever) (?:fits it best|suits it best|fits best|suits best|fits|suits|is right|knows best)"
    r"|(?: ,)? (?:by|depending on|according to|based on) (?:its |the |what it )?"
    r"(?:topic|subject|content|contents|what it is about|what it asks for|asks for|is about|kind of question|kind))?"
)
_WHO = r"(?:who|whoever|which (?:agent|of them|one|specialist|colleague|expert|one of them))"
_ANSWERS = (
    r"(?:answers|replies|responds|handles|takes|deals with|gets|should answer|is to answer|should handle|"
    r"should take|will answer|should get|is responsible for|replies to|responds to|should deal with)"
)
_BEST = r"(?:the )?(?:one|agent|best|right one|best one|right agent|best of them|specialist|right specialist)"
_TO = r"(?:on )?to (?:one of |either |exactly one of |whichever of )?"

_HUBS = tuple(
    pattern(form)
    for form in [
        rf"{_LEAD}{{A1:who}} {_SENDS} {_EACH} {_MESSAGE}(?: ,)? {_TO}{{A:named}}(?= |$){_BY}",
        rf"{_LEAD}{{A1:who}} {_READS} {_EACH} {_MESSAGE} (?:, )?(?:and|then) (?:then )?{_SENDS} (?:it|them) {_TO}{{A:named}}(?= |$){_BY}",
        rf"{_LEAD}{{A1:who}} {_PICKS} {_WHO} {_ANSWERS}(?: to)? (?:it|them|{_ANY} {_MESSAGE})(?: (?::|,|–|;|from|of|among))? {{A:named}}(?= |$)",
        rf"{_LEAD}{{A1:who}} {_PICKS}(?: ,)? (?:for|on) {_EACH} {_MESSAGE}(?: ,)? {_WHO} {_ANSWERS}(?: it)? (?::|,|–|from|among) {{A:named}}(?= |$)",
        rf"for {_EACH} {_MESSAGE}(?: ,)? {{A1:who}} {_PICKS} (?:{_WHO} {_ANSWERS}(?: it)? (?::|,|–|from|among|of)|{_BEST} of|{_WHO} of|between|among|one of|one :) {{A:named}}(?= |$)(?: to answer(?: it)?)?",
        rf"{_EACH} {_MESSAGE} (?:first )?(?:goes|go|comes|come|is sent|are sent) (?:first )?to {{A1:who}} (?:first )?(?:, )?(?:and )?(?:which|who|that|it|he|she) (?:then )?(?:{_SENDS} (?:it|them) {_TO}|{_PICKS} {_WHO} {_ANSWERS}(?: it)? (?::|,|–) |{_PICKS} (?:between|one of|among) ){{A:named}}(?= |$){_BY}",
        rf"{{A1:who}} (?:is|acts as) (?:a|the|our) (?:router|hub|switchboard|front desk|dispatcher)(?: ,| and)?(?: (?:that|which|who|it))? {_SENDS} {_EACH} {_MESSAGE} {_TO}{{A:named}}(?= |$){_BY}",
    ]
)
_HUB_WORDS = word_set("message messages question questions request requests query queries ticket tickets enquiry enquiries inquiry prompt prompts input inputs mail mails email emails")  # fmt: skip

_PLANNED = r"(?:makes|writes|draws up|draws|prepares|sets up|lays out|creates|works out|drafts|devises|comes up with|produces|lists)"
_STEPS = r"(?:steps|tasks|parts|pieces|slices|work items|subtasks|sub-tasks|jobs|packages|chunks)"
_JOB = r"(?:the work|the task|the request|the feature|the job|the problem|the input|the goal|the whole|everything|it|what is to be done|what is asked for|the assignment|the order)"
_AT_A_TIME = r"(?:at a time|at once|at the same time|in parallel|side by side|at any one time|at any time|concurrently|simultaneously)"
_ONCE = rf"(?:(?: ,| ;| –)?(?: and)?(?: with)? (?:at most |no more than |not more than |up to |a maximum of |only |never more than )?{{N:once}}(?: of them| steps| tasks)? {_AT_A_TIME})"
_APPROVE = (
    r"(?:(?: ,| ;| –)?(?: and)? (?:i approve (?:it|the plan|that)(?: first| before (?:anything|any work|the work|they) (?:starts|begins|start|begin|happens|is done))?|i must approve (?:it|the plan)(?: first)?|"
    r"i have to approve (?:it|the plan)(?: first)?|asks? me (?:to approve (?:it|the plan)|for my approval|whether (?:it|the plan) is (?:right|good|ok|okay|fine))|"
    r"shows? me (?:it|the plan)(?: first)?(?: for approval| and asks? (?:me )?(?:whether|if) (?:it|that) is (?:right|good|ok|okay|fine))?))"
)
_PLANS = tuple(
    pattern(form)
    for form in [
        rf"{_LEAD}{{A1:who}} (?:splits|breaks|divides|cuts|partitions|turns)(?: up| down)? {_JOB}(?: up| down)? (?:into|in) (?:a few |several |small |smaller )?{_STEPS}(?: and (?:gives|hands|assigns|distributes|passes) (?:them|these|each))?(?: ,)? (?:for|among|between|to|over|across)(?: each of)? {{A:workers}}(?= |$)(?P<once>{_ONCE})?(?P<ok>{_APPROVE})?",
        rf"{_LEAD}{{A1:who}} (?:splits|breaks|divides|distributes|shares out|parcels out)(?: up| down)? {_JOB}(?: up| out| down)? (?:among|between|over|across|for) {{A:workers}}(?= |$)(?P<once>{_ONCE})?(?P<ok>{_APPROVE})?",
        rf"{_LEAD}{{A1:who}} {_PLANNED} (?:the |a list of |a plan of |all )?(?:the )?{_STEPS}(?: of the work)?(?: ,)? each (?:with|naming|saying|naming the|for) (?:the agent that does it|who does it|who is to do it|the agent who does it|its agent|one of them|who carries it out|the agent for it|the one who does it|one of|either)(?: ,? ?and (?:with )?what it (?:waits for|needs first|depends on|comes after))?(?: (?::|,|–|\()| of| from| among)? (?:either )?{{A:workers}}(?: \))?(?= |$)(?P<once>{_ONCE})?(?P<ok>{_APPROVE})?",
        rf"{_LEAD}{{A1:who}} {_PLANNED} a plan (?:whose|of which the|in which the|where the|with|of) {_STEPS}(?: each)?(?: (?:go|goes|fall|are given|are handed|belong|are carried out|are done|are))? (?:to|for|by|among) {{A:workers}}(?= |$)(?P<once>{_ONCE})?(?P<ok>{_APPROVE})?",
        rf"{_LEAD}{{A1:who}} {_PLANNED} (?:a|the) (?:shared |common |joint )?plan (?:that|which) {{A:workers}} (?:carry out|work on|work off|share|follow|carry through)(?: together)?(?P<once>{_ONCE})?(?P<ok>{_APPROVE})?",
        rf"{_LEAD}{{A1:who}} (?:assigns|hands out|gives out|distributes|deals out|allots) (?:the |its )?{_STEPS}(?: of the (?:work|plan|feature|task))? (?:to|among|between) {{A:workers}}(?= |$)(?P<once>{_ONCE})?(?P<ok>{_APPROVE})?",
    ]
)
_PLAN_WORDS = word_set("splits breaks divides cuts partitions turns distributes shares parcels makes writes draws prepares sets lays creates works drafts devises comes produces lists assigns hands gives deals allots")  # fmt: skip
_POOLS = tuple(
    pattern(form)
    for form in [
        rf"{_LEAD}(?P<they>they(?: all)?|these|those|all of them|the workers|both|both of them|{{A}}) (?:then )?(?:may |can |should |must )?(?:work|run|go|carry (?:them|these|it|the plan|the steps|their steps|their parts|their tasks) out|carry out (?:them|the plan|the steps|their steps|their parts|their tasks|their work)|do (?:them|their (?:steps|parts|tasks|work|part))|work on (?:them|these|it|their (?:steps|parts|tasks)))(?: ,)?(?: (?:in parallel|side by side|concurrently|at the same time))?(?: ,)?(?P<once>{_ONCE})?",
        rf"{_LEAD}(?:at most |no more than |not more than |up to |never more than )?{{N:once}} (?:of them|steps|of the steps|tasks|workers|of these|parts)(?: (?:may |can |should |shall )?(?:work|run|are worked on|are carried out|are under way|are done|be under way|be carried out|be worked on|go on|are in progress|be in progress|at work))? {_AT_A_TIME}",
        rf"{_LEAD}the (?:steps|plan|tasks|parts) (?:are|is) (?:carried out|worked on|done|worked off)(?: ,)?(?P<once>{_ONCE})",
    ]
)
_POOL_WORDS = word_set("time once parallel concurrently side carry do work run go they both")
_WORK_DONE = (
    r"(?:it|them|this|that|everything|everything they (?:made|did|wrote)|(?:their|the|all the|all their|everyone 's|every) (?:work|results?|parts?|steps?|code|output|pieces|outcome|whole|changes)|"
    r"what (?:they made|they did|they wrote|they built|came out|came of it|was made|was done|was built|is there|they have done|they have made))"
)
_CHECKS = tuple(
    pattern(form)
    for form in [
        rf"{_LEAD}{{A:who}} (?:then |both |first |also |all )?(?:checks?|tests?|verif(?:y|ies)|look at|looks at|inspects?|examines?|try|tries|run over|go over|goes over|looks over|look over|validates?) {_WORK_DONE}(?: ,)?(?: in parallel| side by side| at the same time)?(?: ,)?(?: first| before the review| before it is reviewed| before {{A1:rev}}(?: (?:sees|looks at|reviews|gets|does|judges|reads)(?: it| them| so)?| does)?)?",
        rf"{_LEAD}{_WORK_DONE} (?:is|are) (?:first |then )?(?:checked|tested|verified|inspected|examined|looked at|validated) by {{A:who}}(?= |$)(?: ,)?(?: in parallel| side by side)?(?: ,)?(?: first| before the review| before it is reviewed| before {{A1:rev}}(?: (?:sees|looks at|reviews|gets|does|judges|reads)(?: it| them)?| does)?)?",
        rf"before {{A1:rev}} (?:(?:sees|looks at|reviews|gets|judges|reads|looks) (?:it |them |anything |the work |their work )?)?(?:, )?{{A:who}} (?:check|checks|test|tests|verify|look at|inspect|examine|validate) {_WORK_DONE}",
        r"the checks (?:are|before the review are|are done by|are made by) {A:who}",
    ]
)
_CHECK_WORDS = word_set("check checks test tests verify verifies look looks inspect inspects examine examines try tries run go goes checked tested verified inspected examined looked validated validate validates")  # fmt: skip
_REDO = (
    r"(?:must work again|works again|work again|has to work again|have to work again|must do it again|has to do it again|must redo (?:it|its part|their part|what)|has to redo (?:it|its part|what)|"
    r"must try again|has to try again|does it again|tries again|must work once more|works once more|has to do it over|must do it over|needs to work again|should work again|must rework it|goes again|"
    r"needs to redo (?:it|its part)|needs another go|must have another go|gets another go|must mend (?:it|what)|is sent again|has to mend (?:it|what)|has to go again)"
)
_REFLECTIONS = tuple(
    pattern(form)
    for form in [
        rf"{_LEAD}{{A1:who}} (?:looks at (?:it|them|the work|the results|their work|everything)(?: and| ,)(?: then)? )?(?:says|decides|picks|tells|determines|names|sees|judges) (?:who|whoever|who of them|which of them|which worker|which of the workers|who among them) {_REDO}(?P<most>.*)",
        rf"{_LEAD}{{A1:who}} (?:looks at (?:it|them|the work|the results|their work|everything)(?: and| ,)(?: then)? )?(?:sends|hands|gives|throws|kicks) (?:it |them |their work |their part |the work )?(?:back|again|back again|off again)(?: to)? (?:who|whoever|those who|the ones who|anyone who|everyone who|whom|whomever|the one who) {_REDO}(?P<most>.*)",
    ]
)
_MOST = pattern(
    r"(?: ?(?:,|;|and|–))*(?: (?:only they do|only those do|they do so|they do|only they work again|this|that|this happens))?(?: ,)? "
    r"(?:at most|at the most|no more than|not more than|up to|a maximum of|never more than|for at most|in at most) {N:most}(?: (?:times|time|rounds|round|goes|tries))?(?: in all| in total)?"
)
_TRIES = tuple(
    pattern(form)
    for form in [
        r"(?:if|when|where|should) (?:the|its|his|her|a|the router 's|{A1:who} 's|what {A1:who} (?:says|answers|replies)) ?(?:reply|answer|choice|decision|output|response|message)? ?(?:can not|could not|is not|can never|cannot) be (?:read|parsed|understood|made out)(?: (?:after|in|within) {N:tries} (?:tries|attempts|goes|times|rounds))?(?: ,)? (?:then )?(?:take |it goes to |send it to |use |fall back to |fall back on |go to |pass it to |it is )?(?P<back>@[0-9]+|[a-z][a-z_-]{1,40})(?: answers| answers it| takes it| takes over| steps in)?(?: instead)?",
        r"{A1:who} (?:gets|has|is given|is asked) {N:tries} (?:tries|attempts|goes|times)(?: at most)?(?: to (?:give|say|make) (?:an answer|a choice|something) (?:that|which) can be read)?(?: ,| ;)? (?:then|after that|after which|otherwise)(?: ,)? (?:take |it goes to |send it to |use )?(?P<back>@[0-9]+|[a-z][a-z_-]{1,40})(?: answers| answers it| takes it| takes over)?",
        r"after {N:tries} (?:tries|attempts|replies|answers|choices)(?: that can not be read| without a readable answer| that make no sense)(?: ,)? (?:take |it goes to |send it to |use )?(?P<back>@[0-9]+|[a-z][a-z_-]{1,40})(?: answers| answers it| takes it| takes over)?",
    ]
)
_ORDERS = tuple(
    pattern(form)
    for form in [
        r"{A1:first} (?:answers|replies|speaks|comes|counts|goes) before {A:rest}(?= |$)(?: does)?",
        r"{A1:first} 's (?:answer|reply|word|answers|replies) (?:counts?|comes?|goes|go|takes? precedence|is preferred|has priority|have priority|wins?) (?:before|over|first , before|above|against|more than|more than that of) {A:rest}(?: 's)?",
        r"(?:we |the crew )?prefers? (?:the (?:answer|reply) of |what |the word of )?{A1:first}(?: says| answers)? (?:to|over|before) (?:the (?:answer|reply) of |what |that of )?{A:rest}(?= |$)(?: says| answers| 's)?",
        r"if (?:several|more than one|both|two)(?: of them)? (?:answer|reply|have answered|answered)(?: ,)? (?:the answer of |take |take what |what )?{A1:first}(?: 's| says| answers)?(?: (?:answer|reply))?(?: (?:counts|wins|is taken|comes first|goes first))?",
        r"(?:the )?answers count in this order : {A:rest}",
    ]
)
_ORDER_WORDS = word_set(
    "answers replies speaks comes counts goes answer reply word prefer prefers several both"
)
_BARE_RUNS = tuple(
    pattern(form)
    for form in [
        rf"(?P<lead>{_LEAD}){{A:who}} (?:only|just|merely|simply|does nothing but|do nothing but) (?:runs?|calls?|executes?) {{T:tools}}(?: and nothing else)?(?: ,? ?without (?:a|any) model)?",
        rf"(?P<lead>{_LEAD}){{A:who}} (?:runs?|calls?|executes?|uses?|works? with) {{T:tools}}(?: ,)?(?: and)? (?:without (?:a|any|using a|using any) (?:language )?model|and (?:has|have|needs?|uses?) no (?:language )?model|with no (?:language )?model)",
        rf"(?P<lead>{_LEAD}){{A:who}} (?:needs?|has|have|uses?) no (?:language )?model(?: :|,| ,|;| ;| and|–| –)? (?:it|they) (?:only |just )?(?:runs?|calls?|executes?) {{T:tools}}",
        rf"(?P<lead>{_LEAD}){{A:who}} (?:is|are) no (?:language )?models?(?: :|,| ,|;| ;| and|–| –)? (?:it|they) (?:only |just )?(?:runs?|calls?|executes?) {{T:tools}}",
        rf"(?P<lead>{_LEAD})without (?:a|any) model(?: ,)? {{A:who}} (?:only |just )?(?:runs?|calls?|executes?) {{T:tools}}",
    ]
)
_SEQUENCE = pattern(
    r"{A:who} (?:then )?(?:work|run|act|come|go|are called|take turns|follow)(?: ,)? (?:one after (?:the other|another)|one by one|"
    r"in (?:this|that|the given|exactly this) order|in sequence|in turn|sequentially)"
)
_SEEING = pattern(
    r"{A:who} (?:only |may only |should only )?(?:sees?|is shown|are shown|is given|are given|gets to see|get to see|may see|is told|looks? at|works? with|works? from|works? only with|works? only from|sees? only) "
    r"(?P<only>only |nothing but |just )?(?P<what>[^;:()]{3,300}?)(?P<else>(?: ,)? and nothing (?:else|more)| – nothing (?:else|more)|(?: ,)? but nothing (?:else|more))?(?: of the others| from the others| of the other stages)?"
)
_ALL_STAGES = re.compile(r"(?:each|every) (?:stage|of them|agent)|all stages|the stages")
_THING = (
    (pattern(r"(?:the |its |their )?(?:request|question|input|message|task|user 's (?:request|question|message|input)|original request|what (?:the user|the users|people|i) (?:asked?|asks|asked for|asks for|want|wants|wanted|ask for))"), "input"),
    (pattern(r"(?:the )?(?:instructions? (?:of|from) {A1:who}|{A1:who} 's instructions?)"), "instructions"),
    (pattern(r"(?:the )?(?:what {A1:who} (?:found|finds|wrote|writes|says|said|made|makes|did|does|has found|has written|noted|notes|built|builds|planned|hands on|hands over|reports|reported|answered)|(?:work|results?|findings?|output|report|notes|draft|text|answer|plan) (?:of|from|by) {A1:who}|{A1:who} 's (?:work|results?|findings?|output|report|notes|draft|text|answer|plan))"), "text"),
)  # fmt: skip
_SHOWS = tuple(
    pattern(form)
    for form in [
        r"show me the plan(?: first)?(?: ,)? and (?:then )?(?:ask|ask me|wait for my answer|ask me first) ?(?:(?:whether|if) (?:it|that|the plan) is (?:right|good|ok|okay|fine|all right|sound)|(?:whether|if) i (?:agree|approve it|like it|want it)|(?:whether|if) to go on|for my approval|for my yes)?",
        r"(?:ask me|i want to be asked)(?: first)? (?:whether|if) the plan is (?:right|good|ok|okay|fine|all right|sound)(?: first)?",
        r"i (?:want to |must |have to |need to )?(?:see|check|approve|confirm|ok|okay|sign off|agree to|look at|review) the plan (?:first|before (?:anything|any work|they|the work|anyone|anybody|it) (?:is (?:carried out|done|built|started)|starts?|begins?|happens|works?|runs?))(?: and (?:say whether it is right|approve it|confirm it))?",
        r"i (?:want to|must|have to|need to|would like to) (?:see|approve|check|confirm|okay|review) it(?: first| before .{3,60})?",
        r"(?:nobody|no one|nothing) (?:starts|begins|works|happens|is (?:built|done|started)) (?:before|until) i (?:have )?(?:approve|approved|confirmed|confirm|agreed to|seen|okayed) the plan",
    ]
)


_KEYS = {"finds": "found", "findings": "found", "noted": "notes", "the": "text", "planned": "plan"}
"""Outputs by the words that speak of them; what an agent does not set is its text."""


class MoreShapes(Shapes):
    """Reads one sentence."""

    def read(self) -> Found:
        """What it says; none where it is no sentence of this kind, or not understood as a whole."""
        words = {*self.scan.words}
        self.text = " ".join(self.scan.words)
        forms: tuple[tuple[frozenset[str], Callable[[], Found]], ...] = (
            (_HUB_WORDS, self._any_hub),
            (_PLAN_WORDS, self._any_plan),
            (_POOL_WORDS, self._any_pool),
            (_CHECK_WORDS | {"checks"}, self._checked),
            (word_set("says decides picks tells determines names sees judges sends hands gives throws kicks"), self._sent_again),
            (word_set("plan it"), self._plan_seen),
            (word_set("tries attempts read parsed understood times goes"), self._unreadable),
            (_ORDER_WORDS, self._answers_first),
            (word_set("one order sequence turn sequentially"), self._in_sequence),
            (word_set("only just merely simply nothing model models"), self._runs_only),
            (word_set("sees see shown given told looks look works work"), self._is_shown),
        )  # fmt: skip
        for needed, form in forms:
            if words & needed and (made := form()) is not None:
                return made
        return None

    def _named(self, text: str | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.state.roster.agent(n) for n in agents_in(text or "")))

    # -- hubs ------------------------------------------------------------------------------------

    def _any_hub(self) -> Found:
        for form in _HUBS:
            found = form.match(self.text)
            if found is None or not _one_of(self.text[: found.start("named")], found["named"]):
                continue
            self.scan.at = self.text[: found.end()].count(" ") + 1
            if made := self._hub_of(self._named(found["who"])[0], self._named(found["named"])):
                return made
        return None

    def _unreadable(self) -> Found:
        """`If the reply cannot be read after three tries, general answers`, behind a hub."""
        for form in _TRIES:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            at, options = self._shape("hub")
            back = self._named(found["back"]) or self._among(found["back"], options)
            tries = self._count(found["tries"], 20)
            who = {
                *self._named(
                    " ".join(str(v) for k, v in found.groupdict().items() if k.startswith("who"))
                )
            }
            if at < 0 or not back or tries is None or not who <= {options.get("router")}:
                return None
            if options.get("fallback", back[0]) != back[0] or back[0] == options.get("router"):
                return None
            if tries:
                options["tries"] = tries
            return self._put(at, {**options, "fallback": back[0]})
        return None

    def _among(self, word: str, options: dict[str, Json]) -> tuple[str, ...]:
        """A specialist by its bare name: `take general`."""
        name = agent_name(word)
        return (name,) if name in {*names_of(options, "agents"), options.get("fallback")} else ()

    def _answers_first(self) -> Found:
        """`Health answers before information`, behind a hub."""
        for form in _ORDERS:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            at, options = self._shape("hub")
            if at < 0:
                return None
            groups = found.groupdict()
            order = (*self._named(groups.get("first")), *self._named(groups.get("rest")))
            among = {*names_of(options, "agents"), str(options.get("fallback", ""))}
            if not {*order} <= among or len({*order}) != len(order):
                return None
            return [Conversation(respond=order, words=self.words)]
        return None

    # -- teams -----------------------------------------------------------------------------------

    def _count(self, said: str | None, most: int = 100) -> int | None:
        """A number of words; 0 where nothing is said, none where it is no number for this."""
        if not said:
            return 0
        found = number(said)
        return int(found) if found and found == int(found) and 1 <= found <= most else None

    def _at_once(self, found: re.Match[str], options: dict[str, Json]) -> bool:
        said = next((v for k, v in found.groupdict().items() if k.startswith("once__") and v), None)
        plain = found.groupdict().get("once")
        once = self._count(said if said is not None else plain, 1000)
        if once:
            options["at_once"] = once
        return once is not None

    def _any_plan(self) -> Found:
        for form in _PLANS:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            who, workers = self._named(found["who"]), self._named(found["workers"])
            options: dict[str, Json] = {"planner": who[0], "workers": list(workers)}
            if len(workers) < 2 or who[0] in workers or not self._at_once(found, options):
                return None
            if found["ok"]:
                options["approve"] = True
            self.state.worked, self.state.subject = (who[0], *workers), workers
            return [Use(use="team", options=options, agents=(*workers, who[0]), words=self.words)]
        return None

    def _any_pool(self) -> Found:
        for form in _POOLS:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            said = {*self._named(found.groupdict().get("they"))}
            at, options = self._shape("team")
            if at < 0:
                return self._shared_plan(found, said)
            if said and said != {*names_of(options, "workers")}:
                return None
            return self._put(at, options) if self._at_once(found, options) else None
        return None

    def _shared_plan(self, found: re.Match[str], said: set[str]) -> Found:
        """`The planner makes a plan for A and B. They work two at a time`: who shares the plan."""
        state = self.state
        last = state.statements[-1:]
        approve = bool(last) and isinstance(last[0], Ask) and last[0].only_if is None
        at = len(state.statements) - 1 - approve
        step = state.statements[at] if at >= 0 else None
        if not isinstance(step, Step) or len(step.parts) != 1 or not step.words:
            return None
        part = step.parts[0]
        if part != part.model_copy(update={"only_if": None, "for_each": None, "otherwise": False}):
            return None
        words = step.words[0]
        units = [u.text for u in state.units if words.start <= u.start and u.end <= words.end]
        plan = _FOR_THEM.fullmatch(" ".join(units))
        workers = self._named(plan["workers"]) if plan else ()
        if len(workers) < 2 or part.agent in workers or (said and said != {*workers}):
            return None
        options: dict[str, Json] = {"planner": part.agent, "workers": list(workers)}
        if not self._at_once(found, options):
            return None
        if approve:
            options["approve"] = True
        kept = (*step.words, *(last[0].words if approve else ()), *self.words)
        del state.statements[at:]
        state.touched = True
        state.worked, state.subject = (part.agent, *workers), workers
        return [Use(use="team", options=options, agents=(*workers, part.agent), words=kept)]

    def _checked(self) -> Found:
        """`The tests and the compiler check their work before the reviewer`, behind a plan."""
        for form in _CHECKS:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            at, options = self._shape("team")
            if at < 0 or "checks" in options:
                return None
            groups = found.groupdict()
            who, before = self._named(groups["who"]), self._named(groups.get("rev"))
            known = options.get("reviewer")
            taken = {*names_of(options, "workers"), options["planner"], known, *before}
            if taken & {*who} or (before and known is not None and before[0] != known):
                return None
            if before and known is None:
                options["reviewer"] = before[0]
            options["checks"] = list(who)
            self.state.subject = who
            first = (*who, *before) if before and known is None else who
            return self._joined(at, options, first)
        return None

    def _sent_again(self) -> Found:
        """`The reviewer sends back whoever must do it again, at most twice`, behind a plan."""
        for form in _REFLECTIONS:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            at, options = self._shape("team")
            if at < 0:
                return None
            most = _MOST.fullmatch(found["most"].rstrip()) if found["most"] else None
            rounds = self._count(most["most"]) if most else 0
            who = self._named(found["who"])
            known = options.get("reviewer", who[0])
            mine = (*names_of(options, "workers"), *names_of(options, "checks"), options["planner"])
            if (
                (found["most"] and not rounds)
                or rounds is None
                or who[0] in mine
                or known != who[0]
            ):
                return None
            if rounds:
                options["rounds"] = rounds
            options["reviewer"] = who[0]
            return self._joined(at, options, who)
        return None

    def _plan_seen(self) -> Found:
        """`Show me the plan and ask whether it is right`."""
        if not any(form.fullmatch(self.text) for form in _SHOWS):
            return None
        at, options = self._shape("team")
        if at >= 0 and at < len(self.state.statements) - 1 and "plan" not in self.scan.words:
            return None
        if at < 0 and "plan" not in self.scan.words:
            return None
        if at < 0:
            return [Ask(question="Is the plan right?", words=self.words)]
        return self._put(at, {**options, "approve": True})

    def _joined(self, at: int, options: dict[str, Json], first: tuple[str, ...]) -> Found:
        """Adds agents to a shape; the last one of them to work ends it, and so stands first."""
        said = self.state.statements[at]
        reviewer = options.get("reviewer")
        known = (*first, *getattr(said, "agents", ()))
        last = [str(reviewer)] if reviewer else []
        agents = tuple(dict.fromkeys([*last, *known]))
        self.state.replace(at, options=options, agents=agents, words=(*said.words, *self.words))
        return []

    def _in_sequence(self) -> Found:
        """`The scout, the drafter and the sender work one after the other`."""
        found = _SEQUENCE.fullmatch(self.text)
        who = self._named(found["who"]) if found else ()
        if len(who) < 2 or {*who} & self.state.ever:
            return None
        made: list[AnyStatement] = []
        named = [u for u in self.units if u.text[0] == "@"]
        words = (Words(start=named[0].start, end=named[-1].end),)
        for at, name in enumerate(who):
            made.append(Step(parts=(Part(agent=name),), words=words, again=at > 0))
        self.state.worked, self.state.subject = who[-1:], who
        self.state.ever.update(who)
        return made

    # -- agents ----------------------------------------------------------------------------------

    def _runs_only(self) -> Found:
        """`The tests agent only runs run_pytest`: an agent without a model."""
        for form in _BARE_RUNS:
            found = form.fullmatch(self.text)
            if found is None:
                continue
            state, who = self.state, self._named(found["who"])
            tools = tuple(dict.fromkeys(state.roster.tools[n] for n in tools_in(found["tools"])))
            made: list[AnyStatement] = [Does(agents=who, tools=tools, words=self.words)]
            known = {name for s in state.statements for name in getattr(s, "agents", ())}
            if found["lead"] or not {*who} <= (known | state.ever):
                named = [u for u in self.units if u.text[0] == "@"]
                words = Words(start=named[0].start, end=named[-1].end)
                parts = tuple(Part(agent=name) for name in who)
                made.append(Step(parts=parts, words=(words,), again=bool(found["lead"])))
                state.worked, state.subject = who, who
                state.ever.update(who)
            return made
        return None

    def _is_shown(self) -> Found:
        """`The builder sees what discovery found and the artifact workflow, and nothing else`."""
        text = self.text
        everyone = _ALL_STAGES.match(text)
        if everyone is None and "@" not in text:
            return None
        bounded = bool({*self.scan.words} & {"only", "nothing"})
        at, options = self._shape("stages") if bounded else (-1, {})
        stages = names_of(options, "stages") if at >= 0 else ()
        if everyone is not None and not stages:
            return None
        if everyone is not None:
            marks = [f"@{self.state.roster.agents.index(name)}" for name in stages]
            text = " and ".join(marks) + text[everyone.end() :]
        found = _SEEING.fullmatch(text)
        if found is None or not (found["only"] or found["else"] or " only " in text):
            return None
        who = self._named(found["who"])
        sources = self._sources(found["what"], str(options.get("supervisor", "")))
        if not sources:
            return None
        if everyone is not None:  # what is said of one stage by its name holds for that one
            apart = {a for s in self.state.statements if isinstance(s, Shown) for a in s.agents}
            who = tuple(name for name in who if name not in apart)
        made = Shown(agents=who, sources=sources, words=self.words, each=everyone is not None)
        return [made] if who else None

    def _sources(self, said: str, supervisor: str) -> tuple[str, ...] | None:
        """What an enumeration of things names, as inputs; none where one of them is not known."""
        out: list[str] = []
        for thing in re.split(r" , and | , | and ", said):
            if re.fullmatch(
                r"(?:what (?:it|each|they) (?:is|are) (?:handed|given|told)|(?:its|their) (?:own )?(?:work|messages|turn))",
                thing,
            ):
                continue  # its own, which it always sees
            source = self._source(thing, supervisor)
            if source is None:
                return None
            out.append(source)
        return tuple(dict.fromkeys(out)) or None

    def _source(self, thing: str, supervisor: str) -> str | None:
        for form, kind in _THING:
            found = form.fullmatch(thing)
            if found is None:
                continue
            if kind == "input":
                return kind
            who = self._named(thing)
            if len(who) != 1 or (kind == "instructions" and who[0] != supervisor):
                return None
            key = (
                thing.rsplit(maxsplit=1)[-1]
                if thing.startswith("what ")
                else thing.split(maxsplit=1)[0]
            )
            key = thing.rsplit(maxsplit=1)[-1] if " 's " in thing else key
            return f"{who[0]}.{_KEYS.get(key, key) if kind == 'text' else kind}"
        artifact = re.fullmatch(
            r"(?:the )?(?:artifact )?([a-z][a-z0-9_-]{0,62})(?: so far| as it (?:is|stands)| artifact)?",
            thing,
        )
        named = (
            re.search(rf"\bartifact (?:called )?{artifact[1]}\b", self.state.text.lower())
            if artifact
            else None
        )
        return f"artifact:{artifact[1]}" if artifact and named else None


def _one_of(before: str, named: str) -> bool:
    """Whether one of those named is meant: `to the lawyer and the clerk` is both of them."""
    chosen = before.endswith((" of ", " between ", " among ", " : ", " – ", " either "))
    return chosen or " or " in named


_FOR_THEM = pattern(
    rf"{{A1}} {_PLANNED} (?:a|the|up a) (?:\w+ )?plan (?:of the \w+ )?(?:for|with) {{A:workers}}"
)
