"""Circumstances that a clause may stand under and that nobody decides: `on Fridays`, `in winter`.

No flag of a run says whether they hold. A clause behind one of them makes no phase, and its words
are reported: without its circumstance it would be carried out always.
"""

from __future__ import annotations

import re

_DAYS = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun|week|birth|work|rainy |sunny |holi|bad |busy )days?|weekends?|holidays|full moons?)"
_SEASONS = (
    r"(?:winter|summer|spring|autumn|january|february|march|april|may|june|july|august|september|"
    r"october|november|december|emergencies|an emergency|bad weather|good weather)"
)

CIRCUMSTANCE = re.compile(
    r"(?:(?:but|only|just|even|and|except|then) )*"
    r"(?:in (?:the )?(?:unlikely |rare )?(?:case|event)s?(?: of| that)?\b(?! you)|in (?:rare|some|most|urgent|such|exceptional|certain|difficult|hard|simple|easy) cases\b|"
    rf"in {_SEASONS}\b|on (?:\w+ )?{_DAYS}\b|"
    r"at (?:night|christmas|easter|weekends?|the weekend)\b|before (?:christmas|easter|lunch|noon|midnight)\b|"
    r"(?:(?:so|as) )?long as\b|on (?:the )?condition\b|given (?:that|enough|good|more|sufficient|the right|a good)\b|depending on\b|subject to\b|"
    r"during\b|(?:except|other than|apart from) (?:on|in|at|for|when|if|during)\b|suppos(?:e|ing)\b|assuming\b|"
    r"(?:where|wherever)\b|\w+ (?:permitting|allowing|willing)\b|under (?:pressure|stress|certain|these|such|some)\b|"
    r"for (?:long|longer|short|shorter|big|bigger|large|larger|small|smaller|urgent|important|difficult|hard|simple|easy|legal|technical|complex|critical|rare) )",
)
"""What a clause may begin with."""
WHEN = re.compile(r"(?:but |only |just |and )*(?:when|whenever|once|until|till|as soon as)\b")
"""What else is such a circumstance, where it was not understood as a condition."""
