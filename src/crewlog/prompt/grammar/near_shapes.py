"""Sentences that speak of the shape of a crew in words that are not read, and what to say instead.

A sentence that all but says that there is a hub, a plan or a stage makes no phases: whoever is told
that it was not understood says it anew, and whoever is told nothing gets another crew than meant.
"""

from __future__ import annotations

import re

HUB = "For a hub, say 'The router sends each message to A, B or C.'"
FALLBACK = "Behind a hub, say 'Anything else goes to the A agent.'"
OFTEN = "Behind a hub, say 'Each of them answers at most once per message.'"
TEAM = "For a plan that agents share, say 'The planner splits the work into steps for A and B.'"
AT_ONCE = (
    "Say 'No more than 4 at a time.'; behind a plan that agents share, 'They carry out their steps, "
    "two at a time.'"
)
POOL = "Behind a plan that agents share, say 'They carry out their steps, two at a time.'"
AGAIN = "Behind such a plan, say 'The reviewer says who must work again, at most 2 times.'"
CHECKS = "Behind such a plan, say 'A and B check the work before the reviewer.'"
STAGES = (
    "For stages, say 'The supervisor decides which of A, B and C begins; they work in this order, "
    "and the responder answers.'"
)
EVERY_HOP = (
    "Say 'After each stage, the supervisor decides which of A, B and C works next, and finally the "
    "responder answers.'"
)
STRATEGY = (
    "Say 'The router chooses between a plan and doing it at once. If a plan is needed, A …; "
    "otherwise B …'"
)
GOAL = (
    "Say 'The judge says whether the goal is reached. If the goal is not reached, back to A, at "
    "most once.'"
)
WINDOW = "Say 'The A sees the last 5 messages.'"
TALK = "Say 'The conversation ends after 30 minutes of silence.'"
CAP = "Say 'The A may call its model at most 8 times; then it goes on with what it has.'"
ARTIFACT = "Say 'The A and the B change the artifact NAME.'"
SHOWN = "Say 'The A sees the request, what the B found and the artifact NAME, and nothing else.'"
MEMORY = "What agents remember beyond a run is said in the definition, under 'memory:'."
NO_MODEL = "Say 'The A runs TOOL without a model.'"
UNREADABLE = "Behind a hub, say 'If the reply cannot be read after 3 tries, A answers.'"
ORDER = "Behind a hub, say 'A answers before B.': its answer counts first."
APOLOGY = "Say 'If an agent fails, the user gets an apology.'"
NOTES = "Notes that are for one agent each are said in the definition, under 'reply: {tagged: …}'."
PLAN_SHOWN = "Say 'I approve the plan first.' behind a plan that agents share."

BLIND = "Say 'The A may not see the B's work.'"
SHOW_ME = "Say 'The A drafts it. Then ask me whether to go on.'"
CLASSES = (
    "For a hub, say 'The router sends each message to A, B or C.'; else 'If it is a bug, the A …'"
)
FIRST = "Say 'First the A works, then the B works.'"
CAST = "Say 'There are three agents: an A, a B and a C.'"

_MESSAGES = (
    r"(?:messages?|questions?|requests?|queries|query|tickets?|enquir(?:y|ies)|inquir(?:y|ies)|"
    r"calls?|emails?|mails?|prompts?|inputs?|callers?|visitors?|guests?|patients?|customers?|"
    r"conversations?|chats?|users?)"
)
_ROUTES = (
    r"(?:sends?|pass(?:es)?|hands?|routes?|forwards?|directs?|dispatch(?:es)?|gives?|assigns?|"
    r"delegates?|relays?|picks?|chooses?|decides?|selects?|determines?|triages?|sorts?|refers?|"
    r"goes|go|gets?|lands?|points?)"
)
_WHO = (
    r"(?:who(?:ever)?|whom|which (?:of (?:them|the \w+|these)|one|agent|specialist|colleague|"
    r"expert|person|department|desk))"
)

STRONG: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(form.replace(".*", ".{0,120}")), near)
    for form, near in [
        (rf"\b{_ROUTES} {_WHO} (?:answers|replies|responds|is to answer|should answer|gets to answer|handles it|takes it|gets it)\b", HUB),
        (rf"\b(?:picks?|chooses?|decides?|selects?|determines?) {_WHO} (?:answers?|handles|takes|gets|deals with|should (?:handle|answer|take)|is (?:right|best|responsible)|fits)\b.*\b{_MESSAGES}\b", HUB),
        (rf"\b(?:each|every|any|an?|all|all of the|the) (?:incoming |new |user |single |user 's )?{_MESSAGES}\b.* or\b.*\b(?:by (?:topic|subject|content)|depending on|according to|whichever|whoever|as fits|as needed|best|right)\b", HUB),
        (rf"\brouter\b.*\b(?:each|every|incoming|all) (?:\w+ )?{_MESSAGES}\b.*\b(?:or|between|among|one of)\b", HUB),
        (r"\b(?:splits?|breaks?|divides?|cuts?|partitions?)\b.*\b(?:into|in|down|up)\b.*\b(?:steps|parts|tasks|pieces|slices|work items|subtasks|packages|chunks)\b[^,;:]{0,30}\b(?:for|among|between|to|over|across) (?!each\b)", TEAM),
        (r"^(?:they|these|those|all of them|the workers)\b.*\b(?:at a time|at once|at any one time|concurrently|side by side)\b", POOL),
        (r"\b(?:says?|decides?|picks?|tells?|determines?|names?|sends? back|returns?)\b.*\b(?:who(?:ever)?|those who|the ones who|which of them)\b.*\b(?:again|once more|redo|redoes|rework|reworks)\b", AGAIN),
        (r"\b(?:decides?|picks?|chooses?|selects?|determines?)(?: on)? (?:the first stage|(?:at |in |with )?(?:a|the|which|what) stage|which of the stages)\b", STAGES),
        (r"\b(?:decides?|picks?|chooses?|selects?|determines?) (?:which of|which|with whom|with which|who)\b[^,;]{0,80}\b(?:begins?|starts|goes first|is first|to begin|to start)\b(?! over).*\bor\b", STAGES),
        (r"\b(?:decides?|picks?|chooses?|selects?|determines?) (?:where|who|with whom|which of them)(?: (?:we|to|it|they|the (?:work|run|request)))? (?:begins?|starts?|enters?|goes first|is first)\b(?! over)", STAGES),
        (r"\bafter (?:each|every) stage\b", EVERY_HOP),
        (r"\b(?:decides?|determines?|judges?|says?) whether\b[^;]{0,80}\bor\b[^;]{0,60}\b(?:should|is to|are to|has to|must|will) (?:answer|handle|take|deal|reply|get|respond|help)\b", HUB),
        (r"^(?:if|when|where|should|whenever) (?:none|nobody|no one|neither|no agent)(?: of (?:them|these|the \w+))? (?:fits?|is suitable|is right|can help|can answer|suits?|matches|is responsible|knows|helps)\b", FALLBACK),
        (rf"\b(?:each|every|all|any|incoming) (?:\w+ )?{_MESSAGES}\b.*\b(?:selects?|picks?|chooses?|decides?|assigns?|routes?|sends?|connects?|transfers?|passes|pass|hands?|forwards?|directs?)\b.*(?:\bor\b|\bone of\b|\bbetween\b|\bspecialists?\b|\bexperts?\b|\bbest\b)", HUB),
        (rf"\b(?:selects?|picks?|chooses?|assigns?|routes?|sends?|connects?|transfers?|passes|pass|hands?|forwards?|directs?) (?:each|every|all|any|incoming) (?:\w+ )?{_MESSAGES}\b.*\bor\b", HUB),
        (rf"\b(?:chooses?|picks?|selects?|assigns?|decides? on) (?:one|an?|the (?:right|best|most \w+)) (?:\w+ )?(?:experts?|specialists?|agents?|colleagues?|departments?|desks?|person)\b.*\b(?:per|for|to) (?:each |every |the |an? )?{_MESSAGES}\b", HUB),
        (r"\bto the (?:right|best|appropriate|proper|suitable|matching|responsible|best fitting) (?:agent|specialist|expert|colleague|one|person|department|team|desk)\b", HUB),
        (r"\b(?:answer|word|reply|opinion)s? (?:counts?|weighs?|matters?|wins?|has priority|takes? precedence|prevails?)\b", ORDER),
        (r"\b(?:each|every) (?:step|task|part|piece)\b.{0,20}\bto (?:whichever|whoever|one of|the right|either|the one)\b", TEAM),
        (r"\b(?:steps|tasks|parts|pieces|packages)\b,? (?:and )?one for each of\b", TEAM),
        (r"\b(?:says?|decides?|picks?|tells?|determines?|names?) (?:what (?:has to|must|needs to) be (?:done again|redone|repeated)|which of the \w+\b.{0,60}\b(?:again|once more)\b)", AGAIN),
        (r"\b(?:starts? (?:with|at|from)|begins? (?:with|at|from)|enters?(?: at| with)?|(?:jumps?|skips?|goes|moves?)(?: straight| right| directly)? to) (?:the )?\w+, (?:the )?\w+ or (?:the )?\w+", STAGES),
        (r"\bdecides? which (?:one )?(?:of them )?(?:comes|runs|works|acts|is) first\b", STAGES),
        (r"\b(?:proposes?|presents?|submits?|suggests?|drafts?|writes?|makes?|draws? up)\b.*\band (?:then )?waits? for (?:my|our|a human's) (?:nod|okay|ok|yes|approval|go-ahead|answer)\b(?! before)", SHOW_ME),
        (r"^(?:they|these|those|the (?:stages|others|rest|agents))\b.*\b(?:in sequence|in (?:this|that|the given|the same) order|one after (?:the other|another)|in turn|one by one)\b", STAGES),
        (r"\b(?:conversation|chat|session|dialogue?)s? (?:\w+ )?(?:ends?|stops?|closes?|is over|is closed|times? out|expires?|finish(?:es)?|hangs? up)\b", TALK),
        (r"\b(?:last|newest|latest|most recent|previous|recent) (?:\w+ )?(?:messages|turns|exchanges|lines of the (?:chat|conversation))\b", WINDOW),
        (r"\b(?:calls?|asks?|queries|query) (?:its|their|the language) models?\b", CAP),
        (r"\bmodel calls\b", CAP),
        (r"\bonly (?:the )?(?:one|ones|agent|agents|stage) (?:it|they) (?:is|are) (?:meant )?for\b|\beach (?:piece|note|part|item) for (?:the |one )", NOTES),
        (r"\b(?:can ?not|could not|is not|are not) be (?:read|parsed|understood)\b|\b(?:un(?:readable|parseable|usable)|garbage|gibberish|malformed)\b.*\b(?:reply|replies|answers?|output|choice|decision|tries|attempts)\b", UNREADABLE),
        (r"\b(?:crew|team|everyone|they|agents?|system) (?:can |may |should |must |will )?(?:remembers?|memori[sz]es?|forgets?)\b|\bremembered (?:for|beyond|across|between)\b", MEMORY),
    ]
)  # fmt: skip
"""Words that all but say a shape, in a marked sentence, and a sentence that is read."""

WEAK: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(form, re.IGNORECASE), near)
    for form, near in [
        (r"\b(?:\d+|one|two|three|four|five|six|several|a few) (?:(?:of them )?at (?:a time|once|the same time)|by (?:two|three|four))\b|\b(?:two by two|pairwise)\b", AT_ONCE),
        (r"\b(?:two|three|four|five|six|\d+) (?:of them )?in parallel\b", AT_ONCE),
        (r"\b(?:sends?|passes|pass|hands?|routes?|forwards?|directs?|gives?|assigns?|transfers?|connects?|refers?|delegates?)\b[^.;]{0,60}\b(?:to|with|between|among)\b[^.;]{0,60} or\b", HUB),
        (r"\bdecides? which of (?:the|them)\b", HUB),
        (r"\b(?:sort|class|categori|triage)\w*\b[^.;]{0,60}\binto\b[^.;]{0,60}\b(?:and|or)\b", CLASSES),
        (r"\bmay (?:also |only |both )?(?:touch|change|edit|alter|modify|write to|work on) (?:the|a|this|that)\b", ARTIFACT),
        (r"\b(?:shares?|holds?|has|have|in) (?:a|one|the same) (?:conversation|chat)\b", TALK),
        (r"\bremembers?\b|\bmemori[sz]es?\b", MEMORY),
        (r"^(?:the|our|my) (?:agents|stages|experts|specialists|options|workers|members) are\b", CAST),
        (r"^(?:(?:we have|there (?:is|are)|our [\w ]{1,30} has) [\w ,]{0,40}\b(?:and|,) (?:two|three|four|five|\d+) \w+s\b|our [\w ]{1,30} has an? \w+$)", CAST), (r"\b(?:names?|picks?|says?|chooses?) (?:the |an? |who\w* )?\w+ (?:of|for) each\b", TEAM),
        (r"\b(?:never|not|nothing|cannot|can't) (?:\w+ )?(?:sees?|reads?|looks? at|shown|learns? of|told)\b|\b(?:sees?|reads?|learns?) nothing\b", BLIND),
        (r"\b(?:calls?|invokes?|triggers?) (?:the )?\w+,? (?:and )?then\b", FIRST),
        (r"\b(?:whoever|those who|the ones who)\b[^.]{0,60}\b(?:again|redo|rework|over|wrong|failed|fail)\b", AGAIN),
        (r"\bwithout (?:a|any|using a|using any) (?:language )?model\b|\bno (?:language )?model\b|\bmodel-free\b", NO_MODEL),
        (r"\b(?:for|in|to|across|between|beyond) (?:later|future|the next|other|all|several|this) (?:conversations?|sessions?|runs?|chats?)\b|\blong-term memory\b", MEMORY),
        (r"\b(?:between|whether)\b[^.]{0,60}\bplan\b[^.]{0,60}\b(?:at once|directly|right away|straight away|immediately|in one go|itself)\b", STRATEGY),
        (r"\b(?:whether|if)\b[^.]{0,40}\bgoals?\b[^.]{0,30}\b(?:reached|met|achieved|attained|fulfilled|done)\b|\bhow (?:sure|certain|confident) (?:it|she|he|they)\b", GOAL),
        (r"\b(?:the )?artifact\b", ARTIFACT),
        (r"\b(?:sees?|is shown|are shown|gets to see|get to see|looks at)\b[^.]{0,80}\b(?:nothing (?:else|more|but)|only|just|solely|merely|exclusively)\b|\b(?:sees?|is shown|are shown|works? with|is given) (?:only|just|solely|merely|exclusively|nothing but)\b", SHOWN),
        (r"\bonly (?:the )?(?:one|ones|agent|agents) (?:it|they) (?:is|are) (?:for|meant for)\b|\beach (?:piece|note|part|item) for\b", NOTES),
        (r"\b(?:fails?|goes wrong|error)\b[^.]{0,40}\b(?:apolog|sorry)", APOLOGY),
        (r"\b(?:last|newest|latest|most recent) (?:\d+|two|three|four|five|six|ten|twenty|few) (?:messages|turns|exchanges)\b", WINDOW),
        (r"\b(?:each|every) (?:incoming |new )?(?:message|question|request|query|ticket|enquiry)\b[^.]{0,80} or\b", HUB),
    ]
)  # fmt: skip
"""Words in what an agent is told that may have been meant as a rule about the crew's shape."""

_BEHIND: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:anything|everything|all|whatever|what)\b.*\b(?:else|rest|nobody|no one|none)\b"), FALLBACK),
    (re.compile(r"^(?:each|every one|all|none) of them\b.*\b(?:once|twice|times)\b"), OFTEN),
    (re.compile(r"\bchecks?\b.*\b(?:work|it|them|results?)\b"), CHECKS),
    (re.compile(r"\banswers? before\b|\bprefer\b|\bcounts? (?:first|before|more)\b"), ORDER),
    (re.compile(r"\b(?:approve|agree to|ok|okay|confirm|see|show me) the plan\b"), PLAN_SHOWN),
    (re.compile(r"\bsilence|idle|inactiv|quiet\b|\b(?:talk|chat|conversation)\b.*\b(?:after|minutes|hours)\b"), TALK),
    (re.compile(r"\bremember|memor(?:y|ies)\b"), MEMORY),
    (re.compile(r"\bapolog|\bsorry\b"), APOLOGY),
    (re.compile(r"\bin (?:this|that) order\b"), STAGES),
    (re.compile(r"\bgoal\b"), GOAL),
)  # fmt: skip


_NAMELESS = re.compile(
    r"(?:,|\bor|\band|\bto|\bof)\s+(anyone|anybody|everyone|everybody|someone|somebody|nobody|"
    r"(?:the )?others?|(?:the )?rest|whoever|people|it|them)\b(?= ?(?:$|[,;.]))"
)


def nameless(said: str) -> str:
    """The word in a list that is no name of an agent: `books, fines or anyone`; empty for none."""
    found = _NAMELESS.search(said)
    return found[1] if found else ""


def nearly(said: str) -> str:
    """What to say for words, in small letters, that all but say a shape; empty for all others."""
    return next((near for form, near in STRONG if form.search(said)), "")


def near(said: str) -> str:
    """What may have been meant by words that were not understood; empty where nothing is near."""
    return nearly(said) or next((hint for form, hint in _BEHIND if form.search(said)), "")
