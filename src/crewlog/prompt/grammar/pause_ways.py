"""The ways to speak of a wait: a duration stands as `¤0`, a time as `§0`, what says neither as `¥0`."""

from __future__ import annotations

import re

from crewlog.prompt.grammar.lexicon import word_set

SPEAKS = re.compile(
    r"\b(?:sec|secs|seconds?|min|mins|minutes?|hours?|hrs?|days?|weeks?|fortnights?|months?|years?|"
    r"while|bit|moment|[0-9.,]+(?:s|sec|min|m|h|hr|hrs|d)|[0-9]{4}(?:-[0-9]{2}-[0-9]{2}\w*)?|"
    r"(?:waits?|pauses?|holds?|sleeps?|nothing|nobody|no one)\b.* (?:until|till|before|for)|"
    r"(?:at|from|before) (?:[0-9]{1,2}|noon|midnight|midday))\b"
)
"""Whether a sentence may speak of a wait at all."""

ENDS = frozenset(
    [
        *("", ",", ";", ":", "–", "(", ")", "->", "and", "but", "then", "before", "if", "unless"),
        *("when", "once", "otherwise", "or", "so", "after", "in", "as"),
    ]
)
"""What may follow a wait."""
AFTERWARDS = frozenset(["", ",", ";", ":", "–", "(", ")", "->", "and", "but", "then", "or"])
"""What may follow words that stand behind their clause."""
OPENS = frozenset(
    [
        *("", ",", ";", ":", "–", "(", ")", "->", "and", "but", "then", "next", "so", "finally"),
        *("first", "meanwhile", "afterwards", "that", "otherwise", "else", "now", "also", "just"),
        *("please", "or", "lastly", "only", "later", "again", "parallel", "time", "case", "not"),
    ]
)
"""What may stand before words that open a clause."""
NOT_OF = word_set("of in on for per at from with without to each every ago old long or a an")
"""What makes another thing of `after two hours`: `of silence`."""
STOPPING = word_set(
    "stop stops give gives fail fails abort aborts end ends quit quits expire expires"
)
"""Who stops after two hours waits for nothing."""
RIGHTS = word_set("may can cannot could might must never only nobody no allowed permitted not")
"""What makes a rule of a clause: it holds throughout, and not after a time."""
IF = re.compile(r"(?:(?<= )|^)(?:if|unless|in case|should (?=@|the |it |they )) ?.*$")
"""The condition at the end of some words."""
LATE = re.compile(r"(?:^| )(?:not|unless)(?: |$)")
AND_DOES = re.compile(
    r"(?: ,)? (?:and only then|and then|and|then|before (?:it|he|she|they)) (?=[a-z$])(?!the |it |then )"
)
"""What leads from an agent's wait to its work."""

_AUX = (
    r"(?:(?:then|should|must|will|shall|has to|have to|need to|needs to|just|simply|can|first|now|"
    r"all|both|also|again|is to|are to|do|only|please|next) )*"
)
_SUBJECT = (
    r"(?:(?:let us|we|you|everyone|everybody|all of them|they|both|the crew|the whole crew|the run|"
    r"the whole run|it|the process|everything) )?"
)
_WAIT = r"(?:waits?|pauses?|holds? on|holds? off|holds?|sleeps?|rests?|stands? by|idles?)"
_BREAK = r"(?:pause|break|wait|delay|rest|gap|interval|waiting time)"
_PASSED = (
    r"(?:(?:have|has) (?:passed|gone by|elapsed|gone)|(?:are|is) (?:over|up|gone))"
    r"(?: (?:already|first))?"
)
_D, _T = r"(?P<time>¤[0-9]+)", r"(?P<time>§[0-9]+)"
_WHO = r"(?P<who>@[0-9]+(?: (?:, and|,|and) @[0-9]+){0,20})"
_MAYBE_WHO = rf"(?:{_WHO} )?"
_FOR_D = (
    rf"(?:for )?(?:(?:another|a|the|a further|exactly|at least|up) )*{_D}"
    r"(?: (?:long|more|longer|first|there|here|in between))?"
)
_BOUND = (
    r"(?:for )?(?:at most|at the most|at the very most|no longer than|not longer than|no more than|"
    r"not more than|up to|a maximum of|max|maximally)"
)
_THAT = r"(?: for (?:that|it|this|them|these))?"
_NOT_BEFORE = (
    r"(?:not before|no earlier than|not earlier than|no sooner than|not until|only after|only from)"
)
_GOES_ON = (
    r"before (?:(?:we|you|it|the crew|the run|everyone) )?(?:going on|go on|goes on|continuing|"
    r"continues?|moving on|moves? on|proceeding|proceeds?|carrying on|carry on|carries on|"
    r"the next steps?)(?= (?:,|;|and|$)|$)"
)
_THERE_IS = (
    r"(?:then|there|is|comes|follows|make|makes|take|takes|insert|add|have|put in|leave|leaves|we|"
    r"you|with|let there be)"
)
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
)
_HALF = r"(?:am|pm|a\.m|p\.m)"
_OF_DAY = (
    rf"(?:[0-9]{{1,2}}(?: : [0-9]{{2}}){{1,2}}(?: {_HALF})?|[0-9]{{1,2}} ?(?:{_HALF}|o'clock)|"
    r"[0-9]{1,2}\.[0-9]{2}|noon|midnight|midday)(?: (?:utc|gmt|cet|cest|est|pst))?"
)
_SOME_DAY = (
    rf"(?:{_OF_DAY}|[0-9]{{1,2}}(?:st|nd|rd|th)? {_MONTH}|{_MONTH} [0-9]{{1,2}}(?:st|nd|rd|th)?|"
    r"tomorrow|tonight|morning|afternoon|evening|night|dawn|dusk|sunrise|sunset|weekend|week|month|"
    r"year|day|quarter|hour|monday|tuesday|wednesday|thursday|friday|saturday|sunday|christmas|"
    rf"easter|lunch|lunchtime|dinner|{_MONTH}|spring|summer|autumn|winter)"
)
_SOMETIME = (
    r"(?:(?:at|about|around|exactly|the|next|this|on|early|late|it is|half past|quarter past) )*"
    rf"{_SOME_DAY}(?: (?:morning|afternoon|evening|night|at {_OF_DAY}|local time|sharp)){{0,3}}"
)


def _way(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^ ])(?:{text})(?= |$)")


AGENT_BOUND = _way(rf"(?:but )?(?P<who>@[0-9]+|it|he|she) {_AUX}waits?{_THAT} {_BOUND} {_D}{_THAT}")
"""`The painter waits for that at most two hours`."""
CONDITION_BOUND = _way(
    rf"(?:(?P<sure>within) (?:the next |at most )?|after |in |for ){_D}(?: at most| at the latest)?"
)
"""`… are not ready within two hours`."""
DEADLINE = _way(r"(?:by|before|until) §[0-9]+|(?:within|after|in) ¥[0-9]+")
"""`… are not ready by 2026-12-01`, `… within a few minutes`."""
WAITS = (
    _way(rf"{_SUBJECT}{_AUX}{_WAIT} {_FOR_D}(?: {_GOES_ON})?"),
    _way(rf"(?:{_THERE_IS} )*(?:(?:a|another|the) )?{_BREAK} of {_D}"),
    _way(rf"(?:{_THERE_IS} )+(?:(?:a|another|the) )?{_D} {_BREAK}"),
    _way(rf"(?:let|allow|leave|give it) (?:another )?{_D}(?: (?:to )?(?:pass|go by|elapse))?"),
    _way(rf"(?:another )?{_D} (?:pass|passes|go by|goes by|elapse)(?: first)?"),
    _way(rf"{_SUBJECT}{_AUX}{_WAIT} (?:until|till|for|up to) {_T}"),
    _way(rf"(?:until|till) {_T} (?:, )?{_SUBJECT}{_AUX}{_WAIT}"),
    _way(
        r"(?:nothing|nobody|no one) (?:else )?(?:happens|starts|works|moves|runs|is done|goes on) "
        rf"(?:until|till|before) {_T}"
    ),
)
"""`Wait two hours`, `a pause of two hours`, `wait until 2026-12-01 09:00 UTC`."""
AGENT_WAITS = (
    _way(rf"{_WHO} {_AUX}{_WAIT} {_FOR_D}"),
    _way(rf"{_WHO} {_AUX}{_WAIT} (?:until|till|for) {_T}"),
)
"""`The publisher waits two hours`."""
SINCE = re.compile(
    rf"(?<![^ ]){_D} after(?= (?:@[0-9]|both|all|they|the [a-z]+ (?:is|are|has|have)))"
)
"""`Two hours after the writer finishes`."""
AFTER = _way(
    r"(?:exactly |only )?after (?:(?:another|a further|the|waiting|waiting for|"
    rf"a {_BREAK} of|a) )*{_D}(?: {_BREAK})?(?: {_PASSED})?(?: of waiting)?(?: at the earliest)?"
)
LEADS = (
    _way(rf"(?:another )?{_D} (?:later on|later|afterwards|after that|after this|after which)"),
    _way(rf"(?:once|when|as soon as) (?:another |the )?{_D} {_PASSED}"),
    _way(rf"with a (?:further )?{_BREAK} of {_D}"),
    _way(rf"(?:but )?{_NOT_BEFORE} {_T}"),
)
"""`After two hours, …`, `… two hours later`."""
STARTS = _way(
    rf"{_WHO} {_AUX}(?:starts?|begins?|goes|go|runs?|acts?|continues?|comes? in|takes over|"
    r"(?:is|are) to start)(?: (?:work|working|only|to work|its work|right|exactly))* "
    rf"(?:at|on|from|only on|only at|{_NOT_BEFORE}) {_T}"
)
"""`The publisher starts at 2026-12-01 09:00 UTC`."""
FRONTED = (
    _way(
        r"(?:at|on|from|as of|as from|only on|only at|once it is|when it is|after|"
        rf"{_NOT_BEFORE}) {_T}(?: at the earliest| or later)?"
    ),
    _way(rf"in {_D}"),
)
"""`On 1 December 2026 at 9:00 UTC the publisher …`, `in two hours, …`."""
UNCLEAR = (
    re.compile(
        rf"(?<![^ ]){_MAYBE_WHO}{_SUBJECT}{_AUX}{_WAIT} (?:until |till |for |about |around |roughly |"
        r"at most |up to |no longer than |exactly |another |some )*[¤§¥][0-9]+[^,;:()]{0,200}?"
        r"(?= (?:,|;|:|\)|and @|then )|$)"
    ),
    re.compile(
        rf"(?<![^ ]){_MAYBE_WHO}{_SUBJECT}{_AUX}(?:{_WAIT}|(?:nothing|nobody) (?:happens|starts)) "
        rf"(?:until|till|before) {_SOMETIME}(?= (?:,|;|:|\)|and|then|before|the)|$)"
    ),
)
"""`Wait until tomorrow`, `wait a few minutes`, `wait two hours for the editor`."""
UNCLEAR_LEADS = (
    _way(r"after (?:another )?¥[0-9]+|¥[0-9]+ later|(?:on|at) ¥[0-9]+"),
    _way(
        rf"(?:at|from|not before|by) (?:exactly |about |around )?{_OF_DAY}"
        r"(?: (?:tomorrow|sharp|local time|on [a-z]+day)){0,3}"
    ),
)
"""`At 9:00, …`, `after two months …`."""
