"""Conditions and subordinate clauses: what words say, in the definition's own notation."""

from __future__ import annotations

import re

import pytest

from crewlog.definition import conditions as c
from crewlog.prompt import ast
from crewlog.prompt.grammar.conditions import Reading
from crewlog.prompt.grammar.mentions import Roster
from crewlog.prompt.grammar.pending import Pending, subordinate
from crewlog.prompt.grammar.phrase import Phrase
from crewlog.prompt.grammar.sentences import sentences
from crewlog.prompt.grammar.state import Places, State
from crewlog.prompt.registry import Registry
from pace import assert_within

REGISTRY = Registry.model_validate(
    {
        "agents": {
            name: {"prompt": "-"} for name in ("writer", "checker", "planner", "backend", "tester")
        },
        "tools": {"deploy": {"run": "a:b"}},
    }
)


def compiled(cond: ast.Cond) -> c.Condition:
    match cond:
        case ast.Fact():
            return c.Fact(
                agent=cond.agent, name=cond.name, operator=cond.operator, value=cond.value
            )
        case ast.Not():
            return c.Not(of=compiled(cond.of))
        case ast.Both():
            return c.AllOf(of=tuple(map(compiled, cond.of)))
        case ast.Either():
            return c.AnyOf(of=tuple(map(compiled, cond.of)))


def shown(cond: ast.Cond | None) -> str:
    return "None" if cond is None else re.sub("['\"]", "", c.render_condition(compiled(cond)))


def marked(words: str) -> tuple[Roster, Phrase]:
    (sentence,) = sentences(words)
    roster = Roster.of([], REGISTRY)
    return roster, Phrase(roster.marked(sentence))


def condition(words: str) -> str:
    roster, phrase = marked(words)
    return shown(Reading(roster, "checker").condition(phrase.text))


def clause(words: str) -> str:
    """What a subordinate clause says, in short."""
    roster, phrase = marked(words)
    state = State(words, Places(words, "-"), REGISTRY, roster, subject=("checker",))
    found = subordinate(state, phrase)
    return "None" if found is None else ", ".join(_said(found))


def _said(found: Pending) -> list[str]:
    said: list[str] = []
    if found.clause is not None:
        said.append(f"{found.kind} {found.clause.text}")
    if found.condition is not None:
        said.append(f"{'until' if found.until else 'if'} {shown(found.condition)}")
    if found.ready is not None:
        said.append(f"ready {shown(found.ready)}")
    if found.waits is not None:
        said.append(" ".join(["wait", str(found.waits.join), *found.waits.of]))
    if found.each is not None:
        said.append(f"each {found.maker or '-'} {found.each}")
    if found.needs:
        said.append(f"needs {' '.join(found.needs)}")
    return [*said, *(["then"] if found.then else [])]


def table(text: str) -> list[tuple[str, str]]:
    """Lines of words, `=>`, and what they say."""
    lines = [line.split("=>") for line in text.strip().splitlines() if "=>" in line]
    return [(words.strip(), meaning.strip()) for words, meaning in lines]


CONDITIONS = """
the tests pass => tests_pass
all tests have passed => tests_pass
the tests are passing => tests_pass
the tests don't pass => not tests_pass
every test passes => tests_pass
the tests passed => tests_pass
not all tests pass => not tests_pass
the tests fail to pass => not tests_pass
the tests do not all pass => not tests_pass
none of the tests pass => not tests_pass
all of the tests still pass => tests_pass
the tests can't pass => not tests_pass
all tests are green => tests_green
any test fails => test_fails
at least one test fails => test_fails
one of the tests fails => test_fails
no test fails => not test_fails
the build is broken => build_broken
the build breaks => build_breaks
the build has not broken => not build_breaks
the facts don't hold => not facts_hold
the facts hold up => facts_hold_up
the alarm is gone => alarm_gone
the alarm has gone => alarm_gone
the alarm isn't gone yet => not alarm_gone
the models are ready => models_ready
the models are all ready now => models_ready
the models are not ready => not models_ready
the models aren't ready yet => not models_ready
the models of backend are ready => backend.models_ready
backend's models are ready => backend.models_ready
backend has its models ready => backend.models_ready
backend has the models ready => backend.models_ready
backend does not have the models ready => not backend.models_ready
backend has all its models finished => backend.models_finished
the workspace is set up => workspace_set_up
the workspace has been set up => workspace_set_up
approved => approved
not approved => not approved
it is approved => approved
it's been approved => approved
it has been approved by the checker => checker.approved
it was approved => approved
it gets approved => approved
it is not yet approved => not approved
it hasn't been approved => not approved
the draft is approved => approved
the draft gets approved by the checker => checker.approved
the checker approves => checker.approved
the checker approves it => checker.approved
the checker approves the draft => checker.approved
the checker approved it => checker.approved
the checker has approved the draft => checker.approved
the checker does not approve it => not checker.approved
the checker didn't approve => not checker.approved
the checker never approves it => not checker.approved
the checker refuses => checker.refused
the checker rejects it => checker.rejected
the checker has rejected the text => checker.rejected
the checker turns it down => checker.turned_down
the checker turned down the draft => checker.turned_down
it is turned down => turned_down
it was turned down by the checker => checker.turned_down
the checker signs off on it => checker.signed_off
the checker signs it off => checker.signed_off
the checker has signed off => checker.signed_off
it is signed off => signed_off
the draft has been signed off => signed_off
the checker vetoes it => checker.vetoed
the checker agrees => checker.agreed
the checker does not agree with it => not checker.agreed
the checker disagrees => checker.disagreed
the checker accepts the changes => checker.accepted
it is accepted => accepted
the checker declines => checker.declined
the checker passes it => checker.passed
the checker gives its approval => checker.approved
the checker gives the green light => checker.approved
the checker gives no approval => not checker.approved
the checker says yes => checker.approved
the checker says no => checker.rejected
she approves it => checker.approved
she hasn't approved it => not checker.approved
he rejects it => checker.rejected
the checker is happy with it => checker.happy
the checker is not satisfied with the draft => not checker.satisfied
the checker is happy => checker.happy
the checker is convinced => checker.convinced
the checker says that it is urgent => checker.urgent
the checker thinks the score is too low => checker.score_too_low
the planner decides that the facts hold => planner.facts_hold
the planner reports that the models are ready => planner.models_ready
the checker doesn't think that it is good enough => not checker.good_enough
the checker says it is not urgent => not checker.urgent
the planner says that it is a bug => planner.kind == bug
the checker finds it too long => checker.too_long
the checker finds that the tests pass => checker.tests_pass
the checker is sure that the facts hold => checker.facts_hold
the checker finds a bug => checker.bug_found
the checker finds no errors => not checker.errors_found
the checker doesn't find any errors => not checker.errors_found
the checker finds nothing => not checker.something_found
the checker has found a mistake => checker.mistake_found
the checker has no objections => not checker.objections
the checker raises objections => checker.objections
there are errors => errors
there is a problem => problem
there are no errors => not errors
there aren't any errors left => not errors
there are still open questions => open_questions
there are more than 3 errors => errors > 3
there are at least two findings => findings >= 2
the number of errors is above 3 => errors > 3
it has more than 3 errors => errors > 3
the score is below 0.8 => score < 0.8
the score is less than 0.8 => score < 0.8
the score is under 80% => score < 0.8
the score falls below 0.8 => score < 0.8
the score drops under 0.8 => score < 0.8
the score stays below 0.8 => score < 0.8
the score comes out below 0.8 => score < 0.8
the score is at least 0.8 => score >= 0.8
the score is 0.8 or more => score >= 0.8
the score is 0.8 or better => score >= 0.8
it gets a score of 0.8 or better => score >= 0.8
it scores below 0.8 => score < 0.8
the checker scores it below 0.8 => checker.score < 0.8
the checker rates it under 7 => checker.rating < 7
the checker gives it a score below 7 => checker.score < 7
it is rated under 7 => rating < 7
it is rated under 7 by the checker => checker.rating < 7
the score exceeds 0.8 => score > 0.8
the score does not exceed 0.8 => score <= 0.8
the score is not below 0.8 => score >= 0.8
the score isn't at least 0.8 => not score >= 0.8
the score reaches 0.8 => score >= 0.8
the score doesn't reach 0.8 => not score >= 0.8
the score is higher than 0.8 => score > 0.8
the score is no higher than 0.8 => score <= 0.8
the score is greater than or equal to 5 => score >= 5
the score is between 3 and 5 => score >= 3 and score <= 5
confidence is at least eighty percent => confidence >= 0.8
the coverage is at least 80 percent => coverage >= 0.8
the offer is above 20,000 => offer > 20000
the offer is over 20,000 euros => offer > 20000
the offer is more than twenty thousand => offer > 20000
the checker's score is below five => checker.score < 5
its score is exactly 5 => score == 5
the score of the draft is below 5 => score < 5
the score given by the checker is below 5 => checker.score < 5
the rating is seven or higher => rating >= 7
the score is zero point eight or more => score >= 0.8
it is a bug => kind == bug
it's a bug => kind == bug
it is not a bug => not kind == bug
it is a bug or a question => kind == bug or kind == question
it is neither a bug nor a question => not (kind == bug or kind == question)
it isn't a bug or a question => not (kind == bug or kind == question)
it is a bug but not a regression => kind == bug and not kind == regression
it turns out to be a bug => kind == bug
it is classified as a bug => kind == bug
the checker classifies it as a bug => checker.kind == bug
the checker classifies the mail as spam => checker.spam
the ticket is a bug => kind == bug
the priority is high => priority == high
the priority isn't high => not priority == high
the priority is high or medium => priority == high or priority == medium
it is of high priority => priority == high
it has high priority => priority == high
it is high priority => priority == high
the checker's priority is high => checker.priority == high
the checker sets the priority to high => checker.priority == high
the models are ready and tested => models_ready and models_tested
the score is below 0.8 or the tests fail => score < 0.8 or tests_fail
the score is below 0.5 or above 2 => score < 0.5 or score > 2
the tests or the build fail => tests_fail or build_fails
neither the tests nor the build pass => not (tests_pass or build_passes)
the writer and the checker approve => writer.approved and checker.approved
both the writer and the checker approve it => writer.approved and checker.approved
the writer or the checker rejects it => writer.rejected or checker.rejected
approved and signed off => approved and signed_off
approved or accepted => approved or accepted
the tests pass, the build is green and the score is above 0.8 => tests_pass and build_green and score > 0.8
the tests pass and the score is at least 0.8 => tests_pass and score >= 0.8
it is rejected or the facts don't hold => rejected or not facts_hold
it is good and not too long => good and not too_long
the results differ => results_differ
the results don't differ => not results_differ
the figures match the invoice => figures_match_invoice
the totals do not match => not totals_match
a name is sanctioned => name_sanctioned
the month is closed => month_closed
the month has been closed => month_closed
the deal closes => deal_closed
the file has arrived => file_arrived
the customer wants a refund => customer_wants_refund
the customer is angry => customer_angry
the customer isn't angry => not customer_angry
the customer seems angry => customer_angry
the text is too long => text_too_long
it is too long => too_long
it looks good => good
it is good enough => good_enough
everything is fine => fine
nothing is missing => not missing
something is missing => missing
it works => works
it doesn't work => not works
it compiles => compiles
the code does not compile => not code_compiles
the code fails to compile => not code_compiles
it is up to date => up_to_date
it is in order => in_order
the books are in order => books_in_order
the quality of the text is poor => quality_poor
it is no longer urgent => not urgent
it is no good => not good
the recording comes back clean => recording_clean
urgent => urgent
harmless => harmless
fine => fine
too long => too_long
all comments have been addressed => comments_addressed
the linter complains => linter_complains
the linter doesn't complain => not linter_complains
the diff touches the database => diff_touches_database
the invoice exceeds 5,000 euros => invoice > 5000
the bill is over 300 => bill > 300
the total comes to more than 1000 => total > 1000
the total amounts to 1000 or more => total >= 1000
the error rate is above 2% => error_rate > 0.02
the error rate climbs above 2 percent => error_rate > 0.02
its confidence is lower than 60% => confidence < 0.6
the checker's confidence drops below 0.6 => checker.confidence < 0.6
the checker is less than 60% confident => checker.confidence < 0.6
the checker rates the draft 8 or better => checker.rating >= 8
the draft gets at least 8 points => points >= 8
the draft scores at least 8 => score >= 8
the language is german => language == german
the text is in german => text_in_german
the sentiment is negative => sentiment == negative
the sentiment is not positive => not sentiment == positive
the verdict is guilty => verdict == guilty
the checker's verdict is positive => checker.verdict == positive
the risk is high or critical => risk == high or risk == critical
it looks like a bug => kind == bug
it appears to be a duplicate => kind == duplicate
it has been flagged as spam => spam
it is marked as urgent by the planner => planner.urgent
the ticket is labelled urgent => urgent
neither the writer nor the checker objects => not (writer.objected or checker.objected)
nobody objects => not objected
no one rejects it => not rejected
someone rejects it => rejected
the checker has any doubts => checker.doubts
the checker still has doubts => checker.doubts
the checker asks for changes => checker.asks_for_changes
the checker wants changes => checker.wants_changes
changes are needed => changes_needed
further changes are requested => further_changes_requested
the draft needs more work => draft_needs_more_work
something goes wrong => wrong
nothing goes wrong => not wrong
the deployment went wrong => deployment_wrong
the deployment was successful => deployment_successful
the smoke test succeeded => smoke_test_succeeds
the patch applies cleanly => patch_applies_cleanly
the numbers add up => numbers_add_up
the numbers don't add up => not numbers_add_up
the sources contradict each other => sources_contradict
the two versions are identical => two_versions_identical
it has been reviewed and approved => reviewed and approved
the customer is a minor => kind == minor
the user confirmed the order => user_confirms_order
payment has been received => payment_received
the payment hasn't come in => not payment_comes_in
the budget is used up => budget_used_up
the evidence is insufficient => evidence_insufficient
the plan is feasible and cheap => plan_feasible and plan_cheap
the plan is not feasible or too expensive => not plan_feasible or plan_too_expensive
it's either a bug or a regression => kind == bug or kind == regression
at least one of the writer and the checker approves => writer.approved or checker.approved
it is not in english => not in_english
the checker hasn't signed off yet => not checker.signed_off
the checker gives it the thumbs up => checker.approved
the checker is unhappy with the wording => checker.unhappy
neither of them approves => not approved
both of them agree => agreed
everybody agrees => agreed
the plan passes review => plan_passes_review
the score lies between 60 and 80 percent => score >= 0.6 and score <= 0.8
the score is at or above 0.9 => score >= 0.9
the price is not more than 100 => price <= 100
the risk score is eight or above => risk_score >= 8
it costs more than 200 dollars => cost > 200
coverage drops below 70% => coverage < 0.7
the checker's grade is worse than 4 => checker.grade < 4
the word count is over 1,200 => word_count > 1200
there are fewer than 5 sources => sources < 5
the tests still don't pass => not tests_pass
the tests keep failing => tests_fail
the migration hasn't failed => not migration_fails
the server responds => server_responds
the server is not responding => not server_responds
the backup exists => backup_exists
no backup exists => not backup_exists
a duplicate is found => duplicate_found
no duplicates were found => not duplicates_found
the planner considers it risky => planner.risky
the planner deems it to be safe => planner.safe
the tester reports a bug => tester.reports_bug
the tester reports that the build is broken => tester.build_broken
the build is neither green nor stable => not (build_green or build_stable)
it's spam or a scam => spam or kind == scam
the claim isn't supported by evidence => not claim_supported_by_evidence
the contract is signed by both parties => contract_signed_by_parties
the type is question => type == question
the category is neither travel nor food => not (category == travel or category == food)
the mood is happy => mood == happy
it was not a false alarm => not kind == false_alarm
the deadline has passed => deadline_passes
the draft has been turned down by the checker => checker.turned_down
the two reviews disagree => two_reviews_disagree
the client hasn't paid => not client_paid
the summary is shorter than 200 words => summary_length < 200
the checker is fine with the plan => checker.fine
the checker isn't convinced that the numbers are right => not checker.numbers_right
the checker thinks it's ready => checker.ready
the planner says there are no risks => not planner.risks
the planner estimates that the cost exceeds 10,000 => planner.cost > 10000
the tester confirms the fix works => tester.fix_works
the tester confirms the fix => tester.confirmed
it has been confirmed that the fix works => fix_works
it was vetoed by the planner => planner.vetoed
the backend tests are all green => backend_tests_green
all the backend's endpoints respond => backend.endpoints_respond
the translation reads well => translation_reads_well
the text contains typos => text_contains_typos
the text contains no typos => not text_contains_typos
the text does not contain any typos => not text_contains_typos
no typos remain => not typos_remain
the user has opted out => user_opted_out
the candidate accepts the offer => candidate_accepts_offer
the request is out of scope => request_out_of_scope
the request falls within the budget => request_falls_within_budget
the amount is 500 or less => amount <= 500
the amount is up to 500 => amount <= 500
temperature stays above 30 degrees => temperature > 30
the average is better than 4.5 stars => average > 4.5
it scores 90 or above => score >= 90
it scores at least nine out of ten => score >= 9
the planner scores it at 7 or lower => planner.score <= 7
the checker awards it fewer than 10 points => checker.points < 10
it is rated critical => critical
the severity is set to critical => severity == critical
its severity is critical or major => severity == critical or severity == major
the outcome isn't clear => not outcome_clear
the result is positive => result == positive
the region is europe => region == europe
it's a novel, a poem or a play => kind == novel or kind == poem or kind == play
it's not urgent and not important => not urgent and not important
the tests pass but the build is red => tests_pass and build_red
the tests pass and it is approved by the checker => tests_pass and checker.approved
either the tests fail or the score is under 5 => tests_fail or score < 5
the budget is exceeded => budget_exceeded
the limit has been reached => limit_reached
both documents are signed => documents_signed
an exception is raised => exception_raised
the model hallucinates => model_hallucinates
the translation is faithful to the original => translation_faithful_to_original
the checker okays it => checker.approved
the checker has green-lit it => checker.green_lit
it got the all-clear from the checker => checker.approved
it gets a pass from the checker => checker.approved
the checker's rating is at most three stars => checker.rating <= 3
it receives fewer than two votes => votes < 2
the majority approves => majority_approves
all three approve => approved
the confidence score dips below 0.65 => confidence_score < 0.65
the variance is larger than five percent => variance > 0.05
accuracy is under ninety percent => accuracy < 0.9
the response time is over 300 ms => response_time > 300
the error count hits 10 => error_count >= 10
the draft isn't at least 500 words long => not draft_length >= 500
there's only one candidate => candidate == 1
there is exactly one candidate => candidate == 1
there isn't a single error => not error
the mail is a complaint or a request => kind == complaint or kind == request
the mail is neither a complaint nor a request => not (kind == complaint or kind == request)
the message is about billing => kind == billing
the ticket concerns billing => ticket_concerns_billing
the planner tags it as high priority => planner.priority == high
the sentiment turns out negative => sentiment == negative
the status changes to closed => status == closed
the status becomes closed => status == closed
the urgency isn't low => not urgency == low
the tone is too harsh => tone == too_harsh
something is off => off
the checker spots something odd => checker.something_odd_found
the checker comes across an error => checker.error_found
the checker can't reproduce it => not checker.reproduces
the bug can be reproduced => bug_reproduced
the bug cannot be reproduced => not bug_reproduced
the site is down => site_down
the links aren't broken => not links_broken
the photos and the captions match => photos_match and captions_match
the tests pass, or it is urgent => tests_pass or urgent
the tests pass or the checker signs off and the score is over 7 => tests_pass or (checker.signed_off and score > 7)
the writer's draft is approved => approved
the writer's draft is rejected by the checker => checker.rejected
the writer is stuck => writer.stuck
done => done
the checker doesn't like it => not checker.likes
the checker doesn't accept the offer => not checker.accepted
the checker is not in agreement => not checker.in_agreement
the tester certifies that the build is stable => tester.build_stable
the planner flags it as risky => planner.risky
it's deemed safe by the tester => tester.safe
the proof is complete and correct => proof_complete and proof_correct
the proof has a gap => proof_has_gap
the proof is free of gaps => proof_free_of_gaps
the logs show an error => logs_show_error
the logs show more than ten errors => errors > 10
the estimate is 10% or lower => estimate <= 0.1
the load is at most 75 % => load <= 0.75
the queue holds more than 50 items => items > 50
the checker rates its quality below 3 => checker.quality < 3
the readability score isn't higher than 60 => readability_score <= 60
the customer is a returning customer => kind == returning_customer
this is a refund request => kind == refund_request
these are duplicates => duplicates
the email is in spanish or french => email_in_spanish or email_in_french
the language is spanish or french => language == spanish or language == french
nobody has complained => not complains
the parties settle => parties_settled
the parties have settled => parties_settled
the vote is unanimous => vote_unanimous
the plan was rejected twice => rejected
the plan does not get approved => not approved
approval is given => approval_given
approval has not been given => not approval_given
it remains unclear => unclear
the root cause is known => root_cause_known
the root cause remains unknown => root_cause_unknown
enough evidence has been found => evidence_found
not enough evidence was found => not evidence_found
the checker says that either the tests fail or the build is broken => checker.tests_fail or checker.build_broken
the checker says that the tests pass and the score is above 5 => checker.tests_pass and checker.score > 5
the planner confirms that it's neither spam nor a scam => not (planner.spam or planner.kind == scam)
the essay cites fewer than five sources => sources < 5
the report mentions a risk => report_mentions_risk
the applicant qualifies => applicant_qualifies
the applicant does not qualify => not applicant_qualifies
the query returns nothing => query_returns_nothing
the checksum is wrong => checksum_wrong
the checksums do not agree => not checksums_agree
the loan amount exceeds 50k => loan_amount > 50000
its relevance is rated below 3 => rating < 3
the tester declares it stable => tester.stable
the tester has not declared it stable => not tester.stable
the draft was not accepted by the checker => not checker.accepted
the wording is okay => wording_okay
the image is blurry => image_blurry
the image is too dark or too blurry => image_too_dark or image_too_blurry
the picture doesn't look right => not picture_right
the price has gone up => price_goes_up
the deal falls through => deal_falls_through
stock is low => stock_low
stocks are below 100 units => stocks < 100
demand is higher than supply => demand_higher_than_supply
the topic is politics => topic == politics
the label is neither spam nor ham => not (label == spam or label == ham)
the genre isn't horror => not genre == horror
the complaint is justified => complaint_justified
the complaint isn't justified or the customer is rude => not complaint_justified or customer_rude
a human is needed => human_needed
legal advice is required => legal_advice_required
it is illegal => illegal
it violates the policy => violates_policy
it does not violate the policy => not violates_policy
there is any doubt => doubt
the reasons are convincing => reasons_convincing
the sample was contaminated => sample_contaminated
"""
NO_CONDITIONS = """
a score of 0.8 or better
christmas
the meeting
the replicas
the final results
the annual report
monday
the end of the month
three weeks
i say no
i approve it
we have time
the writer
the writer and the checker
the tests
noon
lunch
next week
the other
whatever
needed
more than three tests fail
the page loads in under 2 seconds
fewer than 5 sources are cited
half past nine
the launch
a week or two
my birthday
the checker and the planner
the very end
at least 3 of the sources agree
the writer rejects it or the checker does
the second half
tuesday morning
the release of the product
the customer's birthday
the checker nods it through
two of them approve
i am happy
you are sure
the old version
two more rounds
a good while
further instructions
the product launch
a final version
later
enough
the estimate is within 10%
the ratio is at least one to three
the complexity is medium or higher
the writer isn't sure whether it is true
your approval
there's nothing to fix
the third attempt
the usual suspects
the launch party
"""
CLAUSES = """
once the writer is done => wait all writer
once the writer has finished => wait all writer
when the writer is through => wait all writer
as soon as the writer finishes => wait all writer
after the writer completes its work => wait all writer
once the writer has completed its task => wait all writer
when the writer and the checker have both delivered => wait all writer checker
once both the writer and the checker are done => wait all writer checker
after both the writer and the checker => wait all writer checker
after the writer, the checker and the planner are done => wait all writer checker planner
once either the writer or the checker is done => wait any writer checker
as soon as the writer or the checker has finished => wait any writer checker
once one of the writer and the checker is done => wait any writer checker
when all three have finished => wait all
when both are in => wait all
once they are all back => wait all
when everyone has reported back => wait all
once all of them have delivered => wait all
as soon as two of them are done => wait 2
as soon as at least two of them have delivered => wait 2
when any two of them are back => wait 2
as soon as any of them is back => wait any
once either one is done => wait any
once one of them has finished => wait any
when the first of them is done => wait any
as soon as the first one is back => wait any
the moment one of them is back => wait any
the moment that the writer is done => wait all writer
now that the writer is done => wait all writer
once the others have finished => wait all
after all the others are done => wait all
once that is done => then
when this is done => then
once that's finished => then
when all of that is done => then
after the writer => wait all writer
after the writer's work => wait all writer
once the writer's work is done => wait all writer
after the writer's turn => wait all writer
once the writer has done its part => wait all writer
once the writer has had its say => wait all writer
when the writer is finished with the draft => wait all writer
once the writer is finished writing => wait all writer
after the writer wraps up => wait all writer
after the writer has handed in its draft => wait all writer
once the writer has drafted the text => wait all writer
after the writer drafts it => wait all writer
once the writer comes back => wait all writer
once the writer hands over => wait all writer
only after the writer is done => wait all writer
not until the writer is done => wait all writer
when the writer has written the text => wait all writer
as soon as backend has its models ready => ready backend.models_ready
once backend has the models ready => ready backend.models_ready
once backend's models are ready => ready backend.models_ready
when backend's models are ready => ready backend.models_ready
once the claim chart is ready => ready claim_chart_ready
as soon as the claim chart has been finished => ready claim_chart_finished
when the models are available => ready models_available
once the models are there => ready models_there
when the file is complete => ready file_complete
once the planner says that it is urgent => ready planner.urgent
once the checker approves it => ready checker.approved
after the checker has approved it => ready checker.approved
when the checker approves => if checker.approved
when the score is below 0.8 => if score < 0.8
whenever it is a bug => if kind == bug
when it is urgent => if urgent
if the checker rejects it => if checker.rejected
in case the checker rejects it => if checker.rejected
in the event that the tests fail => if tests_fail
provided that the tests pass => if tests_pass
provided the tests pass => if tests_pass
assuming the tests pass => if tests_pass
as long as the tests fail => if tests_fail
so long as it is not approved => if not approved
on condition that the checker agrees => if checker.agreed
should the tests fail => if tests_fail
should the test fail => if test_fails
should it be rejected => if rejected
should the checker reject it => if checker.rejected
should it not be approved => if not approved
should the score be below 0.8 => if score < 0.8
should the trainer fail => if trainer_fails
should the writer fail => if writer.fails
unless the checker approves it => if not checker.approved
unless and until it is approved => if not approved
unless it is rejected => if not rejected
except when it is urgent => if not urgent
until the checker approves => until not checker.approved
until approved => until not approved
till the tests pass => until not tests_pass
until both approve => until not approved
only if deploy is available => needs deploy
if deploy can be used => needs deploy
provided that deploy is there => needs deploy
as long as deploy exists => needs deploy
for each topic => each - topics
for every topic => each - topics
per topic => each - topics
for each of the topics => each - topics
for each of the planner's topics => each planner topics
for every one of the planner's topics => each planner topics
for each topic of the planner => each planner topics
for each topic of the planner's => each planner topics
for each topic the planner lists => each planner topics
for each topic that it finds => each - topics
for each topic on the list => each - topics
for each story from the planner => each planner stories
topic by topic => each - topics
one topic at a time => each - topics
for each and every candidate => each - candidates
for all the topics => each - topics
if in doubt => if in_doubt
once the writer's draft is in => ready writer.draft_in
as soon as both of them are through => wait all
when at least one of them has reported => wait any
when three of the five are back => wait 3
once the writer and the checker wrap up their work => wait all writer checker
after the writer and the checker have both had their say => wait all writer checker
immediately after the writer has finished => wait all writer
the minute the checker is happy => ready checker.happy
once everybody is done => wait all
as soon as anyone is finished => wait any
once nobody objects => ready not objected
when the planner has its outline done => ready planner.outline_done
after the tests pass => ready tests_pass
once all tests pass => ready tests_pass
as soon as the score reaches 0.8 => ready score >= 0.8
supposing it is a bug => if kind == bug
given that the tests pass => if tests_pass
should the score drop below 0.5 => if score < 0.5
should there be errors => if errors
should anything go wrong => if wrong
should the checker not approve => if not checker.approved
should it turn out to be a bug => if kind == bug
unless the checker has rejected it => if not checker.rejected
unless either of them objects => if not objected
until there are no more errors => until errors
until the checker is satisfied with it => until not checker.satisfied
until the tests stop failing => until tests_fail
until all of them agree => until not agreed
per candidate on the shortlist => each - candidates
for each chapter that the planner lists => each planner chapters
for every bug found by the tester => each tester bugs
for each new ticket => each - tickets
chapter by chapter => each - chapters
if deploy exists => needs deploy
only when deploy is installed => needs deploy
once the backend is ready => wait all backend
"""
NO_CLAUSES = """
until christmas
until bedtime
until noon
until the end of the week
after lunch
after the meeting
after the other
once a day
once
if deploy is not available
step by step
for each of them
if possible
if necessary
if needed
if any
if so
until further notice
until the morning
after the break
after hours
once again
when in rome
day by day
"""


@pytest.mark.parametrize(("words", "meaning"), table(CONDITIONS))
def test_what_a_condition_says(words: str, meaning: str) -> None:
    assert condition(words) == meaning


@pytest.mark.parametrize("words", NO_CONDITIONS.strip().splitlines())
def test_what_is_no_condition(words: str) -> None:
    assert condition(words) == "None"


@pytest.mark.parametrize(("words", "meaning"), table(CLAUSES))
def test_what_a_subordinate_clause_says(words: str, meaning: str) -> None:
    assert clause(words) == meaning


@pytest.mark.parametrize("words", NO_CLAUSES.strip().splitlines())
def test_what_says_nothing_to_wait_for(words: str) -> None:
    assert clause(words) == "None"


def test_a_while_clause_is_kept_whole() -> None:
    roster, phrase = marked("while the writer drafts the text")
    state = State("", Places("", "-"), REGISTRY, roster)
    found = subordinate(state, phrase)
    assert found is not None
    assert (found.kind, found.condition, found.waits) == ("while", None, None)
    assert found.clause is not None
    assert found.clause.text.endswith("drafts the text")


@pytest.mark.parametrize("word", ["or", "and", "is not a", "the tests", ", or not", "neither nor"])
def test_long_words_cost_little(word: str) -> None:
    """Time grows with the length, and what is too long is no condition."""
    roster = Roster()

    def read() -> None:
        for length in (20, 39):
            Reading(roster).condition(" ".join(["it is a bug", *[word] * length]))
        assert Reading(roster).condition(" ".join(["it is a bug", *["or a bug"] * 5000])) is None

    assert_within(1.0, read)
