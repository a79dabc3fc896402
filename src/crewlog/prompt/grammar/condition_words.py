"""The words of conditions by class, and how verbs inflect.

Everything here is data: what a word can be in a condition. `conditions` puts them together.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from crewlog.prompt.grammar.lexicon import ROLES, THINGS, VERBS, word_set

Operator = Literal["==", "!=", ">=", "<=", ">", "<"]


def pairs(text: str) -> dict[str, str]:
    """Pairs of words, with `;` between them."""
    return {pair.split()[0]: pair.split()[1] for pair in text.split(";")}


# -- small words -----------------------------------------------------------------------------------

BE = word_set("is are was were be been being am")
HAVE = word_set("has have had having")
DO = word_set("does do did")
WILL = word_set("can could will would may might shall should")
"""Auxiliaries that leave a condition as it is: `cannot be reproduced`, `should it fail`."""
AUXILIARIES = BE | HAVE | DO | WILL
NEGATIONS = word_set("not never neither hardly")
FILLERS = word_set("""
all both each now still finally already really yet been fully completely being quite actually
clearly simply just only even indeed obviously definitely truly entirely totally very pretty
absolutely perfectly again also eventually ever always currently then therefore explicitly
unanimously altogether apparently together once consistently successfully
""")
"""Words that say nothing about what is so."""
DETERMINERS = word_set("""
the a an its his her their our your my this that these those any some every each all both enough
another either
""")
PRONOUNS = word_set("it this that everything all they these those them anything something")
MANY = word_set("they these those them")
OTHERS = word_set("""
i me we us you who whom whose which what whoever whatever how why where because since if unless when
while although though so and or but nor before after until till once
""")
"""Words that are in no condition of one clause, save where a construction asks for them."""
PREPOSITIONS = word_set("""
with for in on of to from at by within under over against about into between without off out up
across per through than as above below beyond
""")
TIME = word_set("""
christmas easter thanksgiving halloween midnight noon midday morning afternoon evening night today
tomorrow tonight yesterday monday tuesday wednesday thursday friday saturday sunday january february
march april may june july august september october november december spring summer autumn fall
winter weekend week month quarter year day hour minute second moment deadline lunch dinner breakfast
lunchtime dawn dusk sunrise sunset forever now then later launch time dark
""")
"""Times: `until Christmas` waits for no fact."""
TAILS = tuple(
    tuple(text.split())
    for text in (
        *("yet", "at all", "now", "too", "after all", "this time", "then", "anymore", "any more"),
        *("about it", "either", "for now", "already", "as well", "again", "so far", "by then"),
        *("in the end", "at last", "instead", "anyway", "there and then", "in full", "of all"),
        *("for any reason", "for some reason", "as a result", "in any way", "once more", "or not"),
        *("each other", "one another", "with each other", "with one another"),
        *("twice", "in any event", "to date", "if at all", "as expected"),
        *("at this point", "at that point", "by now", "on the whole", "overall", "afterwards"),
        *("with it", "with them", "with that", "with this", "with the result", "to it", "of it"),
        *(
            "in it",
            "in them",
            "of them",
            "on it",
            "for it",
            "for that",
            "with everything",
            "by far",
        ),
    )
)
"""What may stand behind a condition and says nothing."""
OPENINGS = tuple(
    tuple(text.split())
    for text in (
        *("it turns out that", "it turns out", "it turned out that", "it so happens that"),
        *(
            "it happens that",
            "it is true that",
            "it is the case that",
            "that",
            "but",
            "and",
            "then",
        ),
        *("only", "it is clear that", "it is certain that", "we find that", "we see that", "if"),
        *("we know that", "it becomes clear that", "it is established that", "also", "by chance"),
    )
)
"""What may stand before a condition and says nothing."""
IDIOMS = frozenset(
    [
        ("done", "dusted"),
        ("health", "safety"),
        ("profit", "loss"),
        ("pros", "cons"),
        ("research", "development"),
        ("safe", "sound"),
        ("terms", "conditions"),
        ("up", "running"),
    ]
)
"""Words around an `and` that are one thing."""

# -- what things are -------------------------------------------------------------------------------

CONFIDENT = word_set("confident sure certain")
"""States with a degree: `is less than 60 % confident`."""
CHOICES = word_set("""
kind type priority category severity status urgency language topic verdict level class mood tone
sentiment sort label stage region risk intent outcome result decision answer department rating size
colour color format channel genre impact conclusion state complexity difficulty classification
importance recommendation diagnosis
""")
"""Nouns of which one says which: `the priority is high`."""
JUDGEMENTS = word_set(
    "verdict decision answer review assessment judgement judgment vote opinion reply"
)
"""Things that say what their owner decided: `the judge's verdict`."""
COUNTS = word_set("number count quantity amount total share percentage proportion rate")
"""Heads that count what follows: `the number of errors`."""
STATES = word_set("""
ready complete done finished ok okay available clean clear valid correct right wrong safe green red
gone closed open sanctioned angry urgent harmless trivial hopeless final late early full empty
missing broken signed paid confirmed sure unsure accepted verified resolved solved fixed stable good
bad high low plausible sound legal critical happy satisfied pleased content convinced fine confident
unhappy dissatisfied malicious helped experienced perfect poor weak strong true false new old long
short big small large fast slow easy hard simple complex sensitive secret public private unclear
uncertain obvious relevant irrelevant possible impossible necessary unnecessary sufficient enough
adequate acceptable better worse best worst unchanged inconsistent consistent compliant clear-cut
positive negative neutral up down over in out back there live online offline on off stuck dead
alive healthy sick busy free cheap expensive nice tidy neat serious severe minor major
overdue due certain alright fair dangerous risky suspicious intact secure vulnerable unusual normal
duplicate incomplete unfinished unready unsafe invalid incorrect unavailable inaccurate accurate
outdated current exact identical different equal same alike satisfactory unsatisfactory doubtful
readable unreadable legible ambiguous contradictory spotless flawless faulty defective ripe mature
reproducible feasible viable doable shippable spam blank fresh stale tasty bland dull boring funny
""")
"""Words that a thing is; a word alone is a condition if it is one of these or ends like them."""
ATTRIBUTES = ("al", "ous", "ive", "ful", "less", "ic", "able", "ible", "ary", "ual")
"""Endings of words before which no verb stands: `the usual suspects`."""
ADJECTIVE_ENDINGS = ("ful", "less", "ous", "ive", "able", "ible", "ic", "ish", "ed", "ant", "ent")
VAGUE = word_set("""
possible necessary needed any so appropriate applicable desired required relevant useful helpful
wanted feasible practical asked told not sensible suitable reasonable
""")
"""What is said of no thing and decided by nobody: `if possible`."""
SAYS_SO = word_set("yes ok okay fine")
CONSENT = word_set("""
approval ok okay consent blessing pass all-clear yes go-ahead thumbs-up green-light permission nod
assent sign-off
agreement
""")

# -- verbs -----------------------------------------------------------------------------------------

VERB_ENDINGS = ("ises", "izes", "ifies", "inates", "ulates", "erates")
"""Endings of verbs that are no nouns."""
PLACES = word_set(
    "order place time doubt scope budget track hold date risk sync stock line control"
)
"""What a thing can be `in`, `on`, `out of` or `under` by itself: `if in doubt`."""
DECISIONS = pairs("""
approve approved; reject rejected; accept accepted; decline declined; refuse refused; confirm
confirmed; agree agreed; object objected; pass passed; veto vetoed; endorse endorsed; dismiss
dismissed; authorise authorised; authorize authorized; disagree disagreed; disapprove disapproved;
okay approved; greenlight approved; ratify ratified; sanction sanctioned; clear cleared; consent
consented
""")
"""What deciders do, and the flag that says they did."""
PHRASAL = {
    (verb, particle): flag
    for verb, particle, flag in map(
        str.split,
        (
            "sign off signed_off",
            "turn down turned_down",
            "throw out thrown_out",
            "wave through approved",
            "knock back rejected",
            "send back sent_back",
            "strike down rejected",
        ),
    )
}
"""Decisions of two words, whose object may stand between these."""
PASSIVE_ONLY = word_set("sanctioned cleared passed confirmed")
"""Participles that are decisions of agents, and else what a thing is: `a name is sanctioned`."""
SAYS = word_set("""
say think find decide conclude believe report confirm judge see notice agree declare consider feel
deem reckon determine establish state announce claim signal indicate note verify warn discover
realise realize learn assume suspect estimate hold observe rule admit know
""")
"""Verbs of which a clause says what: `the checker thinks that it is urgent`."""
SURE = word_set("sure certain convinced confident satisfied happy positive adamant aware clear")
"""States of which a clause says what: `the checker is sure that the facts hold`."""
CALLS = word_set("""
call label tag mark flag classify categorise categorize rate rank judge deem consider find declare
score grade think see assess identify recognise recognize treat file believe make
""")
"""Verbs that say of something what it is: `classifies it as a bug`, `finds it too long`."""
SCORES = pairs("""
rate rating; score score; grade grade; rank rank; cost cost; weigh weight; last duration
""")
"""Verbs with a number, and what the number is called."""
FINDS = word_set("find see spot notice detect discover identify uncover encounter hit")
ASSIGNS = word_set("give assign award set put grant mark rate score")
"""Verbs that say which one something is, or how much."""
HAS = word_set(
    "have contain show get receive achieve reach score give raise voice express carry obtain"
)
"""Verbs whose object is what there is: `it contains errors`, `gets a score of 5`."""
LINKS = word_set(
    "seem look sound feel stay remain become get prove appear turn come end keep go test"
)
"""Verbs that stand for `is`, some with a word behind: `turns out`, `comes back`."""
LINK_PARTICLES = word_set("out back up in")
MOVES = word_set("""
fall drop rise climb sink dip lie sit stand average hover come go stay remain turn get amount grow
end increase decrease jump run switch change move shift
""")
"""Verbs of numbers: `falls below 0.8`."""
LIMITS: dict[str, Operator] = {
    **dict.fromkeys(word_set("exceed surpass top beat pass outstrip"), ">"),
    **dict.fromkeys(word_set("reach hit attain achieve meet"), ">="),
    **dict.fromkeys(word_set("equal"), "=="),
    **dict.fromkeys(word_set("miss"), "<"),
}
"""Verbs that compare with the number behind them."""
TO = word_set(
    "manage happen continue seem appear prove tend start begin need turn go able used come"
)
"""Verbs of which another verb says what: `manages to pass`."""
HAPPENS = word_set("""
pass fail hold match differ agree work balance overlap converge compile run break crash exist apply
fit add look conflict contradict diverge correspond coincide tally reconcile square vary suffice
check succeed deviate disagree align respond react complain answer object remain occur recur
help make sense stand concur render parse validate build lint lack mismatch leak clash collide
regress flake degrade cancel insist protest qualify comply belong matter count
""")
"""Verbs of things; they are called the same in every tense: `the tests have passed`."""
CHANGES = word_set("""
close open end start arrive finish complete load merge expire deploy change stop improve drop
deteriorate worsen vanish disappear return recover stabilise stabilize settle clear land
""")
"""Verbs whose end is a state: the deal closes, has closed and is closed."""
MORE_VERBS = word_set("""
want need contain include mention require lack cause exceed surpass attain reach beat top miss sign
throw turn rise fall sink dip climb drop sit lie hover average cost weigh last believe
suspect realise realize reckon deem endorse dismiss veto decline refuse object ratify authorise
authorize okay greenlight disapprove consent sanction detect discover uncover encounter spot
voice express raise obtain achieve receive grow increase decrease jump look sound seem appear remain
stay become prove feel keep manage happen tend continue begin leave lose win cite understand know
like dislike prefer love hate trust doubt worry escape violate breach infringe satisfy meet
fulfil fulfill cover hurt breathe wave knock strike assume admit hear depend rely smell taste
equal amount outstrip award opt concern involve affect mention imply suggest show prefer refer
regard say hold rank sort treat
""")
_IRREGULAR = """
be was been/hold held held/break broke broken/go went gone/come came come/find found found/say said
said/think thought thought/give gave given/get got got/fall fell fallen/rise rose risen/write wrote
written/make made made/send sent sent/build built built/run ran run/win won won/lose lost lost/meet
met met/fit fit fit/cut cut cut/set set set/put put put/hit hit hit/beat beat beaten/cost cost cost/
read read read/feel felt felt/keep kept kept/leave left left/take took taken/see saw seen/know knew
known/show showed shown/bring brought brought/buy bought bought/do did done/have had had/throw threw
thrown/stand stood stood/stick stuck stuck/tell told told/understand understood understood/
mean meant meant/pay paid paid/lead led led/choose chose chosen/draw drew drawn/drive drove
driven/begin began
begun/sell sold sold/grow grew grown/sink sank sunk/strike struck struck/hear heard heard/lie lay
lain/sit sat sat/become became become/deal dealt dealt/hurt hurt hurt/shut shut shut/speak spoke
spoken/teach taught taught/redo redid redone/withdraw withdrew withdrawn/split split split/fly flew
flown/freeze froze frozen/let let let/catch caught caught/wear wore worn/lay laid laid
"""
_DOUBLED = word_set("submit commit permit refer occur transfer recur concur regret format")
_VOWELS = "aeiou"


def third(verb: str) -> str:
    """`pass` as `passes`."""
    if verb in {"be", "have"}:
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else f"{verb}s"


def _stem(verb: str) -> str:
    """The verb as endings that begin with a vowel follow it: `stopp`."""
    short = len(verb) <= 4 and sum(c in _VOWELS for c in verb) == 1
    ends = verb[-2:-1] in _VOWELS and verb[-1] not in f"{_VOWELS}wxy"
    return verb + verb[-1] if ends and (short or verb in _DOUBLED) else verb


def past(verb: str) -> str:
    """`close` as `closed`, of regular verbs."""
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ied"
    return f"{_stem(verb)}ed"


def _ing(verb: str) -> str:
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    ends = verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be"
    return f"{verb[:-1] if ends else _stem(verb)}ing"


class Verb(NamedTuple):
    """A word as a form of a verb."""

    base: str
    form: Literal["base", "third", "past", "ing"]


def _inflected() -> dict[str, Verb]:
    out: dict[str, Verb] = {}
    irregular = {line.split()[0]: line.split()[1:] for line in _IRREGULAR.split("/")}
    others = SAYS | CALLS | FINDS | HAS | LINKS | MOVES | ASSIGNS | set(LIMITS) | set(SCORES)
    verbs = sorted(
        others | VERBS | MORE_VERBS | HAPPENS | CHANGES | set(DECISIONS) | set(irregular)
    )
    for verb in verbs:
        for form in irregular.get(verb, (past(verb),)):
            out.setdefault(form, Verb(verb, "past"))
        if verb.endswith(("el", "al")):
            out[f"{verb}led"], out[f"{verb}ling"] = Verb(verb, "past"), Verb(verb, "ing")
        out[third(verb)] = Verb(verb, "third")
        out[_ing(verb)] = Verb(verb, "ing")
    for verb in verbs:
        out[verb] = Verb(verb, "base")
    return out


INFLECTED = _inflected()
PARTICIPLES = {
    line.split()[0]: line.split()[2] for line in _IRREGULAR.split("/") if len(line.split()) > 2
}


def participle(verb: str) -> str:
    """`break` as `broken`, `close` as `closed`."""
    return PARTICIPLES.get(verb) or past(verb)


def noun(word: str) -> bool:
    """Whether a word that could be a verb is rather a noun: `the status reports`."""
    return word in THINGS or word in ROLES


# -- comparisons -----------------------------------------------------------------------------------

LONG = word_set("shorter longer")
LESS = word_set("below under beneath less lower smaller fewer worse shorter weaker <")
MORE = word_set("above over more higher greater larger bigger beyond better past longer stronger >")
OPERATORS: dict[tuple[str, ...], Operator] = {
    tuple(phrase.split()): sign
    for sign, phrases in cast(
        "dict[Operator, str]",
        {
            ">=": (
                "at least/a minimum of/at or above/>=/minimum/equal to or above/at the "
                "very least/at the least/no worse/at minimum/on or above"
            ),
            "<=": ("at most/up to/a maximum of/at or below/<=/equal to or below"),
            "<": ("short of"),
            "==": ("=/==/exactly/equal to/equals"),
            "!=": ("!=/not equal to"),
        },
    ).items()
    for phrase in phrases.split("/")
}
"""What stands before a number; `below` and its like are `LESS` and `MORE`."""
OPPOSITE: dict[str, Operator] = {"<": ">=", ">": "<="}
OR_MORE = word_set("more better higher above up greater over upwards bigger larger")
OR_LESS = word_set("less lower fewer worse below under smaller")
PERCENT = word_set("% percent")
FRACTIONS = {"half": 0.5, "quarters": 0.25, "thirds": 1 / 3, "quarter": 0.25}
TENS = {
    word: 10 * number
    for number, word in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2
    )
}
UNITS = {
    word: number
    for number, word in enumerate(
        (
            *(
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
            ),
            *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
            *("eighteen", "nineteen"),
        )
    )
}
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "k": 1000, "m": 1_000_000}
