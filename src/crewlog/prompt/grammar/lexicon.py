"""The words that the grammar knows: what agents do, what agents are called, what is no agent.

English is open; these lists are not. They only decide where the shape of a sentence leaves it open:
whether `the travel desk recalculates …` speaks of an agent, and where its name ends.
"""

from __future__ import annotations

from functools import cache


@cache
def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a class; made once, since readers ask within their loops."""
    return frozenset(text.split())


VERBS = word_set("""
absorb accept adapt add address adjust advise aggregate agree align allocate amend analyse analyze
annotate announce anonymise anonymize answer append apply appraise approve archive arrange ask
assemble assess assign assist attach attack attend audit authorise authorize back-test bake
balance bargain benchmark bill bind blend boil book brainstorm break brew bring broadcast browse
build bundle buy calculate calibrate call calm capture carry catch certify challenge change chase
check choose chop claim classify clean clear close cluster code code-review collate collect
combine come comment compare compile complete compose compress compute condense conduct confer
confirm congratulate connect consider consolidate construct contact convene convert convince cook
cool coordinate copy correct count cover crawl create criticise criticize critique crop
cross-check cross-reference curate cut cut-down date-stamp deal debug decide deduplicate deepen
defend define delegate deliver demo demonstrate deny deploy derive describe design detect
determine develop devise diagnose dictate dig digest direct discuss dispatch dissect distil
distill distribute do document double-check draft draw drive dub edit elaborate embed empty encode
encourage enforce enlist enquire enrich enter equip escalate escort establish estimate evaluate
examine exclude execute exhibit expand explain explore export expose extend extract fact-check
fetch figure file fill filter finalise finalize find finish fix flag follow forecast formalise
format formulate forward frame frisk fry gather gauge generate get give go grab grade grant greet
grep grill grind group guard haggle hand handle harmonise harvest have help hire hold host hunt
identify illustrate imagine implement import improve index inform inquire insert inspect install
instruct integrate interpolate interpret interrogate interrupt interview introduce invent
investigate invite invoice issue join judge keep kick kill knead knit label launch lay lead learn
lend list listen load localise localize locate log look lubricate mail maintain make manage map
mark match measure mediate meet memorise merge migrate mix model moderate monitor narrate navigate
neaten negotiate nominate notarise note notify nudge number observe offer open optimise optimize
orchestrate order organise organize outline overhaul oversee pack package paint parse pass
pat-down pay perform persuade photograph pick pitch place plan play plot pluck point poke polish
portray post pour preach precompute predict prefer prepare present presort press price print
prioritise prioritize probe process produce profile program project prompt proofread propose
prosecute prove provide prune publish pull punctuate purchase pursue push put qualify quantify
query question quote rank rate read reassure rebuild rebut recalculate recap recast receive
recheck recite recommend recompute reconcile reconstruct record recruit red-team redact redesign
redo redraft refactor refine refresh register rehearse reimburse reject release remind remix
remodel remove rename render reorder repair rephrase replace replay reply report reproduce request
research reset reshape resolve respond restate restructure resume retest retouch retrieve return
review revise reword rewrite rinse roast rotate route run sanity-check save say scan schedule
score scout scrape screen script sculpt search secure select send separate serve set settle sew
shape share sharpen shelve ship shorten shortlist show sift sign simmer simplify simulate sketch
smooth solve sort source specify spell-check split spot stage start state stitch store structure
study style submit suggest sum summarise summarize summon supervise survey sweep synthesise
synthesize tabulate tackle tag tailor take talk tell test thank think tidy tighten time title
touch trace track train transcribe transform translate triage trim try tune turn tutor type
typeset undo unify unpack untangle update upgrade upload usher vacuum validate value verbalise
verify vet visit voice walk warn wash watch weed weigh welcome weld whisk wipe work wrap write
""")
"""What agents do, in the base form."""

IRREGULAR = {
    "does": "do",
    "goes": "go",
    "has": "have",
    "is": "be",
    "carries": "carry",
    "tries": "try",
}

IRREGULAR_FORMS = {
    "wrote": "write",
    "written": "write",
    "ran": "run",
    "sent": "send",
    "drew": "draw",
    "drawn": "draw",
    "made": "make",
    "bought": "buy",
    "spoke": "speak",
    "spoken": "speak",
    "paid": "pay",
    "gave": "give",
    "given": "give",
    "saw": "see",
    "seen": "see",
    "built": "build",
    "found": "find",
    "took": "take",
    "taken": "take",
    "withdrew": "withdraw",
    "withdrawn": "withdraw",
    "got": "get",
    "spent": "spend",
}
"""What verbs become, where no ending says it."""

ROLES = word_set("""
accountant actuary adjudicator administrator adviser advisor advocate agency agent aide ambassador
analyst anchor annotator apothecary appraiser apprentice arbiter arbitrator architect archivist
artist assembler assessor assistant associate auctioneer auditor author baker banker bard barista
barrister bookkeeper boss bot broker builder butcher butler buyer captain carpenter cartographer
cartoonist cashier censor chair chairman chairperson champion chatbot checker chef chemist chief
chronicle-keeper chronicler clerk closer coach coder collector columnist commander commentator
committee comparer compiler composer computer concierge conductor conservator consultant
controller cook coordinator copyeditor copywriter coroner correspondent counsel counsellor
counselor counter courier cowboy crawler creator crier critic croupier curator dealer debugger
decider decorator delegate deployer deputy designer detective developer devops diagnostician
dialogist digger diplomat director dispatcher docent doctor drafter dramaturge driver economist
editor editor-in-chief educator emissary engineer enricher envoy estimator evaluator examiner
executive executor expert explainer explorer extractor facilitator fetcher fixer florist footman
forecaster foreman formatter gardener gatekeeper gatherer generator ghost ghostwriter grader
greeter guard guardian guide guru handler handyman head helper herald historian host hostess hound
illustrator implementer improver indexer inspector instructor integrator intern interpreter
interviewer inventor investigator investor janitor journalist judge juror jury keeper lad lawyer
layouter lead leader learner lector lexicographer liaison librarian linguist linter listener
localiser lookout maestro maid mailer maintainer maker manager marketer marshal master
mathematician matron mechanic mediator mentor merger messenger miner mixer modeller moderator
monitor monk mover musician narrator negotiator nerd notary note-taker novelist numismatist nurse
officer ombudsman operator optimiser optimist optimizer oracle orchestrator organiser organizer
outliner owner packer page-boy painter paralegal partner pathfinder payer performer person
pessimist pharmacist philosopher photographer physicist picker pilot planner player plotter poet
pollster porter poster postmaster presenter priest printer prioritiser producer professor profiler
programmer promoter proofreader prosecutor prover publicist publisher purchaser ranger ranker
rapporteur rater reader realist receptionist reconciler recorder recruiter referee refiner
refunder registrar releaser renderer rep reporter representative researcher resolver responder
retriever reviewer reviser revisor rewriter rookie router runner sage sampler sceptic scheduler
scholar scientist scorer scout screener screenwriter scribe scriptwriter scrum-master searcher
secretary selector sender sentinel sentry setter shepherd sheriff signatory simulator skeptic
sketcher skipper sleuth smith sniffer solicitor solver sommelier soother sorcerer sorter sourcer
specialist spokesman spokesperson sponsor spy squire staffer statistician steward storyteller
strategist strategy stuntman stylist subtitler summariser summarizer superintendent supervisor
surgeon surveyor synthesiser synthesist synthesizer sysadmin tactician tailor taster teacher
technician terminologist tester thanker theorist thinker timekeeper tracer tracker trader trainer
transcriber transcriptionist translator treasurer treasury triager trimmer troubleshooter trustee
tuner tutor twin typesetter typist underwriter updater uploader usher valet validator verifier vet
vicar voice warden watchdog watcher watchman webmaster welder wizard wordsmith writer
""")
"""Heads of agents' names that no ending tells, and those that one does: a known role is no slip of
the pen for another."""

THINGS = word_set("""
access account action address advert after afternoon agenda agreement alarm alter amount analysis
announcement answer anterior api app applicant application approach approval archive area argument
article artwork assessment asset attachment attacker audience audio audit award background backlog
balance balancer bank banner barrier batch better bigger bill bitter blacklist bladder blog board
book border borrower brief briefing brochure brother browser budget buffer bug build building
bumper burner business button buzzer calculation calendar call caller campaign candidate case
catalogue category center centre chamber chapter character chart charter cheaper checklist choice
cipher circumstance claim claimant class clause clever cluster code comment community commuter
company comparison competitor complaint component concept conclusion condition confer conference
confidence connector consider consumer container content context contract copy corner correction
cost country cover coverage cracker creditor crew criterion customer cut cylinder dashboard data
database date daughter day deadline deal debate debtor decimeter decision decoder defect defer
delay deliver delivery demand department description detail diagram diameter diaper dictionary
differ difference digest dinner directory disaster discount discover discussion disorder dispenser
docker document dollar donor door draft drawer eager earlier easier edge edition effort either
element elevator email employee employer encoder end engine enter entry environment episode
equator eraser error escalator estimate event ever evidence example exception exchange expense
experience experiment export fact factor failure farm fastener faster father feather feature fee
feedback fever fewer fiber fibre figure file filing film filter finding finger fist flavor flaw
floor flower flyer folder footer forever form format former forum foster founder fraud fraudster
freezer furniture further future gap gateway gather gender ginger gist glacier goal government
grade grammar group guideline hacker hammer handbook hanger harbor harbour harder header heading
headline heater helicopter higher hinder history holder hopper horror hour however humor
hypothesis idea image impact incident index indicator infer information inner input insight
instance interest interior internet interview introduction intruder inventory inverter invoice
issue item job journal jumper junior kilometer kind ladder language larger laser later latter
laughter launch law layer leather ledger legal lender letter level lever library licence license
lifetime line link list liter litre liver location locker log logo longer loss lot lover lower
lumber mail major manner manslaughter manual manuscript market material matter meaning measure
media meeting member memo memory message meter method metre metric middle migration minister minor
minute mirror mist mistake model moment money monster month morning mortar mother motion motor
movie murder music muster name namespace need neighbor neighbour neither network never newer news
newsletter newspaper night note notice notification novel number object objection occasion odor
offer office older opening opinion option order other outcome outer outline output outside over
page pair panel paper paragraph parameter parlor part passenger patch patent patient payment peer
people pepper percentage performance perimeter period permission phase phrase picture piece pier
pillar pillow pipe pipeline place plan platform playlist podcast point pointer policy polymer
ponder position powder power prayer prediction prefer presentation president press price primer
prior priority problem procedure process processor product production profile profit program
programme progress project projector promise prompt proof propeller proper property proposal
protocol prototype public purchase purpose quality quantity quarter question queue quotation quote
radiator rafter range rate rather rating ratio razor reactor reason receipt recipe record
recording recover refer reference refrigerator refund register regulator rejection release
remainder remark remember reminder render replica report repository request requirement research
reservation response rest restaurant result return revenue review risk river road roller rotor
round route rubber rule rumor rumour run sale sample sandbox saucer scammer scene schedule scope
score screen script season section sector senior sense sensor sentence series server service
session setting settlement severity shelter shift shop shopper shorter shortlist shoulder shower
signal silver sister site situation size sketch skewer slaughter slide slider slower smaller
software solution sound source space spammer spec specification speech spider spreadsheet stage
standard standup stapler start state statement statistic status step sticker stopper storm story
stranger stronger structure student style subject subscriber subscription subtitle success suffer
sugar suggestion summary summer superior supper supplier support surface surrender survey
suspicion system table tag tanker target task taxpayer team technology teenager temperature
template tenant tender term terror test text theater theatre theft theme theory thesis thing
threat threshold ticket time timeline timer timesheet title today together tomorrow tone toner
tool top topic total tower tracklist tractor traffic trailer training transaction transcript
transfer transformer transistor translation traveler traveller trend trigger trip trouble tumor
twist type typewriter ulcer uncover under upper user vacancy value vapor vector vendor verdict
version video view visitor visual voicemail volume voter voucher wafer wallpaper wander warning
washer water way weaker weather web website week weekend whatever whether whichever whitelist
whoever whole wiki winter wishlist wonder word wordlist work world wrapper wrist writing year
youngster zipper
""") - word_set("author printer counter poster monitor guard lead chair")
"""Nouns that are no agents, unless the prompt introduces them as such."""

OUTSIDERS = word_set("""
anybody anyone audience boss bosses client clients company competitor competitors crew customer
customers employee employees everybody everyone folks founder government guys investor investors
legal management marketing nobody parents partner partners people public regulator reporters sales
somebody someone stakeholders subscribers supplier suppliers team teams user users vendor visitor
""")
"""People who are not in the crew."""

BOSSES = word_set("boss")
"""Those of them who are in it where a sentence gives them work."""

DETERMINERS = word_set("the a an our your my each every another one this that their its his her")

PRONOUNS = word_set("""
all any anybody anyone anything both each either everybody everyone everything five four he her
here him i it me mine neither nobody none nothing one seven she six some somebody someone
something that them there these they this those three two us we what whatever which who whoever
whom whose you
""")

FUNCTION = word_set("""
a about above across after afterwards again against ago all along already also although always am
among an and any are around as aside at away back be because been before behind being below
beneath beside besides between beyond both but by can carefully could despite did directly do does
doing done down due during each either else enough even eventually ever every except few finally
first firstly for from further get gets got had has have having hence her here his how however if
immediately in inside instead into is it its itself just last lastly later least less lest let
lets like made many may maybe me meanwhile might mine more most much must my near neither never
next no nobody none nor not nothing now obviously of off often ok okay on once one only onto or
other others otherwise ought our out outside over own per perhaps please quickly rather same
secondly several shall she should simply simultaneously since so some someone soon still
subsequently such than that the their them then there these they thirdly this those though through
throughout thus till to together too toward towards twice under unless until unto up upon us
usually very via was we well were what whatever when whenever where whereas whether which while
who whoever whom whose why will with within without would yes yet you your
ah alas aye bye cheers er erm eh goodbye hello hey hi hmm hooray hurrah oh oops ooh phew sorry
thanks ugh uh um wow yay yeah yep
""")
"""Words that no agent's name holds, save `of` and `in` in the middle."""

NOT_VERBS = word_set("""
access accounts across address affairs afterwards always analysis analytics anonymous as basis
besides bonus bus business campus census cheers class communications consensus crisis does
economics ethics facts famous focus glass graphics has hers his is its less logistics markets
mathematics metrics minus news nowadays numerous obvious operations others ours papers pass
perhaps physics pictures plus politics press previous process products progress relations
resources sales savings series serious services sometimes species statistics status success
systems theirs these things this those thus towards unless us various virus was whereas words yes
yours
""")
"""Words in -s that are no verbs; some begin agents' names (`the sales team`)."""

AUXILIARIES = word_set("""
's always can could does has is may might must needs never shall should was will
""")
MODALS = word_set("may can could might must should shall will")

OPENERS = word_set("""
!= % ( ) , -> : ; < <= = == > >= after afterwards again also and before both but either except
finally first firstly lastly meanwhile neither next now once only or parallel second secondly
simultaneously so that's then third thirdly time until while –
""")
"""What a clause may begin behind."""

EMBEDDING = word_set("""
how if that unless until what when whenever where whether which who whoever whom why
""")
"""Words that make a clause part of another."""

CONDITIONALS = word_set("if unless whether when whenever until")
SPEAKING_OF = word_set("""
agrees answers asks changes comes complains disagrees fails feels finishes goes happens insists
knows likes looks needs pays replies says seems starts stops thinks wants works
""")
"""What is said in a condition of somebody who may not be in the crew."""

PREPOSITIONS = word_set("""
about across against among around as at behind between beyond concerning during for from in inside
into like near of on onto outside over per regarding than through to toward towards under upon via
with within without
""")
"""What stands behind these is no subject."""

WANTING = word_set("""
like want wants need ask asks send tell put have let get got has make instruct
""")
GIVING = word_set("give gives grant grants hand equip provide")
HANDING = word_set("""
assign assigned assigns available back belongs comes delegate delegated delegates escalate
escalated escalates exclusively falls followed forwarded goes hand handed hands is left moved
moves on only over pass passed passes reserved route routed routes sent turn turns up
""")
"""Words with `to` that let the one work who stands behind it."""

RETURNING = word_set("send sends give gives forward forwards return returns kick restart")
"""Words with `to` that may speak of somebody outside the crew, too."""

BESIDE = word_set("""
again along begin begins concurrently continue end finish lies off over parallel proceed side
start starts tandem together
""")

CAST = word_set("""
agent agents cast crew experts members people role roles specialists staff team who
""")
"""What a list of agents is called."""

GENERIC = word_set("""
agent agents crew human i one other others people person somebody someone team thing user
""")

INSIDE_NAMES = word_set("up down in")
"""Inside a name: `top down analyst`, `stand in editor`."""

ORDINALS = word_set("first second third fourth fifth last")
"""Before a noun, part of its name: `the first juror`."""

ADVERBS_OF_WORK = word_set("""
afterwards again all alone also always both each finally first immediately just lastly later
meanwhile never next now only simply simultaneously still subsequently then together usually
""")
"""Between a subject and its verb."""

STATIVE = word_set("""
appears begin begins break breaks changes closes come comes contains continue continues cost costs
covers depends dies end ends exists fail fails fall falls feel feels finish finishes fits get gets
go goes grow grows happens has hate hates have helps holds hope hopes improves includes keep keeps
know knows like likes lives look looks love loves make makes matters mean means need needs opens
pass passes pay pays remains rise rises run runs say says seem seems shows start starts stay stays
stop stops tells think thinks want wants wishes work works
""")
"""What things do as well as agents: no sign that somebody works."""

NO_WORK_BY = word_set("driven caused limited increased reduced affected triggered followed-up due")
"""Participles whose `by` names a cause."""

DEVICES = word_set("""
compiler computer connector container controller counter crawler dispatcher driver generator
handler indexer linter mixer monitor parser player poster printer profiler recorder router runner
scanner scheduler speaker tracker
""")
"""Heads that are machines as often as agents."""

CALENDAR = word_set("""
american april august autumn chinese christmas december easter english excel february flutter
french friday german github gitlab google halloween italian january japanese java javascript jira
july june kubernetes latin linkedin march monday november october postgres python ramadan saturday
september slack spanish spring summer sunday thanksgiving thursday tuesday wednesday winter
""")
"""Names that nobody in a crew has: days, months, languages, products."""

DEPARTMENTS = word_set("""
accounting analytics audio back-end backend billing compliance dba design devops editorial
engineering finance forensics front-end frontend helpdesk hr infosec infrastructure legal
logistics marketing operations ops payroll platform procurement product purchasing qa qc research
sales security sre support testing treasury
""")
"""What agents are called without article: `Legal checks the contract`."""

PLACES_OF_WORK = word_set("""
agency board bureau cell committee department desk division duo forensics group guild helpdesk
house jury lab newsroom office pair panel section squad studio taskforce team unit workshop
""")
"""Where people work: an agent with a word before it that says which, `the art department`."""

_ABSTRACT = (
    "ity",
    "ness",
    "tion",
    "sion",
    "ment",
    "ance",
    "ence",
    "ism",
    "ing",
    "age",
    "ure",
    "ly",
    "th",
    "ics",
    "s",
)
_PARTICIPLES = word_set("""
begun bent bought bound brought built caught cut dealt done dug fed fought found gone heard held
hit hung kept laid led proofread typeset left lent let lit lost made met overseen paid put read rebuilt recast reset
rid run said sent set shot sold sought spelt split spun struck sung swept sworn taught thought
told understood won wound
""")

ADVERBS = (
    r"(?:then|also|next|now|simply|just|finally|lastly|again|always|both|each|all|first|firstly|"
    r"still|only|never|usually|subsequently|afterwards|eventually|later|meanwhile|simultaneously|"
    r"together|carefully|quickly|immediately|directly|automatically|independently|separately|"
    r"concurrently|briefly|thoroughly|in turn|in parallel|at the same time|at once|therefore|thus|"
    r"once more|once again|jointly|three|already|merely|basically|too)"
)
"""What may stand between an agent and its verb."""

NUMBERS = {
    "once": 1,
    "one": 1,
    "a single": 1,
    "twice": 2,
    "two": 2,
    "three": 3,
    "thrice": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "hundred": 100,
    "a hundred": 100,
}

_SUFFIXES = ("er", "or", "ist", "eer", "ier", "ian", "yst", "man", "woman", "person", "keeper")


def verb_base(word: str) -> str:
    """`carries` is `carry`, `reaches` is `reach`; the word itself where it is no third person."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word in NOT_VERBS or len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith("es"):
        for base in (word[:-1], word[:-2]):
            if base in VERBS:
                return base
        if word.endswith(("ches", "shes", "xes", "sses", "zzes", "oes")):
            return word[:-2]
    return word[:-1]


def third_person(word: str) -> bool:
    """Whether a word may be a verb in the third person: `gathers`."""
    return word in IRREGULAR or verb_base(word) != word


def known_verb(word: str) -> bool:
    """Whether a word is a verb that the grammar knows, in the base form or the third person."""
    return word in VERBS or verb_base(word) in VERBS


def singular(word: str) -> str:
    """`stories` is `story`, `boxes` is `box`; roughly."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def plural(word: str) -> str:
    """`story` is `stories`; of several words, the last."""
    front, _, last = word.rpartition(" ")
    if last != singular(last):
        return word
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        last = last[:-1] + "ies"
    elif last.endswith(("s", "x", "ch", "sh")):
        last += "es"
    elif last == "person":
        last = "people"
    else:
        last += "s"
    return f"{front} {last}".strip()


def agentive(word: str) -> bool:
    """Whether a noun says who does something: `reviewer`, `analyst`, `clerk`."""
    last = word.rsplit("-", 1)[-1]
    if word in ROLES or last in ROLES:
        return True
    if last in THINGS or last in OUTSIDERS or last in FUNCTION or len(last) < 5:
        return False
    return last.endswith(_SUFFIXES)


def participle(word: str) -> bool:
    """Whether a word may be a participle: `checked`, `written`, `built`."""
    return word in _PARTICIPLES or (len(word) > 3 and word.endswith(("ed", "en", "wn")))


def abstract(word: str) -> bool:
    """Whether the ending of a noun says that it is a thing: `quality`, `migration`."""
    return word.endswith(_ABSTRACT) and word not in PLACES_OF_WORK
