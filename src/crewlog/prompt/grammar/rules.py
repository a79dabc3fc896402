"""Rules: sentences that hold for the whole run, whatever the order.

A table of patterns (`phrase.pattern`) and what each says. The first that reads the whole of a
window and whose handler agrees wins; so what is more particular stands first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from crewlog.definition.findings import listed, suggestion
from crewlog.prompt.ast import (
    Allow,
    Deny,
    Inside,
    Limit,
    OnError,
    Sees,
    Step,
    Switch,
    Use,
    UseModel,
)
from crewlog.prompt.grammar.phrase import Phrase, number, pattern
from crewlog.prompt.grammar.state import Handler, Match, State


@dataclass(frozen=True, slots=True)
class Rule:
    """The ways to say one thing."""

    patterns: tuple[re.Pattern[str], ...]
    handler: Handler
    hint: re.Pattern[str] | None
    """What every way to say it holds: most phrases are ruled out by it alone."""


Table = list[Rule]
RULES: Table = []
"""Read windows of several segments."""
SINGLE: Table = []
"""Read one segment only, because they end in words of any kind."""

TOOL = r"[#$]"
AGENT = r"@"
PERSON = r"\b(?:i|me|us|my|our|we|human|humans|someone|somebody|person|people|boss|user|supervisor|colleague|approval|ok|permission)\b"

WORK = (
    r"(?:notes?|work|works|results?|outputs?|drafts?|findings?|text|texts|answers?|reports?|analysis|"
    r"opinions?|comments?|verdicts?|ratings?|scores?|reviews?|thoughts|contributions?|part|material|"
    r"version|remarks|messages?|reasoning|assessments?|numbers|code|plans?|ideas?|translation|feedback|"
    r"estimates?|conclusions?|[a-z]+ notes)"
)
TIMES = (
    r"(?: ?(?:,|\(|–|and|but)?(?: but)? ?(?:(?:at (?:the )?most|no more than|not more than|never more than|"
    r"up to|max(?:imum)?|for|for at most|a maximum of|limited to)(?: of)? )?(?P<times>once|twice|thrice|{N})"
    r"(?: (?:times?|rounds?|attempts?|tries|passes|turns|goes|iterations?|hand-?offs?))?"
    r"(?: (?:is|are) (?:plenty|enough)| max(?:imum)?| at (?:the )?most| tops| in total| altogether| should do)?(?: \))?)?"
)


def rule(*patterns: str, hint: str = "", single: bool = False) -> Callable[[Handler], Handler]:
    """Puts a handler into the table, with all the ways to say it."""

    def put(handler: Handler) -> Handler:
        ways = tuple(pattern(text) for text in patterns)
        made = Rule(ways, handler, re.compile(hint) if hint else None)
        (SINGLE if single else RULES).append(made)
        return handler

    return put


def apply(state: State, phrase: Phrase, table: Table) -> bool:
    """Whether a rule of a table reads a whole phrase."""
    text = phrase.text
    for entry in table:
        if entry.hint is not None and entry.hint.search(text) is None:
            continue
        for way in entry.patterns:
            found = way.fullmatch(text)
            if found is not None and entry.handler(state, _match(phrase, found)):
                return True
    return False


def _match(phrase: Phrase, found: re.Match[str]) -> Match:
    groups: dict[str, str | None] = {}
    spans: dict[str, tuple[int, int]] = {}
    for name, said in found.groupdict().items():
        base = name.partition("__")[0]
        if groups.get(base) is None:
            groups[base], spans[base] = said, found.span(name)
    return Match(phrase, groups, spans)


def who(state: State, match: Match, name: str = "who") -> tuple[str, ...]:
    """The agents that a group names; empty for all."""
    return state.names(match.get(name))


# -- tools -----------------------------------------------------------------------------------------

_HAS = (
    r"(?:uses?|has|have|gets?|has got|is got|have got|'s got|got|works? with|is given|are given|is equipped with|are "
    r"equipped with|needs?|runs?|employs?|relies on|has access to|have access to|gets access to|"
    r"is armed with|is provided with|comes with|is supplied with|makes use of|calls?|draws on|is to use|"
    r"should use|must use|works? using|does (?:it|this|that|so) (?:with|using)|keeps)"
)
_BUT = r"(?:but|except|except for|other than|apart from|besides|save|else but|else than|aside from|, except,?)"
_END = r"(?: (?:for this|for that|too|as well|only|alone|at all|itself|, ever|ever|, and nobody else|and nobody else|and no one else|, nobody else|, no one else|, nothing else|here|now|in this crew|directly|, and nothing else|and nothing else|themselves|under any circumstances))*"


@rule(
    rf"(?:and |but )?only {{A:who}}(?: alone)? (?:{{MAY}}|are|is|should|shall|will|must)(?: ever)? (?:be able to |be allowed to )?(?:{{USE}} )?{{T:tools}}{_END}",
    rf"only {{A:who}} {_HAS} {{T:tools}}{_END}",
    rf"(?:only )?let only {{A:who}} {{USE}} {{T:tools}}{_END}",
    rf"{{NOBODY}} {_BUT} {{A:who}} (?:{{MAY}}|{_HAS}|should|is to|will|ever|shall) ?(?:ever )?(?:{{USE}} )?{{T:tools}}{_END}",
    r"{T:tools} (?:may|can|must|should|is to|are to) (?:only )?be (?:used|called|run|touched|accessed|invoked)(?: only)? (?:only )?by {A:who}(?: (?:only|alone))(?: , ?and .*)?",
    rf"{{T:tools}} (?:may|can|must|should|is to|are to) (?:only be (?:used|called|run|touched|accessed|invoked)|be (?:used|called|run|accessed) only|be used exclusively) by {{A:who}}{_END}",
    rf"{{T:tools}} (?:is|are) (?:only (?:for|available to|allowed for|open to|used by|given to)|reserved for|restricted to|limited to|exclusive to|exclusively for|available only to|used only by|for the exclusive use of|the sole preserve of|off limits to (?:everyone|anyone|all) (?:but|except)) {{A:who}}{_END}",
    rf"{{T:tools}} (?:is|are) (?:for|available to|used by) {{A:who}} (?:only|alone|exclusively){_END}",
    r"{T:tools} (?:belongs|belong) (?:only |exclusively )?to {A:who}(?: (?:only|alone|exclusively))?",
    r"{T:tools} (?::|–|=) ?(?:only {A:who}|{A:also} only)",
    rf"{{A:who}} (?:alone|and (?:nobody|no one) else) (?:{{MAY}}|{_HAS})(?: {{USE}})? {{T:tools}}{_END}",
    rf"{{A:who}} (?:is|are|'s) the only (?:one|ones|agent|agents|person|people)(?: (?:who|that|which|allowed|permitted|here))* ?(?:{{MAY}} |to |{_HAS} )?(?:{{USE}} )?{{T:tools}}{_END}",
    rf"(?:only|just) {{A:who}} (?:is|are) (?:the one )?(?:allowed|permitted) (?:to )?(?:{{USE}} )?{{T:tools}}{_END}",
    hint=TOOL,
)
def only(state: State, match: Match) -> bool:
    """`Only the writer may write files`."""
    agents = state.names(match.get("who") or match.get("also"))
    tools = state.tool_names(match.get("tools"))
    state.subject, state.tools = agents, tools
    return state.say(Allow(agents=agents, tools=tools, only=True, words=match.words))


@rule(
    r"(?:{NOBODY}|no other agent|none of the others|no other) ?(?:else )?(?:{MAY}|gets?|uses?|has|touches|does|should|needs?|is)?(?: {USE})?(?: allowed)?(?: (?:it|that|this|them|that one|this one|{T:tools}|access|to))?(?: (?:too|at all))?",
    hint="else|other",
)
def nobody_else(state: State, match: Match) -> bool:
    """`… and nobody else may use it`: said of what was just allowed."""
    if " else" not in match.phrase.text and " other" not in match.phrase.text:
        return False
    at = state.last("allow", "deny")
    if at is None or not isinstance(allow := state.statements[at], Allow):
        return False
    return state.replace(at, only=True, words=(*allow.words, *match.words))


@rule(
    rf"{{A:who}} (?:{{MAYNOT}}|will not|does not|do not)(?: ever)? (?:be able to |be allowed to |get to )?(?:{{USE}} )?{{T:tools}}{_END}",
    rf"(?:(?:{{NOBODY}})|neither of them) (?:{{MAY}}|should|shall|must|will|ever|is|uses?|gets?|has|to)(?: ever)? ?(?:{{USE}} )?{{T:tools}}{_END}",
    rf"(?:please )?(?:do not|never) (?:let|allow|permit)(?: {{A:who}}| {{ALL}})(?: to)? (?:{{USE}} )?{{T:tools}}{_END}",
    rf"{{T:tools}} (?:is|are) (?:off limits|off-limits|forbidden|not allowed|not permitted|taboo|not available|not|prohibited|banned|out of bounds)(?: (?:for|to) (?:{{A:who}}|{{ALL}}))?{_END}",
    rf"{{T:tools}} (?:may not|must not|can not|must never|may never|should not|should never) be (?:used|called|run|touched|accessed)(?: by (?:{{A:who}}|{{ALL}}|{{NOBODY}}))?{_END}",
    rf"(?:please )?keep {{A:who}} (?:away from|off) {{T:tools}}{_END}",
    rf"{{A:who}} (?:does not|do not) (?:get|have|use|need|touch)(?: access to)? {{T:tools}}{_END}",
    rf"{{A:who}} (?:has|have|gets?) no (?:access to )?{{T:tools}}{_END}",
    rf"{{A:who}} (?:works?|does (?:it|this)) without {{T:tools}}{_END}",
    rf"(?:please )?(?:never|do not) (?:{{USE}} ){{T:tools}}{_END}",
    rf"(?:there is )?no {{T:tools}}(?: for (?:{{A:who}}|{{ALL}}))?{_END}",
    rf"(?:{{ALL}}) (?:may not|must not|can not|should not|must never|may never)(?: ever)? (?:{{USE}} )?{{T:tools}}{_END}",
    hint=TOOL,
)
def deny(state: State, match: Match) -> bool:
    """`The chatbot may not issue refunds`, `nobody may use it`."""
    agents, tools = who(state, match), state.tool_names(match.get("tools"))
    if agents:
        state.subject = agents
    state.tools = tools
    return state.say(Deny(agents=agents, tools=tools, words=match.words))


_GRANT = r"(?:please )?(?:we |i |you )?(?:also )?(?:give|grant|hand|allow|lend|gives|equip|provide|supply)"


@rule(
    rf"{{A:who}} (?:(?:both|all|each|also|alone|obviously|always|two|three) )*{{MAY}} (?:also |each |both |all |freely |always )?(?:only )?(?:{{USE}} )?{{T:tools}}{_END}",
    rf"{{A:who}} (?:(?:both|all|each|also|then|always) )*{_HAS} (?:only |just |both )?{{T:tools}}{_END}",
    r"{A:who} (?::|–|\(|,)? ?(?:with |using |uses |may use |can use |has |tools? (?::|is|are) )?{T:tools}(?: \))?(?: for (?:that|this) one)?",
    rf"{{A:who}} 's (?:only )?tools? (?:is|are|:) {{T:tools}}{_END}",
    rf"{{A:who}} (?:is|are) (?:the one |the ones )?(?:allowed|permitted|free|able|authorised|authorized|entitled|supposed|trusted) to (?:{{USE}} )?{{T:tools}}{_END}",
    rf"{{A:who}} (?:is|are) (?:the one|the ones) (?:who|that|with) (?:{{MAY}} )?(?:{{USE}} )?{{T:tools}}{_END}",
    rf"{_GRANT} {{A:who}} (?:with )?(?:access to |the right to |permission to |leave to |the tools? )?(?:{{USE}} |to use |to )?{{T:tools}}{_END}",
    rf"{_GRANT} (?:access to )?{{T:tools}} to {{A:who}}{_END}",
    rf"(?:please )?(?:and )?let {{A:who}} (?:{{USE}} )?{{T:tools}}{_END}",
    rf"{{T:tools}} (?:may|can|should|is to|are to|must) be used by {{A:who}}{_END}",
    rf"{{T:tools}} (?:is|are) (?:available to|for|used by|given to|open to|at the disposal of|allowed for) {{A:who}}{_END}",
    rf"{{T:tools}} (?:goes|go) to {{A:who}}{_END}",
    hint=TOOL,
)
def allow(state: State, match: Match) -> bool:
    """`The writer may use write_file`."""
    agents, tools = who(state, match), state.tool_names(match.get("tools"))
    text = match.phrase.text
    if re.fullmatch(r"[@0-9, and]+ (?:runs? )?\$[0-9]+(?: .*)?", text):
        return False  # "the tester runs the tests" is what it does, and gives it nothing
    state.subject, state.tools = agents, tools
    state.say(Allow(agents=agents, tools=tools, only=False, words=match.words))
    if re.search(r"nobody else|no one else", text):
        state.replace(len(state.statements) - 1, only=True)
    return True


@rule(
    rf"(?:{{ALL}}|they|both|both of them|each|the two|all three|you all|you) (?:{{MAY}}|should be able to|shall be able to|{_HAS}) ?(?:all |both |freely )?(?:{{USE}} )?{{T:tools}}{_END}",
    r"{T:tools} (?:may|can|should) be used by (?:{ALL})",
    rf"{{T:tools}} (?:is|are) (?:available to|for|open to|allowed for|free for|used by) (?:{{ALL}}){_END}",
    rf"{_GRANT} (?:{{ALL}}) (?:access to )?{{T:tools}}",
    r"(?:give|grant) {T:tools} to (?:{ALL})",
    r"let (?:{ALL}) (?:{USE} )?{T:tools}",
    hint=TOOL,
)
def allow_all(state: State, match: Match) -> bool:
    """`Everyone may use read_documents`."""
    tools = state.tool_names(match.get("tools"))
    agents: tuple[str, ...] = ()
    first = match.phrase.text.split()[0]
    if first in {"they", "both", "each"} or match.phrase.text.startswith(("the two", "all three")):
        agents = state.subject if len(state.subject) > 1 else state.worked
    state.tools = tools
    return state.say(Allow(agents=agents, tools=tools, words=match.words))


@rule(
    r"(?:using|with|via|through|by means of|by using|uses|has|may use|can use|tools? :|equipped with|armed with|(?:and )?(?:it )?(?:has|uses)) ?{T:tools}(?: for (?:that|this)(?: one)?)?",
    r"{T:tools}(?: (?:for (?:that|this)(?: one)?|only|please|too|as well))?",
    hint=TOOL,
)
def allow_bare(state: State, match: Match) -> bool:
    """`… (search_logs)`, after the agent."""
    if not state.subject or ("$" in match.get("tools") and match.phrase.text == match.get("tools")):
        return False
    tools = state.tool_names(match.get("tools"))
    state.tools = tools
    return state.say(Allow(agents=state.subject, tools=tools, words=match.words))


# -- who sees what ---------------------------------------------------------------------------------

_SEE = r"(?:see|sees|read|reads|look at|looks at|know|knows|view|views|be shown|access|get to see|gets to see|get|gets|peek at|peeks at|have access to|has access to|receive|receives|hear|hears|be told|is shown|are shown|use|uses)"
_OWN = rf"(?:{{A:whose}} 's (?:own )?{WORK}(?: and {WORK})?|what {{A:whose}} (?:does|do|writes?|says?|produces?|did|has (?:written|done|made|found)|makes?|finds?|found|wrote)|anything (?:of|from|by|that) {{A:whose}}(?: [a-z]+)?|the (?:{WORK}) (?:of|by|from) {{A:whose}})"
_OTHERS = r"(?:the others|anyone else|anybody else|everyone else|everybody else|the rest|the other agents|other agents|all the others|the others' work|anyone|anybody|the rest of the crew|the others do|the other ones|others)(?: 's work| do| does| did| wrote| has done| have done|'s work)?"


@rule(
    rf"only {{A:who}} (?:{{MAY}} )?{_SEE} {_OWN}",
    rf"{{NOBODY}} {_BUT} {{A:who}} (?:{{MAY}} )?{_SEE} {_OWN}",
    rf"{{A:who}} (?:alone|is the only one who|is the only one that|are the only ones who) (?:{{MAY}} )?{_SEE} {_OWN}",
    rf"{_OWN} (?:is|are|stays?|should be|must be|may be|can be|goes|go|must|should|may) ?(?:only )?(?:be )?(?:only )?(?:visible |shown |seen |for |read |available |sent |to be seen )?(?:only )?(?:to |by |for )?{{A:who}}(?: (?:only|alone|'s eyes only|'s eyes|and nobody else))?",
    rf"(?:show|give|pass|send) {_OWN} (?:only )?to {{A:who}}(?: (?:only|alone|and nobody else|and no one else))?",
    rf"(?:only )?(?:show|give) only {{A:who}} {_OWN}",
    hint=r"@.*@|@.*(?:what|anything)",
)
def only_sees(state: State, match: Match) -> bool:
    """`Only the mediator sees the lawyer's notes`."""
    text = match.phrase.text
    if not re.search(r"\bonly\b|\balone\b|nobody|no one|eyes", text):
        return False
    agents = who(state, match)
    return state.say(Sees(agents=agents, whose=state.names(match.get("whose")), words=match.words))


@rule(
    rf"{{A:who}} (?:{{MAYNOT}}|does not|do not|will not|is not)(?: to| ever| get to)? {_SEE} {_OWN}",
    rf"{{A:who}} (?:sees?|knows?|gets?|learns?|hears?|reads?) (?:nothing|none) (?:of|from|about) (?:{_OWN}|{{A:also}})",
    rf"(?:please )?(?:hide|keep|withhold|conceal) {_OWN} (?:from|away from|hidden from|secret from) {{A:who}}",
    rf"{_OWN} (?:is|are|stays?|must be|should be|remains?) (?:kept |to be kept )?(?:hidden|invisible|secret|off limits|not visible|not shown|not for|concealed|withheld|away) ?(?:from|to|for)? {{A:who}}",
    rf"(?:do not|never) (?:show|give|tell) {{A:who}} {_OWN}",
    rf"(?:do not|never) (?:show|give|pass) {_OWN} to {{A:who}}",
    rf"(?:do not|never) let {{A:who}} {_SEE} {_OWN}",
    rf"{{A:who}} (?:works?|does (?:it|this)|writes?|rates?|judges?) without (?:seeing|knowing|reading) {_OWN}",
    hint="@",
)
def hidden(state: State, match: Match) -> bool:
    """`The editor may not see the counter's work`."""
    whose = state.names(match.get("whose") or match.get("also"))
    state.subject = who(state, match)
    return state.say(Sees(agents=state.subject, whose=whose, hidden=True, words=match.words))


@rule(
    r"{A:who} (?:works?|work|rates?|writes?|judges?|is to work|must work|should work|goes in|does (?:its|his|her|their) (?:work|job|thing)) (?:completely |totally |entirely )?(?:blind|blindly|in isolation|blindfolded|in the dark)(?: .*)?",
    rf"{{A:who}} (?:sees?|knows?|gets?|learns?|hears?|reads?|gets? to see) (?:absolutely )?(?:nothing|none)(?: (?:at all|whatsoever))?(?: (?:of|from|about|by) (?:what )?{_OTHERS})?",
    rf"{{A:who}} (?:{{MAYNOT}}|does not|do not|will not)(?: to)? {_SEE} (?:anything|any)(?: (?:of|from|about|by) (?:what )?{_OTHERS})?",
    rf"{{A:who}} (?:{{MAYNOT}}|does not|do not|will not)(?: to)? {_SEE} (?:what )?{_OTHERS}",
    rf"{{A:who}} (?:{{MAYNOT}}|does not|do not|will not)(?: to)? {_SEE} (?:any of |the work of |anybody 's|anyone 's|anything that )?(?:anybody else|anyone else|the others|the other agents)(?: 's)?(?: (?:work|notes|do|does))?",
    rf"{{A:who}} (?:works?|writes?|judges?) without (?:seeing|knowing) (?:anything|what {_OTHERS}|any of the others' work|the others' work)(?: .*)?",
    hint="@",
)
def blind(state: State, match: Match) -> bool:
    """`The sceptic works blind`."""
    state.subject = who(state, match)
    return state.say(Sees(agents=state.subject, hidden=True, words=match.words))


# -- inside an agent -------------------------------------------------------------------------------


@rule(
    r"{A1:who}(?: , who| , which| who| that| always)* (?:first )?(?:plans?|makes? a plan|draws? up a plan|drafts? a plan|writes? a plan|sets? out a plan)(?: first| the work| ahead| (?:its|his|her|their) work| it| of action| for itself)*(?: first)? ?,? ?(?:and )?(?:only )?(?:then |after that |afterwards |before )?(?:it |she |he )?(?:then )?(?:carries|carry|carrying|executes?|executing|follows?|following|works|does|acts|implements?|puts?|fulfils|realises|realizes|performs)(?: (?:the|its|that|this|his|her))?(?: (?:plan|it|them|steps?))?(?: (?:out|through|into action|into practice|step by step|on it|on the plan|plan|the plan|it|accordingly))*",
    r"{A1:who}(?: should| must| always)? (?:works?|work) (?:in two stages|by planning first|plan first|with a plan)(?: .*)?",
    hint="plan",
)
def planner_executor(state: State, match: Match) -> bool:
    """`The writer plans first, then carries the plan out`."""
    agent = who(state, match)[0]
    state.subject = (agent,)
    return state.say(Inside(agent=agent, use="planner_executor", words=match.words))


@rule(
    r"{A1:who}(?: , who| who| that| always| then| also| itself| should| must| has to| is to| needs to| afterwards)* (?:reviews?|double-checks?|double checks?|checks?|critici[sz]es?|critiques?|re-reads?|rereads?|proofreads?|revises?|corrects?|improves?|looks? over|goes? over|go over|reflects? on|self-reviews?|self-checks?|inspects?|verifies|verify|tests?|assesses|assess|edits?|polishes|polish|reworks?|refines?)(?: and (?:improves?|revises?|corrects?|refines?|fixes|reworks?|rewrites?))? (?:(?:its|his|her|their|'s) own [a-z]+|(?:its|his|her|their) (?:work|draft|output|result|answer)(?: (?:itself|himself|herself|themselves|again)))(?: (?:again|critically|carefully|before handing it (?:over|on)|first|and improves it))?"
    + TIMES,
    hint=r" own |(?:its|his|her|their) (?:work|draft|output|result|answer)",
)
def review_loop(state: State, match: Match) -> bool:
    """`The coder reviews its own work, at most 2 times`."""
    agent = who(state, match)[0]
    state.subject = (agent,)
    times = number(match.get("times"))
    options = {"rounds": int(times)} if times else {}
    return state.say(Inside(agent=agent, use="review_loop", options=options, words=match.words))


@rule(
    r"{A1:who}(?: then| always)? (?:decides?|chooses?|picks?|says?|determines?|selects?|calls|rules on|settles|tells us|directs|has the say) (?:each time |every time |again and again |in each round )?(?:who|which (?:agent|one|of them|of the agents|specialist)|whose turn|which of {A:early})(?: it)?(?: is| to| should| shall| may| gets to| has to)*(?: works?| goes| acts| comes| up| go| act| speaks?| work| is up| turn| be| takes over| takes the floor| does something| gets the floor| moves| run| runs| called)? ?(?:on )?next ?(?:step |in turn |up )?(?::|,|–|\(|from among|from|among|amongst|between|out of|of|either|whether)? ?(?:from |either |whether |out of |it is )?{A:workers}(?: \))?"
    + TIMES,
    r"{A1:who} (?:supervises|delegates to|delegates work to|hands out work to|directs the work of|assigns work to|assigns tasks to|distributes the work among|distributes work among|distributes tasks to|manages|coordinates|routes the work to|dispatches work to|calls in|is the supervisor of|is in charge of|leads) {A:workers}(?: as (?:needed|it sees fit|necessary|required))?"
    + TIMES,
    r"{A:workers} (?:work|are) (?:under|supervised by|managed by|directed by|under the supervision of|under the direction of|led by) {A1:who}(?: , who decides who works next)?"
    + TIMES,
    hint=r"@.*@",
)
def supervisor(state: State, match: Match) -> bool:
    """`The lead decides who works next: writer, editor or checker`."""
    boss = who(state, match)[0]
    workers = tuple(w for w in state.names(match.get("workers") or match.get("early")) if w != boss)
    if len(workers) < 1 or (len(workers) < 2 and ":" not in match.phrase.text):
        return False
    options: dict[str, object] = {"supervisor": boss, "workers": list(workers)}
    times = number(match.get("times"))
    if times:
        options["at_most"] = int(times)
    state.worked, state.subject = (boss, *workers), (boss,)
    state.ever.update(state.worked)
    use = {
        "use": "supervisor",
        "options": options,
        "agents": (boss, *workers),
        "words": match.words,
    }
    return state.say(Use.model_validate(use))


# -- errors, limits, models, switches --------------------------------------------------------------

_FAILS = r"(?:fails?|crash(?:es)?|breaks?(?: down)?|errors?(?: out)?|falls? over|goes? wrong|has an error|hits? an error|does not (?:work|answer|respond|finish|manage|succeed|deliver|make it)|dies|times? out|blows? up|can not (?:finish|do it|continue|work)|runs? into (?:an error|trouble|problems)|has a problem|trips(?: up)?|is down|conks out|gets stuck|bails out|throws an error|fall over|break)"
_ON = r"(?:and )?(?:then )?(?:just |simply |please )*(?:we |you |the (?:run|crew|rest|others|whole thing|work) (?:just |simply )?(?:should |must |can |may )?)?(?:just |simply )*(?:should |can |may |must )?"
_GOES_ON = r"(?:continues?|carry on|carries on|go on|goes on|proceeds?|moves? on|keep going|keeps going|do|does|ignore (?:it|that)|skip (?:it|him|her|them|@[0-9]+)|never mind|leave it(?: out)?|do without)(?: (?:anyway|regardless))?(?: (?:without|with out) (?:it|him|her|them|that|that one|@[0-9]+)| on without (?:it|him|her|them))?(?: anyway)?"
_STOPS = r"(?:stops?|ends?|aborts?|fails?|halts?|give up|gives up|quit|cancel|call it off|is over)(?: (?:everything|the (?:run|crew|whole thing|lot|process)|it all|all|there|at once|immediately|right there|altogether|the whole run))*"
_FAILURE = rf"(?:{{A:who}}|(?:{{ALL}})|something|anything|it|he|she|they|that one) {_FAILS}(?: (?:on|at|with|to) [a-z ]+)?"


@rule(
    rf"(?:if|when|whenever|in case|should|where) {_FAILURE} ?,? ?{_ON}(?:(?P<on>{_GOES_ON})|(?P<stop>{_STOPS})|(?P<ask>(?:ask|asks|tell|call|alert|check with|consult|come back to) {{ME}}))(?: (?:what to do|about it|first|how to go on|for help))?",
    rf"{_ON}(?:(?P<on>{_GOES_ON})|(?P<stop>{_STOPS})|(?P<ask>(?:ask|tell|call|check with|consult) {{ME}}(?: what to do)?)) (?:if|when|whenever|in case|should) {_FAILURE}",
    r"(?P<on>{A:who} (?:is|are) (?:optional|allowed to fail|not essential|a nice-to-have|not critical|dispensable|allowed to break))(?: .*)?",
    r"(?P<on>{A:who} may fail)(?: .*)?",
    hint=r"fail|crash|break|err|fall|wrong|answer|dies|time|blow|trouble|problem|trip|down|conk|stuck|bail|optional|essential|critical|finish|dispens|nice-to-have|work|respond|manage|succeed|deliver|make it|continue|do it|hits",
)
def on_error(state: State, match: Match) -> bool:
    """`If the coder fails, continue without it`."""
    agents = who(state, match)
    text = match.phrase.text
    if not agents and re.search(
        r"\b(?:it|he|she|they|that one) (?:fail|crash|break|err|fall|go)", text
    ):
        if "without" not in text and "ask" not in text:
            return False
        agents = state.subject
    if not agents and re.search(r"\b(?:something|anything) ", text):
        agents = ()
    policy = "continue" if match.get("on") else "fail" if match.get("stop") else "ask"
    return state.say(OnError(agents=agents, policy=policy, words=match.words))


_MOST = r"(?:at (?:the )?most|no more than|not more than|never more than|max(?:imum)?(?: of)?|up to|a maximum of|limited to|a limit of|never (?:use |take |make )?more than|fewer than|not over|within|do not (?:take|use|make|run) more than|there (?:should|may|must) be (?:at most|no more than)|(?:has|takes?|runs?|uses?|makes?|may take|may use|should take|must not take|may not take|is|are) (?:at most|no more than|not more than|more than|up to|limited to)|limit (?:it|the run|things|yourself|yourselves|the crew|the whole run|the whole thing|everything) to|stop (?:everything |the run |it )?after|cap (?:it|the run|the crew|everything) at)"
_RUN = (
    r"(?:(?:with|and|but|in|the (?:whole )?(?:run|crew|thing|process|team|workflow|work)|everything|it|we|this|"
    r"all in all|in total|overall|altogether|allow|use|take)(?: (?:should|may|must|can|will))?"
    r"(?: (?:take|run|have|make|use|be|has|takes|is|gets|uses))?(?: ,)? ){0,6}+"
)
_SIDE = r"(?:at a time|at once|at the same time|in parallel|simultaneously|concurrently|side by side|together|running at (?:a time|once)|going at (?:a time|once)|at any (?:one )?time|at any moment)"


@rule(
    rf"{_RUN}{_MOST} {{N:most}} (?:steps|turns|moves|actions)(?: (?:in all|in total|altogether|overall|please|for the run|at most|per run|for everything|all told|, please))*",
    rf"{_RUN}{{N:most}} steps(?: is the| are the| is our)? ?(?:at (?:the )?most|max(?:imum)?|tops|limit|in total|altogether)(?: .*)?",
    r"(?:the )?(?:step limit|limit|maximum|budget)(?: of steps)? (?:is|:) {N:most} steps",
    hint="steps|turns|moves|actions",
)
def steps(state: State, match: Match) -> bool:
    """`At most 20 steps`."""
    most = number(match.get("most"))
    if not most or most < 1:
        return False
    return state.say(Limit(what="steps", most=int(most), words=match.words))


@rule(
    rf"{_RUN}{_MOST} {{N:most}}(?: (?:agents?|of them|phases?|tasks?|people|workers?|jobs?|[a-z]+s|{{A1}}|of these))?(?: (?:may|can|should|to|are|is))?(?: (?:work|run|be|go|working|running|active))?(?: (?:working|running|active))? {_SIDE}(?: .{{0,60}})?",
    rf"{_RUN}{{N:most}}(?: (?:agents?|of them|tasks?))?(?: (?:may|can) (?:work|run))? {_SIDE}(?: (?:at (?:the )?most|max(?:imum)?|tops))(?: .{{0,60}})?",
    r"(?:do not|never) run more than {N:most}(?: (?:agents?|of them|[a-z]+s|{A1}))? " + _SIDE,
    r"{N:most} at a time",
    hint="time|once|parallel|simult|concurr|side by side|together|moment",
)
def parallel(state: State, match: Match) -> bool:
    """`No more than 3 at a time`."""
    most = number(match.get("most"))
    if not most or most < 1:
        return False
    return state.say(Limit(what="parallel", most=int(most), words=match.words))


_MODEL = r"(?:the )?(?:model )?~(?P<model>[0-9]+)(?: model)?"


@rule(
    rf"{{A:who}} (?:uses?|runs? on|works? (?:with|on)|is on|'s on|are on|should use|should run on|is to use|gets?|has|needs?|must use|runs? with|is powered by|is driven by|runs?|is run on|wants|takes|is) {_MODEL}(?: .{{0,30}})?",
    rf"(?:use|take|pick|choose|run) {_MODEL}(?: for {{A:who}}| for (?:everything|everyone|all agents|the crew|all of them|this))?",
    rf"{_MODEL} (?:for|is for|goes to|drives|runs|is used by) {{A:who}}",
    rf"(?:run|put) {{A:who}} on {_MODEL}",
    rf"{{A:who}} 's model (?:is|:) {_MODEL}",
    rf"(?:the )?(?:default )?model(?: of the crew)? (?:is|:) {_MODEL}",
    rf"(?:{{ALL}}|they|the crew|we) (?:uses?|runs? on|should use|works? with) {_MODEL}",
    rf"(?:model :|on|using|with|and) {_MODEL}",
    rf"(?P<bare>{_MODEL}) (?:for (?:that|this)(?: one)?|please)",
    hint="~",
)
def model(state: State, match: Match) -> bool:
    """`The writer uses the model gpt-5`."""
    agents = who(state, match)
    text = match.phrase.text
    if not agents and (
        text.startswith(("on ", "using ", "with ", "and ", "model :")) or match.get("bare")
    ):
        agents = state.subject
    name = state.models[int(match.get("model"))]
    return state.say(UseModel(agents=agents, model=name, words=match.words))


@rule(
    r"{A:who} (?:uses?|runs? on|works? with|should use|is to use|gets|is on) (?:the )?(?:model (?P<name>[a-z0-9][a-z0-9.:_-]*)|(?P<other>[a-z0-9][a-z0-9.:_-]*) model)",
    r"use the model (?P<name>[a-z0-9][a-z0-9.:_-]*)(?: for {A:who})?",
    hint="model",
)
def other_model(state: State, match: Match) -> bool:
    """A model that the registry does not offer: said so when the definition is made."""
    name = match.get("name") or match.get("other")
    if name in {"same", "default", "best", "small", "large", "big", "a"}:
        return False
    return state.say(UseModel(agents=who(state, match), model=name, words=match.words))


_NOW = r"(?: (?:for now|at the moment|for the moment|this time|today|this week|this month|for the time being|until further notice|right now|currently|again|on this run|here|in this run|on this one|this one|this round|now|yet))*"


@rule(
    rf"{{A:who}} (?:is|are|stays?|gets?|remains?|shall be|should be|is to be|will be)(?: currently| still| for now)? (?:switched off|turned off|disabled|off|inactive|deactivated|not needed|out|on leave|paused|suspended|not active|on holiday|switched out|benched|off duty|not in use|not used|excluded|left out|unavailable|not on duty|parked){_NOW}",
    rf"(?:please )?(?:switch|turn) (?:off )?{{A:who}}(?: off)?{_NOW}",
    rf"(?:please )?(?:leave {{A:who}} out|disable {{A:also}}|deactivate {{A:more}}){_NOW}",
    rf"{{A:who}} (?:sits? (?:this (?:one|time) )?out|takes? no part|does not (?:take part|work|run|participate)|do not take part|is not taking part|stays out of (?:it|this)|has the day off|has a day off|does nothing){_NOW}",
    hint=AGENT,
)
def switch(state: State, match: Match) -> bool:
    """`The tester is switched off for now`."""
    agents = state.names(match.get("who") or match.get("also") or match.get("more"))
    text = match.phrase.text
    if re.match(r"(?:please )?(?:switch|turn)", text) and not re.search(r"\boff\b", text):
        return False
    state.subject = agents
    return state.say(Switch(agents=agents, words=match.words))


_THERE = r"(?:is|are) (?:available|there|offered|installed|configured|set up|present|enabled|on offer|in the registry)"


@rule(
    rf"{{A1:who}}(?: (?:works?|runs?|acts?|joins(?: in)?|takes part|is needed|comes in|is used|starts?|does (?:so|this|it)|may work|can work|should work|is to work|gets to work|participates|is on))? ?(?:but )?only (?:if|when|where|as long as|while|in case|provided) {{T:tools}} {_THERE}",
    rf"(?:but |and )?(?:(?:it|she|he|they) )?(?:works? |runs? |acts? |does so |does this )?(?:but )?only (?:if|when|where|as long as|provided) {{T:tools}} {_THERE}",
    r"(?:if|when|unless|without) {T:tools} (?:(?:is|are) (?:not available|unavailable|missing|not there|not configured|not set up|not installed|not offered|available)|,) ?,? ?(?:we |just |simply |then )*(?:skip|leave out|omit|do without|drop) {A1:who}",
    r"(?:skip|leave out|omit|drop) {A1:who} (?:if|when|unless) {T:tools} (?:is|are) (?:not available|unavailable|missing|available|not configured|not offered)",
    hint=TOOL,
)
def needs(state: State, match: Match) -> bool:
    """`The narrator only if synthesize_speech is available`: of its step, wherever that stands."""
    agents = who(state, match) or state.subject[-1:]
    text = match.phrase.text
    if not agents or (
        ("if " in text or "when " in text)
        and "skip" in text
        and re.search(r"(?:is|are) available", text)
    ):
        return False
    tools = state.tool_names(match.get("tools"))
    for at in range(len(state.statements) - 1, -1, -1):
        step = state.statements[at]
        if isinstance(step, Step) and any(p.agent == agents[0] for p in step.parts):
            parts = tuple(
                p.model_copy(update={"needs": tuple(dict.fromkeys((*p.needs, *tools)))})
                if p.agent == agents[0]
                else p
                for p in step.parts
            )
            return state.replace(at, parts=parts, words=(*step.words, *match.words))
    state.needs[agents[0]] = (*state.needs.get(agents[0], ()), *tools)
    state.waiting_needs[agents[0]] = match.words
    return True


# -- tools that nobody offers ----------------------------------------------------------------------

_UNKNOWN = r"(?:the )?(?:tools? )?(?P<tool>[a-z0-9][a-z0-9_. -]{1,60})"


@rule(
    rf"(?:only )?(?:{{A:who}}|{{ALL}}|{{NOBODY}})(?: (?:but|except) {{A:but}})? (?:{{MAY}}|{{MAYNOT}}) (?:also |only )?(?:use|access|call|invoke) {_UNKNOWN}",
    r"(?:only )?(?:{A:who}|{ALL}) (?:uses?|has|have|calls?|gets?|with) (?:the )?(?:tool )?(?P<tool>[a-z0-9]+(?:_[a-z0-9]+)+)(?: .+)?",
    r"(?:only )?(?:{A:who}|{ALL}) (?:uses?|has|have|calls?|gets?) the (?P<tool>[a-z0-9-]+(?: [a-z0-9-]+)?) tool",
    r"(?P<tool>[a-z0-9]+(?:_[a-z0-9]+)+) (?:needs?|requires?) (?:my|our|human|a human 's) [a-z-]+",
    r"(?P<tool>[a-z0-9]+(?:_[a-z0-9]+)+) (?:may|can|must|is) .+",
    r"(?:give|grant|let) {A:who} (?:use |access to |the tool )?(?P<tool>[a-z0-9]+(?:_[a-z0-9]+)+)",
    hint="use|access|call|invoke|_| tool",
    single=True,
)
def unknown_tool(state: State, match: Match) -> bool:
    """`The writer may use teleport`, which no registry offers: an error, never a guess."""
    said = match.get("tool")
    known = {t: t for t in state.registry.tools}
    for name, tool in state.registry.tools.items():
        known.update(dict.fromkeys((name.replace("_", " "), *tool.words), name))
    near = suggestion(said.replace(" ", "_"), state.registry.tools) or known.get(
        suggestion(said, known), ""
    )
    offered = listed(sorted(state.registry.tools)[:12])
    remedy = f"Did you mean {near!r}?" if near else f"It offers {offered}." if offered else ""
    words = match.sub("tool").words
    state.remark(
        "unknown_tool", f"the registry offers no tool {said!r}", [words], remedy, severity="error"
    )
    if agents := who(state, match):
        state.subject = agents
    return True
