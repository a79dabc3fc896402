"""Classes of verbs and nouns that rules are made of, by their base forms.

What a rule says follows from the class of its verb and from what its nouns hold; how the words
stand is `frames`' matter.
"""

from __future__ import annotations

from crewlog.prompt.grammar.lexicon import VERBS, verb_base, word_set

USE = word_set(
    "use access call run touch invoke employ have get need work utilise utilize apply open execute "
    "trigger operate wield own hold keep possess draw rely reach do tap handle fire start carry "
    "make come equip share"
)
"""Verbs that give a tool to their subject: `has deploy`, `works with deploy`."""
SEE = word_set(
    "see read know view look access get peek receive hear learn notice inspect find glimpse glance "
    "use have examine browse consult watch check study perceive understand obtain"
)
GIVE = word_set("give grant lend hand equip provide supply furnish arm issue assign offer entrust")
ENABLE = word_set("allow permit let authorise authorize enable entitle trust empower license clear")
HINDER = word_set("keep stop prevent bar ban forbid prohibit block exclude hinder disallow refuse")
SHOW = word_set("show tell pass send reveal give disclose share forward hand expose present report")
HIDE = word_set("hide keep withhold conceal shield mask obscure")
ASK = word_set(
    "ask check consult confirm call contact ping tell alert notify bother involve get come turn go "
    "refer escalate defer bring wait wake inform clear run hand reach phone warn leave let"
)
NEED = word_set("need require take want demand await wait get have obtain seek deserve call")
FAIL = word_set(
    "fail crash break err fall die blow trip conk bail choke collapse time hang error go get run "
    "throw hit stumble"
)
GO_ON = word_set("continue carry go proceed move keep ignore skip leave do work run never press")
STOP = word_set("stop end abort halt give quit cancel call finish fail break shut pull")
APPROVE = word_set(
    "approve ok okay confirm authorise authorize sign accept agree clear release bless endorse "
    "permit see look read check review inspect vet have give say green-light allow decide"
)
REJECT = word_set("reject decline refuse veto object disagree dislike say turn withhold disapprove")
REVIEW = word_set(
    "review double-check check criticise criticize critique re-read reread proofread revise "
    "correct "
    "improve look go reflect self-review self-check inspect verify test assess edit polish rework "
    "refine scrutinise scrutinize examine audit recheck re-check question evaluate challenge"
)
CHOOSE = word_set("decide choose pick say determine select call rule settle tell direct name")
LEAD = word_set(
    "supervise delegate hand direct assign distribute manage coordinate route dispatch call lead "
    "oversee orchestrate"
)
RESERVE = word_set("reserve restrict limit confine keep")
APPROVAL = word_set(
    "approval ok okay permission go-ahead sign-off signoff consent yes blessing confirmation "
    "say-so nod signature thumbs-up agreement word authorisation authorization clearance assent "
    "approvals permit green-light thumbs"
)
"""What people give when they agree."""
WORK = word_set(
    "note notes work works result results output outputs draft drafts finding findings text texts "
    "answer answers report reports analysis analyses opinion opinions comment comments verdict "
    "verdicts rating ratings score scores review reviews thoughts contribution contributions part "
    "material version versions remark remarks message messages reasoning assessment assessments "
    "number numbers code plan plans idea ideas translation feedback estimate estimates conclusion "
    "conclusions paper papers document documents list lists evaluation evaluations summary "
    "summaries sketch sketches figures tables proposal proposals transcript transcripts "
    "recommendation recommendations files stuff things words memo memos side doings calculations"
)
"""What agents make, and others may or may not see."""
RISKY = word_set(
    "risky dangerous high-risk critical sensitive hazardous destructive perilous unsafe delicate"
)
UNSURE = word_set(
    "unsure uncertain doubt undecided stuck unclear doubts sure certain confident clear hesitant "
    "torn doubtful"
)

_IRREGULAR = {
    "used": "use",
    "seen": "see",
    "saw": "see",
    "shown": "show",
    "given": "give",
    "kept": "keep",
    "hidden": "hide",
    "known": "know",
    "told": "tell",
    "run": "run",
    "done": "do",
    "left": "leave",
    "sent": "send",
    "held": "hold",
    "got": "get",
    "gotten": "get",
    "taken": "take",
    "chosen": "choose",
    "withheld": "withhold",
    "let": "let",
    "put": "put",
    "had": "have",
    "has": "have",
    "is": "be",
    "are": "be",
    "was": "be",
    "were": "be",
    "been": "be",
    "being": "be",
    "am": "be",
    "does": "do",
    "goes": "go",
    "lent": "lend",
    "forbidden": "forbid",
    "overseen": "oversee",
    "led": "lead",
    "read": "read",
    "heard": "hear",
    "found": "find",
    "said": "say",
    "made": "make",
    "gone": "go",
    "cut": "cut",
    "okayed": "okay",
    "dies": "die",
    "ran": "run",
    "lies": "lie",
    "wrote": "write",
    "written": "write",
    "did": "do",
    "drew": "draw",
    "gave": "give",
    "thought": "think",
    "doing": "do",
    "going": "go",
    "using": "use",
    "having": "have",
    "getting": "get",
    "running": "run",
    "letting": "let",
    "putting": "put",
    "stopping": "stop",
    "banned": "ban",
    "barred": "bar",
    "permitted": "permit",
    "permitting": "permit",
    "equipped": "equip",
    "tripped": "trip",
    "vetted": "vet",
    "dying": "die",
    "oked": "ok",
}
KNOWN = (
    VERBS
    | USE
    | SEE
    | GIVE
    | ENABLE
    | HINDER
    | SHOW
    | HIDE
    | ASK
    | NEED
    | FAIL
    | GO_ON
    | STOP
    | APPROVE
    | REJECT
    | REVIEW
    | CHOOSE
    | LEAD
    | RESERVE
    | frozenset(["stay", "remain", "disable", "deactivate", "switch", "belong", "sit", "be"])
)
_NOUNS = frozenset(["approvals", "signoff", "yes", "ok", "okay", "always", "its", "his", "this"])


def lemma(word: str) -> str:
    """The base of a verb in any form; the word itself where it is none that is known."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in KNOWN or word in _NOUNS:
        return word
    for ending, with_e in (("ing", True), ("ed", True)):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return _stripped(word, ending, with_e=with_e)
    return verb_base(word)


def _stripped(word: str, ending: str, *, with_e: bool) -> str:
    stem = word[: -len(ending)]
    tries = [stem, stem + "e"] if with_e else [stem]
    if stem.endswith("i"):
        tries.append(stem[:-1] + "y")
    if len(stem) > 2 and stem[-1] == stem[-2]:
        tries.append(stem[:-1])
    return next((t for t in tries if t in KNOWN), word)


def finite(word: str) -> bool:
    """Whether a word may be a verb in the third person: `sees`."""
    return word not in _NOUNS and (
        word in {"has", "is", "are", "does", "goes", "was", "were"}
        or (word.endswith("s") and not word.endswith("ss") and verb_base(word) in KNOWN)
    )


def participle(word: str) -> bool:
    """Whether a word may stand in the passive: `used`, `seen`, `kept`."""
    if word in {"is", "are", "has", "was", "were", "am", "does", "goes", "dies", "let"}:
        return False
    base = lemma(word)
    return (base != word or word in {"run", "read", "put", "cut", "let"}) and not word.endswith(
        ("s", "ing")
    )
