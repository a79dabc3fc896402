"""Where people come in: questions, approvals of tool calls, gates."""

from __future__ import annotations

import re

from crewlog.prompt.ast import Allow, Ask, AskTool, Gate
from crewlog.prompt.grammar.phrase import number
from crewlog.prompt.grammar.rules import AGENT, PERSON, RULES, SINGLE, TOOL, apply, rule, who
from crewlog.prompt.grammar.state import Match, State

_ASK = (
    r"(?:(?:you |we |it |they |please |always |first |must |should |has to |have to |needs to |just |also |do )*(?:ask|asks|check with|checks with|"
    r"consult|consults|get approval from|get a yes from|get permission from|clear it with|run it by|runs it by|run it past|confirm with|confirms with) {ME}(?: first| for (?:my |a |an )?(?:ok|okay|approval|permission|go-ahead|confirmation|yes|sign-off|blessing))?|"
    r"i (?:want|need|would like|have|wish) to (?:be asked|approve|approve it|ok it|okay it|confirm|confirm it|be consulted|see it|check|check it|say yes|sign off|sign it off|look at it|have a look)(?: first)?|"
    r"(?:get|obtain|wait for|seek|request) (?:my|our|a human 's|human|someone 's) (?:approval|ok|okay|permission|go-ahead|sign-off|consent|yes|blessing|confirmation)(?: first)?|"
    r"(?:ask|asks) for (?:my |our |human |a )?(?:approval|permission|confirmation|ok|okay|go-ahead)(?: first)?|i (?:have to|must|should|get to) (?:approve|say yes|ok|confirm|agree|sign off|approve it)(?: first)?)"
)
_YES = r"(?:approval|ok|okay|permission|go-ahead|sign-off|consent|yes|blessing|confirmation|green light|say-so|nod|signature|thumbs up|thumbs-up|sign off|approvals|agreement|word)"
_MY = r"(?:my|our|a human 's|human|somebody 's|someone 's|a person 's|a human|the boss 's|an explicit|explicit|my explicit|a|manual)"
_RISKY = r"(?:(?:any|each|every|all|a|the)? ?(?:use of )?(?:an? |any )?(?:risky|dangerous|high-risk|high risk|critical|sensitive|hazardous|potentially dangerous) (?:tools?|actions?|tool calls?|calls?|ones?|operations?|things?|stuff)|(?:any|every|each) tool (?:that is|with) (?:risky|high risk|a high risk|dangerous|of high risk)|anything (?:risky|dangerous))"
_EVERY = r"(?:(?: ?, ?| )?(?:always|every time|every single time|each time|without exception|no matter what|first|whoever (?:it is|uses it|calls it)|before (?:it is used|each use|every use|use|being used|they are used)|in any case|for each (?:call|use)|at all times|ever|please))*"


@rule(
    rf"{_ASK} before (?:{{ALL}} |anything |you |they |we |it |he |she )?(?:(?:may|can|ever|is allowed to|actually|really) )*(?:use|uses|using|run|runs|running|call|calls|calling|touch|touches|doing|does|tries|trying|takes|taking|invoking|invokes)? ?{_RISKY}(?: is (?:used|called|run))?{_EVERY}",
    rf"{_RISKY} (?:always )?(?:needs?|requires?|must have|waits? for|wait for) {_MY} {_YES}{_EVERY}",
    rf"before (?:{{ALL}} )?(?:use|uses|using|runs?|running|calls?|calling|touches)? ?{_RISKY}(?: is used)? ,? {_ASK}{_EVERY}",
    hint="risk|danger|critical|sensitive|hazard",
)
def ask_risky(state: State, match: Match) -> bool:
    """`Ask me before any risky tool`."""
    return state.say(AskTool(words=match.words))


@rule(
    rf"{_ASK} before (?:{{A:who}}|{{ALL}}|anything|they|it|he|she|you|we)(?: (?:may|can|ever|is allowed to|actually|really|tries to|wants to))? (?:{{USE}} )?{{T:tools}}{_EVERY}",
    rf"{_ASK} (?:before|for) (?:any|each|every|all)? ?(?:single )?(?:use|uses|call|calls|run|runs|usage|calling|using|running)? ?(?:of |to )?{{T:tools}}(?: is (?:used|called|run)| gets used)?(?: by (?:{{A:who}}|{{ALL}}))?{_EVERY}",
    rf"{_ASK} (?:whenever|when|each time|every time|if) (?:{{A:who}}|{{ALL}}) (?:wants? to |is about to |tries to |would like to |needs to )?(?:{{USE}} )?{{T:tools}}{_EVERY}",
    rf"(?:whenever|when|each time|every time|if) (?:{{A:who}}|{{ALL}}) (?:wants? to |is about to |tries to |would like to |needs to )(?:{{USE}} )?{{T:tools}} ,? {_ASK}{_EVERY}",
    rf"before (?:{{A:who}}|{{ALL}}|anything) (?:(?:may|can|ever) )?(?:{{USE}} )?{{T:tools}} ,? {_ASK}{_EVERY}",
    rf"{{A:who}} (?:must |has to |have to |needs to |should |is to |will )?(?:always )?(?:ask|asks|check with|checks with) {{ME}}(?: first)? (?:before|for permission to|to be allowed to|when|whenever) (?:(?:it|he|she|they) )?(?:wants to )?(?:{{USE}}|calling|running|touching|accessing)? ?{{T:tools}}{_EVERY}",
    rf"{{A:who}} (?:needs?|requires?|must have|must get|has to get) {_MY} {_YES} (?:before (?:it|he|she) (?:may |can )?|before|to|for|whenever it|when it|each time it|every time it) ?(?:{{USE}}|calling|running)? ?{{T:tools}}{_EVERY}",
    rf"{{A:who}} (?:{{MAY}}) (?:{{USE}} )?{{T:tools}} only (?:with|after|once it has|if it has|when it has) {_MY} {_YES}{_EVERY}",
    rf"{{A:who}} (?:{{MAYNOT}}|does not|do not) (?:{{USE}} )?{{T:tools}} without (?:asking {{ME}}|{_MY} {_YES}|my approval|asking){_EVERY}",
    hint=TOOL,
)
def ask_tool(state: State, match: Match) -> bool:
    """`Ask me before the fixer uses restart_service`."""
    agents, tools = who(state, match), state.tool_names(match.get("tools"))
    state.tools = tools
    if re.match(r"@[0-9, and]+ (?:may|can|could|is allowed|gets to)", match.phrase.text) and agents:
        state.say(Allow(agents=agents, tools=tools, words=match.words))
    return state.say(AskTool(tools=tools, agents=agents, words=match.words))


@rule(
    rf"(?:every |each |any |all )?(?:single )?(?:use of |call of |call to |calls to |uses of )?{{T:tools}}(?: ,)? (?:(?:is|are) (?:used |called |allowed |run )?only|(?:always )?(?:needs?|requires?|must have|must get|waits? for|wait for|is subject to|are subject to|only (?:runs? )?with|only|calls for|takes|is only (?:used|allowed) (?:with|after)|must wait for|goes through|needs to have|has to have))(?: always)? ?(?:with |after |for )?{_MY} {_YES}{_EVERY}",
    rf"{{T:tools}} (?:must|has to|have to|needs? to|should|is to) (?:always )?be (?:approved|confirmed|okayed|signed off|authorised|authorized|cleared)(?: (?:by|with) {{ME}})?{_EVERY}",
    rf"(?:{{NOBODY}}) (?:{{MAY}}|uses?|is to) (?:{{USE}} )?{{T:tools}} without (?:asking {{ME}}|{_MY} {_YES}|asking)(?: first)?{_EVERY}",
    rf"(?:never|do not|please do not|please never) (?:{{USE}} )?{{T:tools}} without (?:asking {{ME}}|{_MY} {_YES}|asking)(?: first)?{_EVERY}",
    rf"no {{T:tools}} without (?:asking {{ME}}|{_MY} {_YES}){_EVERY}",
    rf"i (?:want to |have to |need to |must |would like to )?(?:approve|confirm|ok|okay|sign off on|authorise|authorize)(?: every| each| any| all)?(?: single)?(?: use of| call of| call to| calls to| uses of)? {{T:tools}}{_EVERY}",
    hint=TOOL,
)
def tool_needs_approval(state: State, match: Match) -> bool:
    """`deploy needs my approval`."""
    tools = state.tool_names(match.get("tools"))
    state.tools = tools
    return state.say(AskTool(tools=tools, words=match.words))


@rule(
    rf"(?:but |and )?(?:it |she |he |they )?(?:not|never)(?: (?:use|do) (?:it|that|this|so))? without (?:asking {{ME}}|{_MY} {_YES}|asking)(?: first)?(?: ,? ?ever)?",
    r"(?:but |and )?(?:it |she |he |they |that one )(?:must |has to |have to |needs to |should |is to )?(?:always )?(?:asks?|checks? with) {ME}(?: first)? before (?:it|she|he|they|using|doing|each|every)(?: (?:does|do|uses it|that|it|that one|so|use|call|time|may))*(?: so)?",
    rf"(?:but |and )?only with {_MY} {_YES}{_EVERY}",
    rf"(?:but |and )(?:that|this|it|which) (?:always )?(?:needs?|requires?) {_MY} {_YES}{_EVERY}",
    hint=PERSON + "|asking",
)
def that_tool_needs(state: State, match: Match) -> bool:
    """`… but not without asking me`: said of the tools just spoken of."""
    at = state.last("allow", "ask_tool", "deny")
    if at is None or not state.tools:
        return False
    agents = () if "that needs" in match.phrase.text else state.subject
    return state.say(AskTool(tools=state.tools, agents=agents, words=match.words))


# -- gates -----------------------------------------------------------------------------------------

_UNSURE = r"(?:unsure|not sure|uncertain|in doubt|not certain|undecided|not confident|not quite sure|stuck|unclear|not clear|does not know(?: what to do)?|do not know|has doubts|have doubts|is in two minds)(?: (?:about|of|whether|what|how|which) [^,;()]{1,60})?"
_CALLS = r"(?:(?:should |must |will |can |has to |needs to |is to |shall |simply |just |then |always |please |to |better |may |let )*(?:ask|asks|asking|consult|consults|check with|checks with|turn to|turns to|call in|calls in|call|calls|refer to|refers to|go to|goes to|come to|comes to|comes back to|get|gets|bring in|brings in|involve|involves|escalate to|escalates to|defer to|ping|pings|contact|contacts|hand over to|hands over to|tell|tells|bother|wait for|waits for) (?:{ME}|me|the human|a human operator|my)(?: (?:for help|for advice|first|what to do|instead|rather than guess|and not guess|to decide|decide|about it|for a decision|look|opinion|help|instead of [^,;]{1,60}|rather than [^,;]{1,60}|before [^,;]{1,60})){0,3})"
_WHEN = r"(?:when|whenever|if|where|in case|as soon as|any time|anytime|every time|should)"


@rule(
    rf"{_WHEN}(?: ever)? (?:{{A:who}}|{{ALL}}|it|he|she|they|you|we|anybody|anyone)(?: should)?(?: (?:is|are|be|feels?|gets?|becomes?|'s))*(?: ever| really| just)? {_UNSURE} ?,? ?(?:then )?(?:it |he |she |they |you |we )?{_CALLS}",
    rf"{_WHEN}(?: (?:it|there) is)? (?:ever )?{_UNSURE} ?,? ?(?:then )?(?:(?P<also>{{A}})|{{ALL}}|it|he|she|they|you|we)? ?{_CALLS}",
    rf"(?P<also>{{A}}) ?,? {_WHEN}(?: (?:it|he|she|they) (?:is|are))? (?:ever )?{_UNSURE} ?,? {_CALLS}",
    rf"(?:{{ALL}}) ?,? {_WHEN}(?: (?:it|he|she|they) (?:is|are))? (?:ever )?{_UNSURE} ?,? {_CALLS}",
    rf"(?:(?P<also>{{A}})|{{ALL}}|it|she|he|they)? ?{_CALLS} {_WHEN} (?:(?:it|he|she|they|{{A:who}}|{{ALL}}|you|we|anyone) ?(?:is|are|feels?|gets?)? ?)?(?:ever |really )?{_UNSURE}",
    rf"{{A:who}} (?:is|are) {_UNSURE} (?:\?|–|->|:|,) ?(?:then )?{_CALLS}",
    rf"(?P<also>{{A}}) (?:should|must|may|can) (?:never|not) guess ?(?:,|–|:|but|and)? ?(?:but )?{_CALLS}(?: {_WHEN} {_UNSURE})?",
    hint=r"sure|certain|doubt|confiden|stuck|clear|undecided|know|guess|minds",
)
def unsure(state: State, match: Match) -> bool:
    """`When unsure, the mediator asks a human`."""
    agents = state.names(match.get("who")) or state.names(match.get("also"))
    text = match.phrase.text
    if not agents and re.search(
        r"\b(?:it|he|she) (?:is|are|feels|gets|should|asks|must|does)\b", text
    ):
        agents = state.subject
    if not agents and re.match(r"(?:it|she|he) ", text):
        agents = state.subject
    if re.search(
        r"\b(?:an|any|every|each|all) (?:of the )?agents?\b|\bany(?:one|body)\b|\bany of ", text
    ):
        agents = ()
    if agents:
        state.subject = agents
    return state.say(Gate(agents=agents, words=match.words))


_LOW = r"(?:below|under|less than|lower than|beneath|short of|<|smaller than|not at least|not above|worse than)"
_SHOW = rf"(?:{_CALLS}|i (?:would rather|want to|would like to|will|have to|need to|should|would prefer to|must) (?:see|look at|check|be asked|decide|take a look at|have a look)(?: (?:it|at it|that))?(?: (?:myself|first))?|i (?:decide|check|look)(?: (?:it|at it))?|let me (?:see|decide|know|look)(?: (?:it|at it))?)"


@rule(
    rf"{_WHEN}? ?(?:{{A:who}} 's|its|his|her|their|the|{{ALL}} 's)? ?confidence(?: (?:score|level|value))?(?: of {{A:also}})? ?(?:is|are|drops?|falls?|goes|gets|lies|sinks)? ?(?:to )?{_LOW} {{N:below}}(?P<percent> %| percent| per cent)? ?,? ?(?:then )?(?:it |he |she |they )?{_SHOW}",
    rf"{_WHEN} (?:{{A:who}}|it|he|she|they|{{ALL}})(?: (?:is|are|'s))? (?:less than|under|below|not at least) {{N:below}}(?P<percent> %| percent| per cent)? (?:confident|sure|certain) ?,? ?(?:then )?(?:it |he |she |they )?{_SHOW}",
    rf"(?:{{A:also}} )?{_SHOW} {_WHEN} (?:{{A:who}} 's|its|his|her|their|the)? ?confidence ?(?:is|drops?|falls?|goes|gets)? ?(?:to )?{_LOW} {{N:below}}(?P<percent> %| percent| per cent)?",
    rf"(?:{{A:also}} )?{_SHOW} {_WHEN} (?:{{A:who}}|it|he|she|they) (?:is|are) (?:less than|under|below|not at least) {{N:below}}(?P<percent> %| percent| per cent)? (?:confident|sure|certain)",
    rf"{_WHEN} (?:{{A:who}}|it|he|she|they) (?:is|are) not {{N:below}}(?P<percent> %| percent| per cent)? (?:confident|sure|certain) ?,? ?(?:then )?{_SHOW}",
    hint="confiden|sure|certain",
)
def confidence(state: State, match: Match) -> bool:
    """`If its confidence is below 0.7, ask me`."""
    below = number(match.get("below"))
    if below is None:
        return False
    below = below / 100 if match.get("percent") or below > 1 else below
    if below > 1:
        return False
    agents = state.names(match.get("who")) or state.names(match.get("also"))
    if not agents and not re.search(r"\b(?:all agents|every agent|any agent)", match.phrase.text):
        agents = state.subject
    return state.say(Gate(agents=agents, below=round(below, 10), words=match.words))


# -- questions -------------------------------------------------------------------------------------

_THING = r"(?:[^@,;()]{1,60})"
_I = r"(?:i|we)"
_APPROVES = rf"(?:(?:and |but )?(?:{_I} (?:(?:will|must|have to|want to|need to|would like to|wish to|shall|should|always|also|get to|still|first|insist on|like to) )*(?:approve|ok|okay|check|review|sign off|sign off on|confirm|see|look at|look over|read|inspect|accept|have a look at|release|give|take a look at|agree to|say yes to|vet|green-light|have|be asked|approving|seeing|have seen|authorise|authorize)(?: {_THING})?))"
_BLESSED = rf"(?:wait|waits|hold|holds|hold on|pause|stop|hold off|stop and wait)(?: (?:there|here|everything))? (?:for|until (?:you have|it has|there is|i give|i have given)) {_MY} {_YES}(?: (?:on|of|for) {_THING})?"
_GET = rf"(?:get|obtain|ask for|seek|request|needs?|requires?|with|there must be|it (?:needs|takes|requires)|you need) {_MY} {_YES}(?: (?:on|of|for) {_THING})?"


@rule(
    rf"(?:{_ASK}|{_APPROVES}|{_BLESSED}|{_GET}) ?,? ?(?:just |right |shortly )?before (?:the )?{{A1:who}}(?P<does> [^;,–]+)?",
    rf"(?:just |right )?before {{A1:who}}(?P<does> [^,]+)? ?,? (?:then )?(?:{_ASK}|{_APPROVES}|{_BLESSED}|{_GET})(?: [^@]{{0,80}})?",
    rf"{{A1:who}} (?:(?:then|always|also|must|has to|should|needs to|is to|may only|can only|only|will) )*(?:waits?|wait|needs?|requires?|gets?|get|asks? for|has to have|holds? (?:off )?(?:for|until))(?: for)? {_MY} {_YES}(?: (?:before|to|first|for|prior to)(?: [^;,–]+)?)?",
    rf"{{A1:who}} (?:(?:then|always|also|must|has to|should|needs to|is to) )*(?:asks?|checks? with|consults?) (?:me|us)(?: first| for (?:my )?{_YES})?(?: before [a-z]+ing.*| before (?:it|she|he) .+)?",
    rf"{{A1:who}} (?:(?:may|can|must|is allowed to|should) )(?:only )?(?:{_THING} )?(?:only )?(?:after|once|when|if|with) (?:{_I} (?:have )?(?:said yes|approved|agreed|ok'd|okayed|seen|signed off|given|confirmed|say|approve|agree|say so)(?: .+)?|{_MY} {_YES})",
    rf"(?:do not let|never let) {{A1:who}} .+ (?:without|before|until) (?:asking me|my approval|i have .+|{_MY} {_YES}|i .+)(?: first)?",
    rf"{{A1:who}} (?:may not|must not|can not|should not|does not|is not to|never|will not|shall not) .+ (?:without|before|until) (?:asking {{ME}}|my approval|i have .+|{_MY} {_YES}|i (?:approve|say|agree|give|ok|sign).*)(?: first)?",
    rf"{_I} (?:have to|must|need to|want to|should) (?:approve|say yes|agree|ok it|sign off|confirm)(?: {_THING})? ?,? (?:before|so that) {{A1:who}} .+",
    rf"(?:no |nothing ){{0,1}}{{A1:who}} without {_MY} {_YES}",
    rf"{{A1:who}}(?P<does> (?!is |are |should )[^;,@]{{2,60}}?)? only (?:starts? |works? |begins? |goes )?(?:after|once|when|if) (?:{_I} (?:have )?(?:said yes|approved|agreed|okayed|seen|signed off|given|confirmed|say|approve|agree)(?: [^;,]+)?|{_MY} {_YES})",
    rf"{{A1:who}} only (?:starts?|works?|begins?|goes|runs?|acts?) (?:after|once|when|if) (?:{_I} (?:have )?(?:said yes|approved|agreed|okayed|seen|signed off|given|confirmed|say|approve|agree)(?: [^;,]+)?|{_MY} {_YES})",
    rf"{{A1:who}} (?:starts?|begins?|works?|may start|can start|comes in) (?:only )?(?:after|once|when) (?:{_I} (?:have )?(?:said yes|approved|agreed|okayed|signed off|given|confirmed|approve|agree)(?: [^;,]+)?|{_MY} {_YES})",
    hint=AGENT,
)
def ask_before(state: State, match: Match) -> bool:
    """`Ask me before the publisher publishes`."""
    if re.search(r"[#$][0-9]", match.phrase.text) and not re.search(
        r"before .* (?:start|send|publish|work)", match.phrase.text
    ):
        return False
    agent = who(state, match)[0]
    if match.get("does"):
        state.tasks.setdefault(agent, state.raw(match.sub("does")))
    return state.say(Ask(question=state.raw(match.phrase), before=agent, words=match.words))


@rule(
    rf"(?:but |and )?(?:it |she |he |they )?(?:(?:does |do |starts? |works? |goes |happens |may )?(?:so |it |that |this )?)?(?:but )?only (?:after|once|when|if) (?:{_I} (?:have )?(?:said yes|approved|agreed|okayed|seen|signed off|given|confirmed|say|approve|agree|had a look|looked|checked|read)(?: .+)?|{_MY} {_YES})",
    rf"(?:but |and )?not (?:before|until|without) (?:{_I} (?:have )?(?:said yes|approved|agreed|okayed|seen|signed off|given|confirmed|say|approve|agree|had a look|checked)(?: .+)?|{_MY} {_YES})",
    rf"(?:but |and )?(?:it |she |he )(?:has to|must|needs to|should|always)? ?(?:wait|waits|needs?|get) (?:for )?{_MY} {_YES}(?: first| before .+)?",
    r"(?:but |and )(?:ask|check with) {ME} (?:first|before (?:that|it|she|he|they|doing)(?: .+)?)",
    r"(?:but |and )(?:it |she |he )?(?:has to |must |should |needs to )?asks? {ME} (?:first|before (?:that|it|she|he|they|doing|[a-z]+ing)(?: .+)?)",
    hint=PERSON,
)
def ask_before_it(state: State, match: Match) -> bool:
    """`…, but only after I've said yes`: before the agent just spoken of."""
    if not state.subject:
        return False
    agent = state.subject[-1]
    return state.say(Ask(question=state.raw(match.phrase), before=agent, words=match.words))


_NO = rf"(?:{_I} (?:(?:do|should|would|happen to) )?(?:reject|decline|refuse|veto|object|disagree|say no|turn (?:it|this|that|them) down|do not (?:approve|like|agree|say yes|accept|ok|want|sign)|am not (?:happy|satisfied|convinced|ok|okay)|am against|am unhappy|have objections|dislike|throw it out|send it back|withhold (?:my )?approval)(?: (?:of )?(?:it|this|that|them|with it|with that|the [a-z ]+|to it))?|(?:the answer is|it is|i answer|my answer is) (?:a )?no|no|rejected|it is rejected|not approved|not|i am not|i do not|refused)"
_SENT = r"(?:(?:it |this |that |we |you |everything |the [a-z]+ |then |must |should |has to |just |straight |right )*(?:goes|go|is sent|send it|sends it|hand it|kick it|comes|is handed|is passed|passed|gets sent|going|start over|start|starts over|starts|return|returns|returned|returning|send|sends|is returned|gets kicked|kicked|bounces|bounce it)? ?(?:straight |right |all the way |it )?(?:back )?(?:to|with|from|at))"


@rule(
    rf"(?:if|when|in case|should) {_NO} ?,? ?(?:then )?{_SENT} {{A1:to}}(?: (?:it goes|again|for another go|please|with it|for (?:changes|corrections|a rewrite|rework)))?",
    rf"(?:if|when|in case) {_NO} ?,? ?(?:then )?{{A1:to}} (?:(?:then|has to|must|should|needs to|can|gets to|is to) )*(?:revises?|redo(?:es)?|rewrites?|tries|try|reworks?|repeats?|starts?|has|have|goes|go|does|do|corrects?|again|improves?|fix|fixes)(?: .*)?",
    rf"(?:back to|return to) {{A1:to}} if {_NO}",
    r"(?:a )?(?:no|rejection) (?:means|sends it|goes|is|takes us|leads) (?:back )?(?:to )?(?:back to )?{A1:to}",
    rf"(?:otherwise|if not|or else|else) ?,? ?(?:then )?{_SENT} {{A1:to}}(?: (?:it goes|again))?",
    hint=AGENT,
)
def reject(state: State, match: Match) -> bool:
    """`If I reject it, back to the writer`."""
    text = match.phrase.text
    at = state.last("ask", "step", "inside")
    while at is not None and at >= 0 and state.statements[at].kind != "ask":
        at -= 1
    if at is None or at < 0 or at < len(state.statements) - 3:
        return False
    mine = re.search(r"\b(?:i|we|no)\b", text) is not None
    if not mine and at != len(state.statements) - 1:
        return False
    ask = state.statements[at]
    to = who(state, match, "to")[0]
    return state.replace(at, reject_to=to, words=(*ask.words, *match.words))


_QUESTION = r"(?:whether|which|what|who|whom|how|when|where|why|about|if|for|to|about whether|the following|:|–|,|my opinion|is|does|should|may|are)"


@rule(
    rf"(?:please |you |we |then |just |also |always )*(?:ask|asks) {{ME}} {_QUESTION}(?: .+)?",
    r"(?:please |you |we |then |just |also )*(?:ask|asks|check with|checks with|consult|get approval from|show it to|shows it to|check back with|come to|run it by|run it past|clear it with) (?:{ME}|me)(?: (?:first|for (?:my |a |an )?(?:opinion|decision|go-ahead|ok|approval|feedback|permission|confirmation|sign-off)|to (?:approve|decide|confirm|check|sign).*))?",
    rf"(?:please |you |we |then )*{_BLESSED}",
    rf"(?:please |you |we |then )*(?:get|obtain|ask for|wait for|seek) {_MY} {_YES}(?: (?:on|of|for|to) .+)?",
    rf"(?:then |finally )?{_I} (?:(?:will|must|have to|want to|need to|would like to|then|also|always|first|get to) )*(?:approve|sign off on|sign off|ok|okay|decide|choose|pick|confirm|review|check|get to approve|have a look|take a look|have the final say|look at|look over|read|say yes or no|have the last word)(?: (?:it|this|that|on|the|which|whether|what|at|about|over|if|everything|to) ?.*)?",
    r"{ME} (?:decides|approves|signs off|chooses|picks|confirms|has the last word|must approve|has to approve|must decide|has to decide|must sign off)(?: .*)?",
    rf"(?:it|this|that|the [a-z ]+) (?:needs|requires|must have|has to have|has to get|waits for|gets|must get) {_MY} {_YES}(?: first)?",
    rf"(?:then )?(?:my|our) {_YES} is (?:needed|required|asked for|due)(?: .*)?",
    r"(?:let me|have me|let us) (?:approve|decide|check|look|see|review|confirm|choose|pick|have a look|sign off|take a look|know)(?: .*)?",
    single=True,
    hint=PERSON,
)
def ask_here(state: State, match: Match) -> bool:
    """`Ask me whether the tone is right`."""
    text = match.phrase.text
    if (found := re.search(r"(?:ask|asks) .*? if (.+)", text)) is not None and _plain_condition(
        state, found[1]
    ):
        return False
    if re.match(r"(?:i|we) (?:have a|look|read|check|review)", text) and "before" in text:
        return False
    question = state.raw(match.phrase)
    return state.say(Ask(question=question, words=match.words))


def _plain_condition(state: State, text: str) -> bool:
    """Whether `ask me if …` names a case rather than the question."""
    cond = state.condition(text)
    fact = getattr(cond, "of", cond)
    known = {"approved", "rejected", "accepted", "urgent"}
    return getattr(fact, "operator", None) is not None or getattr(fact, "name", "") in known


__all__ = ["RULES", "SINGLE", "apply"]
