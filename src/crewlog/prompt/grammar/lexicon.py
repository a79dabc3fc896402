"""The words that the grammar knows: what agents do, what agents are called, what is no agent.

English is open; these lists are not. They only decide where the shape of a sentence leaves it open:
whether `the travel desk recalculates …` speaks of an agent, and where its name ends.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS = _words("""
accept adapt add address adjust advise aggregate agree align analyse analyze announce answer apply
appraise approve archive arrange ask assemble assess assign attack audit balance bill blend book
brainstorm break bring broadcast browse build bundle buy calculate calibrate call carry catch
challenge change check choose chop claim classify clean close cluster code collate collect combine
come comment compare compile complete compose compress compute condense conduct confirm connect
consider consolidate construct contact convert convince cook coordinate copy correct count cover
crawl create criticise criticize critique cross-check curate cut deal debug decide define delegate
deliver demo deploy derive describe design detect determine develop devise diagnose digest dig
direct discuss dispatch distil distill distribute do document double-check draft draw drive edit
elaborate embed enrich enter escalate establish estimate evaluate examine execute expand explain
explore export extend extract fact-check fetch figure file fill filter finalise finalize find finish
fix flag follow forecast formalise format formulate forward frame gather generate get give go grab
grade greet group guard handle hand have help hold host hunt identify illustrate implement import
improve index inform inspect install integrate interpret interview introduce investigate invoice
issue join judge keep kick label launch lay lead learn list listen load localise localize log look
mail maintain make manage map mark match measure mediate meet merge migrate mix model moderate
monitor negotiate nominate note notify number observe offer open optimise optimize orchestrate
order organise organize outline oversee pack package paint parse pass pay perform photograph pick
pitch place plan play plot point poke polish post prepare present price print prioritise prioritize
probe process produce profile program project prompt proofread propose provide prune publish pull
push put qualify quantify query question quote rank rate read rebuild recalculate recap receive
recheck recommend recompute reconcile record recruit red-team redact redesign redo refactor refine
refresh register reimburse release remove render reorder rephrase replace replay reply report
reproduce request research resolve respond restate restructure resume retrieve return review revise
rewrite route run sanity-check save say scan schedule score scout scrape screen script search select
send separate set settle shape share ship shorten shortlist show sift sign simplify simulate sketch
smooth solve sort source specify spell-check split spot stage start state stitch store structure
study style submit suggest sum summarise summarize supervise survey synthesise synthesize tag tackle
tailor take talk tell test think tidy tighten time title touch trace track train transcribe
transform translate triage try tune turn type typeset update upload validate value verify vet visit
voice thank walk warn wash watch weigh welcome work wrap write
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

ROLES = _words("""
accountant adjudicator administrator advisor adviser advocate agent agency aide ambassador analyst
anchor annotator appraiser arbiter arbitrator architect archivist artist assembler assessor assistant
associate auditor author auctioneer baker banker barrister bookkeeper boss bot broker builder buyer
cartoonist cashier censor chair chairman chairperson champion chatbot checker chef chemist chief
chronicler clerk closer coach coder collector columnist commander commentator committee comparer
compiler composer computer concierge conductor consultant controller coordinator copyeditor
copywriter correspondent counsel counsellor counselor counter courier crawler creator critic curator
dealer debugger decider decorator delegate deployer deputy designer detective developer devops
diagnostician dialogist digger diplomat director dispatcher doctor drafter dramaturge driver economist
editor editor-in-chief educator engineer enricher estimator evaluator examiner executive executor
expert explainer explorer extractor facilitator fetcher fixer forecaster formatter gardener gatherer
gatekeeper generator ghostwriter grader greeter guard guardian guide handler handyman head helper
historian host illustrator implementer improver indexer inspector instructor integrator interpreter
interviewer inventor investigator investor janitor journalist judge juror jury keeper layouter lawyer
lead leader learner lector lexicographer liaison librarian linguist linter listener localiser lookout
mailer maintainer maker manager marketer master mathematician mechanic mediator mentor merger
messenger mixer modeller moderator monitor mover musician narrator negotiator nerd notary note-taker
novelist nurse officer ombudsman operator optimiser optimizer optimist orchestrator organiser organizer
outliner owner packer painter partner payer performer person pessimist philosopher photographer
physicist picker pilot planner player plotter poet pollster porter poster presenter printer
prioritiser producer profiler programmer proofreader promoter prosecutor prover publicist publisher
purchaser ranker rapporteur rater reader receptionist reconciler recorder recruiter referee refiner
refunder registrar releaser renderer reporter representative rep researcher resolver responder
retriever reviewer reviser revisor rewriter router runner sampler sceptic scheduler scholar scientist
scorer scout screener screenwriter scribe scriptwriter searcher secretary selector sender sentinel
sentry setter signatory simulator sketcher skeptic sleuth sniffer solicitor solver soother sorter
sourcer specialist spokesman spokesperson sponsor staffer statistician steward storyteller
strategist strategy stylist subtitler summariser summarizer superintendent supervisor surveyor
synthesiser synthesist synthesizer tactician taster teacher technician terminologist tester thanker
theorist thinker timekeeper tracer tracker trader trainer transcriber transcriptionist translator
treasurer treasury triager trimmer troubleshooter tuner tutor twin typesetter typist underwriter updater
uploader validator verifier vet voice watchdog watcher watchman webmaster welder writer
""")
"""Heads of agents' names that no ending tells, and those that one does: a known role is no slip of
the pen for another."""

THINGS = _words("""
access account action address advert afternoon agenda agreement alarm amount analysis announcement
answer api app application approach approval archive area argument article artwork assessment asset
attachment audience audio audit award background backlog balance bank batch bill blog board book
border brief briefing brochure browser budget buffer bug build building business button buyer-list
calculation calendar call campaign candidate case catalogue category chapter character chart
checklist choice circumstance claim class clause cluster model code comment community company comparison
competitor complaint component computer-program concept conclusion condition conference confidence
consumer container content context contract copy correction cost country coverage cover cover-letter crew
criterion customer cut dashboard data database date day deadline deal debate decision defect delay
delivery demand department description detail diagram dictionary difference digest directory discount
discussion document draft edge edition effort element email employee end engine entry environment
episode error estimate event evidence example exception exchange expense experience experiment export
fact failure feature feedback fee figure file filing film finding flaw flyer folder footer form format
forum founder fraud future gap goal government grade group guideline handbook header heading headline
history holder hour hypothesis idea image impact incident index information input insight instance
interest internet interview introduction inventory invoice issue item job journal kind language
latter launch law layer ledger legal letter level library licence license lifetime line link list location
log logo loss lot mail mailer-list manner manual manuscript market material matter meaning measure media
meeting member memo memory message method metric middle migration minute mistake moment money month
morning motion movie music name need network news newsletter newspaper night note notice notification
novel number object objection occasion offer office opening opinion option order other outcome outline
output outside page pair panel paper paragraph parameter part patch patent patient payment people
percentage performance period permission phase phrase picture piece place plan platform podcast point
policy position power prediction presentation press price priority problem procedure process product
production profile profit program programme progress project promise prompt proof property proposal
protocol prototype public purchase purpose quality quantity quarter question queue quotation quote
range rate rating ratio reason receipt recipe record recording reference refund register regulator
rejection release remainder reminder remark rest report repository request requirement research reservation
response restaurant result return revenue review risk round route rule run sale sample sandbox scene
schedule scope score screen script season section sector sense sentence series server service session
setting settlement severity shift shop signal site situation size sketch slide software solution sound
source space spec specification speech spreadsheet stage standard standup start state statement
statistic status step storm story strategy-paper structure student style subject subscriber subscription
subtitle success suggestion summary supplier support surface survey suspicion system table tag target
task team technology temperature template tender term test text theft theme theory thesis thing threat
threshold ticket time timeline timesheet title today tomorrow tone tool top topic total traffic
training transaction transcript transfer translation trend trip trouble type user vacancy value vendor
verdict version video view visitor visual voicemail volume warning way weather web website week
weekend whole whoever wiki winter word work world writing year
matter manner paper number letter offer layer folder header footer user other customer supplier
consumer subscriber member quarter winter summer server cluster container browser buffer chapter
character newspaper newsletter order poster-paper weather border power tower water paper counter-offer
error sector factor vendor regulator investor-group competitor author-list employer passenger reminder
gender
shortlist wishlist whitelist blacklist playlist tracklist wordlist checklist gist twist mist fist
wrist corner owner-manual banner barrier bumper bottleneck-filter burner cable-car calendar-year
centre center chamber charter cipher cluster-header cover-letter cracker cylinder diaper dinner
disaster door drawer driver-update dollar elevator equator escalator eraser fastener feather fever
fiber finger fire-door flavor floor flower folder-tree freezer furniture generator-room ginger
glacier grammar hammer hanger harbor harbour heater helicopter hopper horror humor indicator
interior inverter jumper junior-level ladder laser leather lever liver locker lumber master-copy
mirror monitor-stand motor mortar namespace number-plate odor parlor peer pepper pier pillar
pointer polymer pillow powder prayer primer processor projector propeller quarter-end radiator
rafter razor reactor refrigerator rider-clause river roller rotor rubber rumor rumour saucer
scanner-glass sensor shelter shoulder shower silver skewer slider speaker-cable spider
sticker stapler sticker stopper sugar supper tanker terror timer toner tractor
trailer transistor transformer trigger tumor typewriter ulcer user-story vapor vector
washer wafer wallpaper wrapper zipper zipper-bag fewer newer older longer shorter larger
smaller bigger higher lower faster slower cheaper stronger weaker easier harder earlier latter
former upper inner outer proper clever eager bitter tender minor major prior superior senior
junior anterior meter metre litre liter theatre theater fibre decimeter kilometer parameter-set
diameter perimeter voucher router-config caller sender-address minister president prime-minister
passer-by lover stranger neighbour neighbor brother sister mother father daughter teenager
youngster commuter traveller traveler shopper reader-survey borrower lender tenant debtor creditor
donor voter taxpayer attacker intruder hacker spammer fraudster scammer claimant applicant
pipeline replica memo script pipe gateway browser-tab adapter-plug connector decoder encoder
buzzer dispenser docker printer-paper counter-offer container-image load-balancer balancer
tester-account bumper-sticker matter other further whether rather together forever
however whatever whichever whoever gather remember consider deliver discover cover recover
uncover offer suffer differ prefer refer transfer infer confer defer alter enter register
filter foster master-plan monster muster order border wander wonder ponder render surrender hinder
murder laughter slaughter manslaughter disorder reminder remainder bladder
never ever over under after better later either neither together whether however rather
""") - _words("author printer counter poster monitor guard lead chair")
"""Nouns that are no agents, unless the prompt introduces them as such."""

OUTSIDERS = _words("""
customer customers client clients user users employee employees regulator supplier suppliers vendor
competitor competitors visitor audience people everyone everybody someone somebody anyone anybody
nobody founder public government management legal sales marketing boss bosses team teams company crew
partners partner investor investors stakeholders subscribers reporters parents folks guys
""")
"""People who are not in the crew."""

DETERMINERS = _words("the a an our your my each every another one this that their its his her")

PRONOUNS = _words("""
i you he she it we they me him her us them this that these those who whom whose which what whoever
whatever someone somebody anyone anybody everyone everybody nobody none both all each either neither
any some one two three four five six seven everything anything nothing something there here mine
""")

FUNCTION = _words("""
a about above across after again against ago all along also although always am among an and any
are around as aside at away back be because been before behind being below beneath beside besides
between beyond both but by can could despite did do does doing done down due during each either else
enough even ever every except few first for from further had has have having hence her here his how
however if in inside instead into is it its itself just last later least less lest like made many may
maybe me might mine more most much must my near neither never next no nobody none nor not nothing now
of off often on once one only onto or other others otherwise ought our out outside over own per perhaps
please rather same several shall she should simply since so some someone soon still such than that the
their them then there these they this those though through throughout thus till to together too
toward towards twice under unless until unto up upon us very via was we well were what whatever when
whenever where whereas whether which while who whoever whom whose why will with within without would
yes yet you your
simultaneously finally lastly afterwards meanwhile firstly secondly thirdly subsequently eventually
already immediately usually directly obviously quickly carefully
let lets got gets get okay ok not
""")
"""Words that no agent's name holds, save `of` and `in` in the middle."""

NOT_VERBS = _words("""
always perhaps towards besides its this his us as is was has does thus plus minus yes less unless
across previous various serious numerous famous obvious anonymous analysis basis crisis bus status
virus focus bonus campus census consensus class process access success business press pass address
progress glass sometimes afterwards nowadays these those others theirs ours hers yours whereas
cheers news series species sales operations logistics politics economics physics statistics
analytics graphics mathematics metrics ethics communications relations resources affairs accounts
systems services products markets savings facts papers pictures words things
""")
"""Words in -s that are no verbs in the third person; some begin agents' names (`the sales team`)."""

AUXILIARIES = _words("""
may can could should must has is was will shall does never always 's might needs
""")
MODALS = _words("may can could might must should shall will")

OPENERS = _words("""
and but so then or next finally lastly meanwhile while afterwards first second third only after
once before again that's simultaneously parallel time also now until except firstly secondly
thirdly , ; : ( ) – -> < > <= >= = == != %
""")
"""What a clause may begin behind."""

EMBEDDING = _words("""
what how why whether which that who whom where if unless when whenever until whoever
""")
"""Words that make a clause part of another."""

CONDITIONALS = _words("if unless whether when whenever until")
SPEAKING_OF = _words("""
wants likes needs agrees disagrees complains insists pays answers replies comes goes seems looks
feels knows thinks says asks changes happens starts stops works fails finishes
""")
"""What is said in a condition of somebody who may not be in the crew."""

PREPOSITIONS = _words("""
of in on at from with without for under over about near into onto through during against between
among like as inside outside behind beyond within upon via per to than around across toward
towards concerning regarding
""")
"""What stands behind these is no subject."""

WANTING = _words("like want wants need ask asks send tell put have let get has make instruct")
GIVING = _words("give gives grant grants hand equip provide")
HANDING = _words("""
over on hand hands handed pass passes passed goes turn turns comes is followed delegates delegate
delegated assign assigns assigned escalate escalates escalated route routed routes up falls left
belongs moves moved forwarded sent available only reserved exclusively back
""")
"""Words with `to` that let the one work who stands behind it."""

RETURNING = _words("send sends give gives forward forwards return returns kick restart")
"""Words with `to` that may speak of somebody outside the crew, too."""

BESIDE = _words("parallel together along side over again lies begins starts tandem concurrently")

CAST = _words("""
agents agent people roles role specialists experts team crew members cast who staff
""")
"""What a list of agents is called."""

GENERIC = _words("""
agent agents human person people crew team other others one thing user i somebody someone
""")

INSIDE_NAMES = _words("up down in")
"""Inside a name: `top down analyst`, `stand in editor`."""

ORDINALS = _words("first second third fourth fifth last")
"""Before a noun, part of its name: `the first juror`."""

ADVERBS_OF_WORK = _words("""
then also next now simply just finally lastly again always both each all first still only never
together simultaneously afterwards usually subsequently alone later meanwhile immediately
""")
"""Between a subject and its verb."""

STATIVE = _words("""
comes works starts makes has counts pays says wants needs likes loves hates knows thinks hopes
means seems wishes keeps tells gets costs looks feels ends continues runs passes fails goes breaks
changes improves shows contains covers holds opens closes helps stays happens exists appears
remains lives dies grows falls rises begins stops finishes depends matters fits contains includes
come work start make have count pay say want need like love hate know think hope mean seem keep get
cost look feel end continue run pass fail go break stay grow fall rise begin stop finish
""")
"""What things do as well as agents: no sign that somebody works."""

NO_WORK_BY = _words("driven caused limited increased reduced affected triggered followed-up due")
"""Participles whose `by` names a cause."""

CALENDAR = _words("""
monday tuesday wednesday thursday friday saturday sunday january february march april june july
august september october november december christmas easter ramadan halloween thanksgiving
spring summer autumn winter english german french spanish italian chinese japanese latin american
github gitlab slack jira excel google linkedin python java javascript flutter kubernetes postgres
""")
"""Names that nobody in a crew has: days, months, languages, products."""

DEPARTMENTS = _words("""
audio backend frontend front-end back-end design legal accounting marketing support sales security
research editorial finance procurement engineering qa qc ops operations hr compliance treasury
logistics infrastructure platform payroll analytics product testing devops dba sre billing
purchasing infosec forensics helpdesk
""")
"""What agents are called without article: `Legal checks the contract`."""

PLACES_OF_WORK = _words("""
department desk office unit squad team board panel lab bureau group committee division cell
section agency house newsroom studio workshop jury duo pair guild taskforce forensics helpdesk
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
_PARTICIPLES = _words("""
put set let cut read built sent held made kept dealt found brought bought caught taught thought
sought sold told led fed met lit hit split spelt laid paid said swept bound wound spun dug hung
struck sung begun run won shot left lost bent lent heard fought understood rid recast reset rebuilt
overseen sworn done gone
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
