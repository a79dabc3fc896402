"""Who works in a sentence, and who is only spoken of: the agents, tools and models found in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crewlog.prompt.grammar.mentions import Roster, stem
from crewlog.prompt.grammar.sentences import sentences
from crewlog.prompt.registry import Registry
from pace import growth

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
Backend writes the data. Audio starts as soon as it is ready. | backend audio
The writer writes. Rain starts as soon as it is ready. | writer
The tester tests. If the facts hold or the tester's score is low, the writer writes. | tester writer
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
# Of many trades.
The concierge books the tables and then the sommelier pairs the wines. | concierge sommelier
All incoming mail is opened by the postmaster. | postmaster
As soon as the geologist has the samples, the lab technician analyses them. | geologist lab_technician
Once the shopper leaves, the cashier counts the till. | cashier
The negotiator haggles with the supplier until the price is right. | negotiator
If the voice actor is unsure, ask a human. The voice actor reads the lines. | voice_actor
While Marketing writes the slogans, Design makes the banners. | marketing design
The number cruncher crunches the numbers. | number_cruncher
Every photo is retouched by the retoucher before the gallery owner hangs it. | retoucher gallery_owner
Get the plumber to fix the pipe. | plumber
The bouncer only lets in people with tickets. | bouncer
Then pass everything on to the archivist. The archivist stores it. | archivist
The news desk collects the headlines and the sports desk collects the scores. | news_desk sports_desk
The weather forecaster and the traffic reporter go on air at the same time. | weather_forecaster traffic_reporter
Who checks the doses? The pharmacist does. | pharmacist
The apprentice sweeps the floor. | apprentice
The intern fetches the papers and the professor grades them. | intern professor
The queen is beautiful. |
The monitor is broken and the printer jams. |
The bell rings twice. |
The pull request waits for review. |
The GraphQL expert and the REST expert propose an interface each. | graphql_expert rest_expert
The CFO signs the budget after the accountant has checked it. | cfo accountant
An LLM judge compares both answers. | llm_judge
Only after the coroner has spoken does the detective act. | coroner detective
The mayor's office, by the way, is on the third floor. |
The storyteller is not allowed to use web_search. | storyteller
The crew has a skipper, a navigator and a cook. | skipper navigator cook
The captain decides, the crew follows. | captain
A taxonomist classifies the beetles; afterwards a curator mounts them. | taxonomist curator
Before the pilot takes off, the mechanic inspects the engine. | pilot mechanic
The pastry chef and the sous chef are both allowed to use web_search. | pastry_chef sous_chef
When both chefs have finished, the head waiter serves. The pastry chef bakes, the sous chef grills. | pastry_chef sous_chef head_waiter
Nothing leaves the house until the quality manager approves it. | quality_manager
The request lands with the dispatcher, who assigns it. | dispatcher
The risk committee votes on the loan. | risk_committee
Support answers the easy questions and Engineering fixes the bugs. | support engineering
The build farm compiles everything overnight. |
Each chapter gets a summary from the abstractor. The abstractor reads each chapter. | abstractor
The copy desk, the photo desk and the layout team finish the page together. | copy_desk photo_desk layout_team
The ghostwriter works on the speech in tandem with the fact-finder. | ghostwriter fact_finder
Should the importer fail, carry on without it. The importer loads the rows. | importer
It is then up to the arbitrator to decide. | arbitrator
The penetration tester attacks the staging server. | penetration_tester
The release captain, once the tests pass, tags the commit. | release_captain
The on-call engineer gets paged if the error rate is above 5 %. | on_call_engineer
Two reviewers look at it: a junior reviewer and a senior reviewer. | junior_reviewer senior_reviewer
The product owner writes the stories, the scrum master plans the sprint. | product_owner scrum_master
Have QA run the tests. | qa
HR screens the candidates. | hr
Any risky tool needs my approval. |
The contract runs until March. |
This crew handles refunds. |
The weather is bad and the road is closed. |
The letter to the editor of the Times is short. |
Whoever is first wins. |
The user opens the app and clicks the button. |
The moderator asks each panelist one question. | moderator
Both the historian's notes and the economist's notes go to the essayist. The historian digs, the economist models, the essayist writes. | historian economist essayist
The beekeeper inspects the hives and the labeller labels the jars. | beekeeper labeller
Legal and Compliance both read the contract; Compliance signs it off. | legal compliance
After the debrief, the note taker sends round the minutes. | note_taker
Every invoice over 5,000 euros goes to the finance controller, who approves or rejects it. | finance_controller
The scenario is played through by a red team and a blue team. | red_team blue_team
We let the bidder bot place the bids. | bidder_bot
The keyword agent and the backlink agent deliver their lists to the SEO strategist. The SEO strategist merges them. | keyword backlink seo_strategist
If the moderator rejects the post, the poster rewrites it. The moderator reads each post. | moderator poster
Would the tutor please explain the mistake? The tutor marks the essay. | tutor
The chief of staff sums up the meeting for the board. | chief_of_staff
Someone has to check the numbers: that is the actuary's job. | actuary
None but the treasurer may use send_email. | treasurer
Let's have a debater for each side. |
Once all three scouts have reported, the general decides. The north scout, the east scout and the west scout ride out. | north_scout east_scout west_scout general
In step one the cataloguer catalogues the stamps. | cataloguer
The interpreter, a patient soul, translates the call. | interpreter
The dough rises for an hour. |
A good editor is hard to find. |
The train leaves at noon and the station is closed. |
The lawyer, the banker and the broker are all done before the notary starts. | lawyer banker broker notary
First comes the sketcher, then the inker, then the colourist. | sketcher inker colourist
1. Sketcher sketches 2 panels. | sketcher
The virologist and, if needed, the epidemiologist comment on the draft. | virologist epidemiologist
The tests are run by the CI agent. | ci
Nobody except the vault keeper may use write_file. | vault_keeper
The newsreader reads what the scriptwriter has written. The scriptwriter writes the news. | newsreader scriptwriter
The mentor gives the student feedback. | mentor
The client's data must stay in the EU. |
The bookkeeper books it, the payer pays it. | bookkeeper payer
Give web_search to the fact finder. The fact finder checks the story. | fact_finder
The harvester picks the grapes; the vintner presses them. | harvester vintner
A paralegal pulls the precedents, while an associate drafts the brief. | paralegal associate
The night nurse hands over to the day nurse. | night_nurse day_nurse
Procurement collects three offers and the category manager ranks them. | procurement category_manager
The game designer balances the levels with the help of the playtester. The playtester plays each level. | game_designer playtester
Whenever the forecaster is unsure, ask me. The forecaster projects the demand. | forecaster
Our in-house counsel checks the wording. | in_house_counsel
My assistant prepares the slides. | assistant
The second shift supervisor signs the log. | second_shift_supervisor
Then both the fact checker and the sensitivity reader get to work. | fact_checker sensitivity_reader
The jury picks a winner and the presenter announces it. | jury presenter
The work is split between a frontend developer and a backend developer. |
Two agents work on this, namely a hunter and a gatherer. | hunter gatherer
The tracker tracks the parcels. | tracker
The translation is proofread by a native speaker. | native_speaker
Have a look at the weather first. |
The letter is from the landlord. |
The old lighthouse keeper's diary is the source. |
The spokesperson may not use send_email. | spokesperson
The sub-editor, who knows the house style, trims the text. | sub_editor
Kick off with the researcher, and finish with the editor. | researcher editor
Route billing questions to the billing specialist and everything else to the generalist. | billing_specialist generalist
The vet examines the dog. Unless the vet finds something, stop. | vet
The orchestra is loud. |
The sales team likes short mails. |
Here, a summary is what the reader needs. |
After lunch the DJ plays. | dj
The data steward cleans the table, and the data scientist fits the model. | data_steward data_scientist
The door opens automatically. |
During the night the watchman walks the halls. | watchman
On Mondays the planner plans the week, and on Fridays the accountant closes the books. | planner accountant
Start with the geographer. The geographer maps the coast. | geographer
For every claim, an adjuster estimates the damage. | adjuster
Data Engineering loads the tables, then Analytics charts them. | data_engineering analytics
The report is due by Friday. |
The PR is merged by GitHub. |
The essay is graded by ChatGPT. | chatgpt
In the attic the archaeologist finds a map. | archaeologist
The customer success manager calls the customer. | customer_success_manager
Any of the three painters may start. The oil painter primes the canvas; the water painter wets the paper; the wall painter scrapes the wall. | oil_painter water_painter wall_painter
The stage manager keeps time. | stage_manager
You are a crew of three. |
Step one: the surveyor measures the plot. | surveyor
I review the plan. |
We ship on Tuesday. |
The lead, a patient man, coordinates the work. | lead
The project has a budget of 3,000 euros. |
This is urgent. |
The reviewer looks at the code that the developer wrote. The developer writes code. | reviewer developer
Once that is done, the packer packs the boxes. | packer
The compliance officer vetoes risky trades. | compliance_officer
The trader proposes trades and the risk manager caps them. | trader risk_manager
The composer sets the poem to music, which the singer then performs. | composer
The letter goes out. |
The stenographer types what is said. | stenographer
If the numbers differ, the comptroller recounts them. | comptroller
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


MENTIONS = """
The market analyst counts, the risk analyst weighs. Both analysts may use web_search. | both @market_analyst and @risk_analyst may use #web_search
The fast writer and the slow writer draft. The two writers rest. | @fast_writer and @slow_writer rest
The log reader, the alarm reader and the mail reader look. All three readers are done. | @log_reader , @alarm_reader and @mail_reader are done
The log reader, the alarm reader and the mail reader look. The two readers rest. | the two readers rest
The optimist analyst and the pessimist analyst work. The analysts agree. | @optimist_analyst and @pessimist_analyst agree
The market analyst counts. The analyst may use web_search. | @market_analyst may use #web_search
The head of research signs. The head may use send_email. | @head_of_research may use #send_email
The fact-checker reads. The fact checker rests. | @fact_checker rests
Audio mixes the tracks. Set up the audio first. | set up the audio first
The backup agent copies it. The backup is large. | the backup is large
The backup agent copies it. Then ask the backup agent. | then ask @backup
The scout looks. Nobody has to scout the ridge. | nobody has to scout the ridge
The DBA drafts it. Give the DBA web_search. | give @dba #web_search
Every agent may search the web. | every agent may $web_search
He is searching the web again. | he is $web_search again
It needs web searches. | it needs $web_search
She searched the whole web. | she $web_search
They saved the files. | they $write_file
Whoever was writing code stops. | whoever was $write_file stops
It can look tickets up. | it can $search_tickets
Emails sent by hand. | emails sent by hand
The tests run for an hour. | the tests run for an hour
Running the tests takes long. | $run_tests takes long
It uses the model GPT-5. | it uses the model ~openai:gpt-5
It uses GPT 5. | it uses ~openai:gpt-5
It uses write_file and WebSearch. | it uses #write_file and websearch
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [tuple(p.strip() for p in line.split("|")) for line in MENTIONS.strip().splitlines()],
)
def test_mentions(said: str, expected: str) -> None:
    assert marked(said)[-1] == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("run", "running"),
        ("plan", "planned"),
        ("query", "queries"),
        ("query", "querying"),
        ("write", "wrote"),
        ("write", "writing"),
        ("image", "images"),
        ("draw", "drawn"),
        ("search", "searches"),
    ],
)
def test_stems_are_the_same(left: str, right: str) -> None:
    assert stem(left) == stem(right)


@pytest.mark.parametrize(("left", "right"), [("ship", "shop"), ("post", "poster")])
def test_stems_differ(left: str, right: str) -> None:
    assert stem(left) != stem(right)


def _read(lines: int) -> Callable[[], None]:
    """Finds the agents of a text of that many lines, each with two of its own."""
    places = [f"{a}{b}" for a in "bcdfghjklm" for b in "aeiou"]
    text = "".join(
        f"The {places[i % 50]}r{places[i // 50]} writer drafts part {i} and hands over to the "
        f"{places[i % 50]}x{places[i // 50]} checker; if the caller is unhappy, the editor reads.\n"
        for i in range(lines)
    )
    parts = sentences(text)

    def read() -> None:
        roster = Roster.of(parts, REGISTRY)
        assert len(roster.agents) == 2 * lines + 1
        for sentence in parts:
            roster.marked(sentence)

    return read


def test_ten_times_the_agents_take_ten_times_as_long() -> None:
    assert growth(_read(100), _read(1000)) < 25  # of a square: 100
