"""Who works in a sentence, and who is only spoken of: the agents, tools and models found in words."""

from __future__ import annotations

import time

import pytest

from crewlog.prompt.grammar.mentions import Roster, stem
from crewlog.prompt.grammar.sentences import sentences
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5-mini", "openai:gpt-5"],
        "tools": {
            "web_search": {"run": "a:a", "words": ["search the web"]},
            "write_file": {"run": "a:b", "words": ["write code", "save files"]},
            "run_tests": {"run": "a:c", "words": ["run the tests"]},
            "search_tickets": {"run": "a:d", "words": ["look up tickets"]},
            "send_email": {"run": "a:e", "words": ["send emails"]},
        },
    }
)


def agents(text: str) -> set[str]:
    return set(Roster.of(sentences(text), REGISTRY).agents)


def marked(text: str) -> list[str]:
    """The sentences with names in the place of mentions."""
    parts = sentences(text)
    roster = Roster.of(parts, REGISTRY)
    out: list[str] = []
    for sentence in parts:
        words: list[str] = []
        for unit in roster.marked(sentence):
            sign, number = unit.text[:1], unit.text[1:]
            if sign in "@#$~" and number.isdigit():
                of = {"@": roster.agents, "~": roster.models}.get(sign, roster.tools)
                words.append(sign + of[int(number)])
            else:
                words.append(unit.text)
        out.append(" ".join(words))
    return out


SENTENCES = """
# Subjects.
The parser reads the log. | parser
The copywriter drafts the advert, then the stylist polishes it. | copywriter stylist
First, a scout gathers leads. | scout
An estimator prices the job and a foreman signs it off. | estimator foreman
Once the crawler has finished, the indexer sorts the pages. | crawler indexer
While the caterer plans the menu, the florist picks the flowers. | caterer florist
After that the storyboard artist sketches the scenes. | storyboard_artist
In the end, the lead engineer merges everything. | lead_engineer
The tax adviser then also checks the deductions. | tax_adviser
The nurse always records the temperature first. | nurse
The head of research signs the report. | head_of_research
The director of photography lights the set. | director_of_photography
The first juror and the second juror score the entries. | first_juror second_juror
The cutter, well, cuts the film. | cutter
The translator (web_search) translates the letters. | translator
The proofreader, using web_search, reads every page. | proofreader
Using search_tickets, the counter counts the complaints. | counter
With the outline in hand, the novelist writes the first chapter. | novelist
The editor-in-chief picks the theme. | editor_in_chief
Planner makes the plan, then coder writes the code. | planner coder
the triager has a look and then the fixer repairs it | triager fixer
# Several at once.
The optimist, the pessimist and the realist write an outlook each. | optimist pessimist realist
The rent analyst and the wage analyst work side by side. | rent_analyst wage_analyst
The field team and the panel buyer collect answers. | field_team panel_buyer
Both the painter and the sculptor enter the contest. | painter sculptor
A nice critic and a nasty critic, side by side. Then the author decides. | nice_critic nasty_critic author
UI Designer and Backend can both start. | ui_designer backend
The optimist writes an outlook in parallel with the pessimist. | optimist pessimist
The lector checks the spelling together with the typesetter. | lector typesetter
The drummer records alongside the bassist. | drummer bassist
# By whom something is done.
The schema is drafted by the DBA. | dba
The claims are sorted by the travel desk. | travel_desk
The manuscript is read by the copy chief and then by the publisher. | copy_chief publisher
The script gets rewritten by a dramaturge. | dramaturge
Each room is measured by one of the surveyors. | surveyor
The dough is kneaded by the baker, and the oven is watched by the apprentice. | baker apprentice
The audit is followed by the treasurer, who pays the bills. | treasurer
The scene is staged by the director, followed by the editor, who cuts it. | director editor
The runner is restarted by the infrastructure agent. | infrastructure
Every patch is tested by QA. | qa
Servers are patched by the SRE. | sre
# To whom it is handed, who is made to work.
The clerk hands the file over to the notary. | clerk notary
Otherwise it is handed over to the account manager. | account_manager
Have the researcher look into it. | researcher
Let the dramatist write the play and the musician score it. | dramatist musician
I'd like a scout to visit the towns. | scout
I want the auditor to go through the books. | auditor
Ask the lawyer to check the contract. | lawyer
Next comes the timekeeper, who measures the length. | timekeeper
Then it's the welder's turn. | welder
It is the usher who opens the doors. | usher
Give the bisector run_tests. The bisector finds the commit. | bisector
web_search is reserved for the librarian. | librarian
Only the pharmacist may use web_search. | pharmacist
Nobody but the gardener can use write_file. | gardener
The archivist is the only one who may use write_file. | archivist
write_file may only be used by the migrator. | migrator
For each town, a guide writer describes the sights. | guide_writer
One setup helper per product, please. | setup_helper
Someone, call it the greeter, says hello. | greeter
Let's call that one the reader. | reader
# Names of their own.
Backend sets up the data models. | backend
Audio takes care of the sound. | audio
Once Backend is done, Audio mixes the tracks. | backend audio
The SEO agent gives it a score. | seo
The Audio agent and the Video agent work in parallel. | audio video
QA tests the build and Legal reviews the licences. | qa legal
The DBA writes the migration. | dba
When QA has finished, the SRE deploys it. | qa sre
The IT forensics agent secures the disk. | it_forensics
Finance approves the budget. | finance
# Casts, labels, arrows.
There are three agents: a planner, a coder and a tester. | planner coder tester
We have a keeper, an installer, a prober and an announcer. | keeper installer prober announcer
The crew consists of a chemist, a physicist and a mathematician. | chemist physicist mathematician
The desk lead decides who works next: password helper, hardware helper or visitor. | desk_lead password_helper hardware_helper visitor
I need three people: a log digger (search_tickets), a metrics nerd and a ticket scout. | log_digger metrics_nerd ticket_scout
Writer: drafts the notes | writer
planner -> builder -> checker | planner builder checker
Scout → analyst → chronicler | scout analyst chronicler
# Nobody works here.
The customer is angry. |
The server is down and the users complain. |
Nobody likes red dashboards. |
The old laptop in the corner is slow anyway. |
The memo needs more numbers. |
Customers first! |
Be nice to the visitors and to the speaker of the house. |
The deadline is Friday and the budget is small. |
Last year we did this by hand. |
It must be finished by Christmas. |
Our winters are getting milder. |
The replicas lag and the cluster runs hot. |
Nobody wants a second December like the last one. |
The foreign invoices are in euros. |
Coffee is in the kitchen. |
My phone has been buzzing for days. |
If the caller is unhappy, so am I. |
Crew: red-build |
Nobody answered the minister's question about the mayor. |
# Some work, and others are only spoken of.
The mapper draws what the minister wants. | mapper
If the caller is unhappy, the closer calls back. | closer
The writer writes a note for the security team. | writer
The planner lists the clusters that will not last until Christmas. | planner
The operator looks after the replicas. | operator
The associate writes the memo for the partners. | associate
The sorter answers the customer's letter by Friday. | sorter
The blocker deals with the sender of the mail. | blocker
The trainer shows the customer around. | trainer
The tester walks through the app on a phone. | tester
The framer boils the minister's question down. | framer
The courier brings the parcel to the front door before the bell rings. | courier
"""


def _table() -> list[tuple[str, set[str]]]:
    rows: list[tuple[str, set[str]]] = []
    for line in SENTENCES.strip().splitlines():
        if not line.startswith("#"):
            said, _, names = line.rpartition("|")
            rows.append((said.strip(), set(names.split())))
    return rows


@pytest.mark.parametrize(("said", "expected"), _table())
def test_agents(said: str, expected: set[str]) -> None:
    assert agents(said) == expected
