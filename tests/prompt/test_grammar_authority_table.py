"""Sentences about authority as people say them, each with all that it makes of a crew.

A line is a prompt and what it changes of the crew of `WORK`, apart by `=>`: who has a tool, who alone
may have it, rules, approvals, who answers and when, budgets, groups, who does not see whom, hosts.
`unread` says that the words are reported and change nothing that bounds anybody.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crewlog.definition.audiences import Audiences
from crewlog.definition.model import CrewDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.registry_file import load_registry_data

REGISTRY = load_registry_data(
    {
        "registry": "r",
        "model": "openai:x",
        "tools": {
            "search": {"run": "m:search"},
            "publish": {"run": "m:publish", "risk": "high"},
            "fetch": {"run": "m:fetch", "hosts": ["example.com", "*.example.org"]},
            "write_file": {"run": "m:write_file", "words": ["write files"]},
            "send_mail": {"run": "m:send", "words": ["send mails"]},
            "delete": {"run": "m:delete", "risk": "high"},
        },
    }
)
WORK = (
    "The researcher looks for facts with search and fetch, then the writer drafts the notes with "
    "write_file. The checker reviews it with publish. "
)
TABLE = """
The writer may use search. => search: researcher+writer
Let the writer call search. => search: researcher+writer
The writer and the checker are both allowed to use search. => search: checker+researcher+writer
Only the checker is allowed to publish. => only publish checker
The writer has access to search. => search: researcher+writer
Give the writer search and fetch. => fetch: researcher+writer; search: researcher+writer
No one but the checker may publish. => only publish checker
publish is reserved for the checker. => only publish checker
publish is off limits for the writer. => only publish checker
The writer isn't allowed to touch publish. => only publish checker
Apart from the checker, nobody can use publish. => only publish checker
All agents except the writer may use search. => search: checker+researcher; only search checker+researcher
Everybody can search. => search: checker+researcher+writer
The researcher can't publish. => only publish checker
The checker is the only one who may publish. => only publish checker
Nobody publishes except the checker. => unread
The writer may search but not fetch. => search: researcher+writer; only fetch researcher
The writer may use any tool except publish. => delete: writer; fetch: researcher+writer; search: researcher+writer; send_mail: writer; only publish checker
Under no circumstances may the writer publish. => only publish checker
The writer is forbidden to use publish. => only publish checker
Don't let the researcher publish. => only publish checker
Neither the writer nor the researcher may publish. => only publish checker
The writer may use nothing but search. => unread
The checker has no tools. => unread
Always ask me before publishing. => ask publish *
Ask me before the checker publishes. => ask publish checker
The checker needs my permission to publish. => ask publish checker
The checker must get my okay before it publishes. => ask publish checker
Nothing is published without my approval. => ask publish *
No publishing without my consent. => ask publish *
publish requires approval by ana. => ask publish *; people ana
Every call of publish must be confirmed by a human. => ask publish *
Ana or Ben must approve every use of publish. => ask publish *; people Ana+Ben
The writer may use publish, but only with my approval. => publish: checker+writer; ask publish writer
The writer may publish if I say yes. => publish: checker+writer; ask publish writer
Before anything is published, ask me. => ask publish *
The checker may publish without asking. => unread
Run every publish by me first. => ask publish *
I want to see every publish before it happens. => unread
Get a human's sign-off for each publish. => ask publish *
The checker publishes only after I have approved it. => ask publish checker
Both ana and ben must approve each publish. => unread
Ask ana, and if she doesn't answer within an hour, ben, before publish is used. => unread
Only ana may approve calls of publish. => unread
An approval is good for 15 minutes. => valid 900
Approvals expire after an hour. => valid 3600
If nobody replies within 30 minutes, treat it as a no. => expires 1800 reject
Unanswered questions are rejected after two hours. => expires 7200 reject
If I don't answer within a day, stop the run. => expires 86400 stop
If nobody answers in 20 minutes, ask carla. => expires 1200 escalate carla
Questions go to ana and ben. => people ana+ben
Only carla can answer questions. => people carla
Ask me the first time the checker publishes. => unread
Once I have said yes, the checker may publish as often as it likes. => unread
The writer must call write_file no more than once per run. => rule write_file writer always 1 per run
The researcher may search at most 10 times a run. => rule search researcher always 10 per run
The researcher gets 20 searches per hour. => rule search researcher always 20 per hour
No more than 100 searches a day. => rule search - always 100 per day
Limit search to 50 calls per run. => rule search - always 50 per run
The researcher can use search up to 3 times per run. => rule search researcher always 3 per run
The checker publishes at most once a day. => rule publish checker always 1 per day
publish can only be used once per run. => rule publish - always 1 per run
publish at most 5 times per day in total. => rule publish - always 5 per day
Each agent may search at most 5 times per run. => unread
Together, the researcher and the writer may search 20 times an hour. => search: researcher+writer; rule search researcher+writer always 20 per hour
The researcher must not search more than twice per run. => rule search researcher always 2 per run
The checker shall not publish more than 3 times a day. => rule publish checker always 3 per day
At most two publishes per hour. => rule publish - always 2 per hour
There is a quota of 100 per day on search. => rule search - always 100 per day
search has a budget of 30 calls per run. => rule search - always 30 per run
Don't search more than 10 times. => rule search - always 10 per run
The researcher may search once every hour. => rule search researcher always 1 per hour
The writer may use search five times per run, not more. => search: researcher+writer; rule search writer always 5 per run
The researcher may search 5 times per run and 20 times per day. => rule search researcher always 5 per run; rule search researcher always 20 per day
At most 3 calls of publish per week. => unread
After 5 searches the researcher must ask me. => unread
The checker may publish only when the tests pass. => rule publish checker never if not tests_pass
Never publish while the tests fail. => rule publish - never if tests_fail
publish is blocked until the checker approves. => rule publish - never if not approved
Without the checker's approval nobody publishes. => rule publish - never if not approved
The checker may not publish unless the score is above 0.8. => rule publish checker never if not checker.score > 0.8
The checker must ask me before it publishes if the score is below 0.5. => rule publish checker ask if checker.score < 0.5
Once the checker has approved, the writer may publish. => unread
The writer may publish on weekdays. => unread
Only the writer may use publish on weekdays. => unread
The writer may use publish until 6 pm. => unread
The writer may use publish for the first hour. => unread
The writer may use publish in an emergency. => unread
The writer may use publish when the checker is away. => unread
The writer may use publish with care. => unread
The writer may use publish on staging only. => unread
The writer may use publish for drafts. => unread
Only the checker reads the writer's notes. => hide writer from researcher
The researcher must not see what the writer writes. => hide writer from researcher
The writer's draft is for the checker's eyes only. => hide writer from researcher
The writer and the checker share a private channel. => unread
Keep the writer's notes from the researcher. => hide writer from researcher
The checker works blind. => hide researcher from checker; hide writer from checker
The researcher sees only its own work. => hide checker from researcher; hide writer from researcher
The group desk consists of the writer and the checker. => group desk checker+writer
The writer and the checker are the desk group. => group desk checker+writer
The group desk has the writer and the checker. Only members of the desk may publish. => group desk checker+writer; publish: checker+writer; only publish checker+writer
What the writer says stays between the writer and the checker. => hide writer from researcher
Nobody but the checker may read the writer's drafts. => hide writer from researcher
The writer may not show its notes to the researcher. => hide writer from researcher
Everyone may read the writer's notes. => unread
The whole run must not cost more than $5. => cost 5
Budget: 3 dollars. => cost 3
Don't spend more than 50 cents. => cost 0.5
Use at most 20,000 tokens. => tokens 20000
The run has to be done within 15 minutes. => wall 900
The researcher may spend at most 1 dollar. => unread
Stop after 30 steps. => steps 30
The writer may remember things between runs. => -
Only the researcher may write to the public memory. => unread
Nobody reads the writer's memory. => unread
fetch may only visit example.com. => hosts fetch example.com
The researcher may fetch from example.com only. => unread
fetch must never reach evil.com. => unread
fetch must not leave example.org. => unread
write_file may only write below /notes. => unread
The writer may only write files in notes/. => unread
No agent may see the API key. => unread
The writer may use publish with the key env:TOKEN. => unread
Only editors' picks go out; the writer is not to publish anything. => unread
I don't want the researcher to touch publish at all. => unread
Anyone may use search, except for the writer. => only search checker+researcher; search: checker+researcher
Nobody other than the checker is permitted to publish. => only publish checker
Publishing is the checker's privilege. => unread
Leave publishing to the checker. => unread
publish is a tool for the checker alone. => unread
The writer has no business publishing. => -
Keep the writer away from publish. => only publish checker
The writer can read but not publish. => -
The researcher must never, ever publish. => only publish checker
It is forbidden to publish. => unread
publish is disabled. => unread
For the writer, search is allowed and publish is not. => search: researcher+writer; only publish checker
The writer is allowed to use search and the checker fetch. => search: researcher+writer; fetch: checker+researcher
The writer may publish only what the checker approved. => unread
The writer may publish drafts. => unread
The writer may delete its own files only. => unread
The writer may use publish once. => unread
The writer may use publish one time per run. => publish: checker+writer; rule publish writer always 1 per run
The writer may publish twice a day at most. => publish: checker+writer; rule publish writer always 2 per day
The writer may not call search more than ten times in a run. => rule search writer always 10 per run
search: max. 10 calls per run. => rule search - always 10 per run
Max 10 searches per run. => rule search - always 10 per run
Maximum of 5 publishes per day. => rule publish - always 5 per day
Publish no more than 3 times a day. => rule publish - always 3 per day
The researcher should not search more than 20 times an hour. => rule search researcher always 20 per hour
The researcher shall use search sparingly. => -
The researcher may search 100 times. => unread
The researcher has a quota of 50 searches per day. => rule search researcher always 50 per day
The daily limit for search is 100 calls. => rule search - always 100 per day
The researcher's searches are limited to 5 per run. => rule search researcher always 5 per run
All agents together may call search 200 times per day. => search: checker+researcher+writer; rule search - always 200 per day
The researcher may use search and fetch 10 times per run each. => unread
The researcher can call search or fetch up to ten times an hour. => rule search+fetch researcher always 10 per hour
After three publishes per day it's over. => unread
The checker may publish three times, then it must ask me. => unread
Every publish beyond the third one in a run needs my approval. => unread
More than 10 searches per run need my approval. => unread
The first call of publish needs my approval. => unread
Publishing needs two approvals. => unread
Publishing needs the approval of ana and ben. => unread
Publishing needs approval from ana or ben. => ask publish *; people ana+ben
The checker's publishing has to be okayed by carla. => ask publish checker; people carla
ana has to sign off on every publish. => ask publish *; people ana
Have ana approve each publish. => unread
I must approve each publish. => ask publish *
A human must confirm every call of publish. => ask publish *
Someone has to approve before publish is called. => unread
The checker mustn't publish without asking me. => ask publish checker
Don't publish without asking me first. => ask publish *
Never publish unless I say so. => ask publish *
No agent may publish until I have approved. => ask publish *
Publish only when I have given my okay. => ask publish *
The checker asks me before each publish. => ask publish checker
Before the checker publishes, it must get my approval. => ask publish checker
Before it publishes, the checker has to ask ana. => unread
The checker can publish, provided that I agree. => ask publish checker
The checker may publish, subject to my approval. => ask publish checker
High-risk tools need my approval. => ask publish *
All dangerous calls need a human's okay. => unread
Delete only after asking me. => ask delete *
Ask me before anyone deletes or publishes. => ask delete *; ask publish *
Ask me before any tool is used. => rule * - ask
Every tool call needs my approval. => rule * - ask
My approval is valid for one hour. => valid 3600
My yes counts for 5 minutes only. => valid 300
An approval can be used only once. => unread
If ana doesn't answer within an hour, ask ben. => unread
If no one responds within 10 minutes, refuse the call. => expires 600 reject
If there is no answer within 2 hours, stop. => expires 7200 stop
When nobody answers for an hour, stop the run. => expires 3600 stop
Wait at most an hour for an answer, then reject. => unread
Questions expire after 30 minutes. => unread
Only ana, ben and carla may answer questions. => people ana+ben+carla
Nobody but ana may answer. => unread
ana decides about publishing. => unread
The writer may not see the researcher's facts. => hide researcher from writer
Hide the researcher's facts from the writer. => hide researcher from writer
The writer can't read what the checker says. => hide checker from writer
Only the writer and the checker may see the facts of the researcher. => unread
The facts are for the writer only. => unread
The checker must not know who wrote the notes. => unread
The writer's notes are confidential. => -
Nobody sees the checker's verdict except the writer. => hide checker from researcher
The researcher and the checker must not see each other's work. => hide checker from researcher; hide researcher from checker
The researcher and the writer form the group desk. => group desk researcher+writer
There is a group called desk with the writer and the checker. => unread
The desk group has the writer and the checker. The desk group may publish. => group desk checker+writer; publish: checker+writer
The group desk has the writer and the checker. Nobody outside the desk group may publish. => unread
The group desk has the writer and the researcher. The desk group must not publish. => group desk researcher+writer; rule publish group:desk never
The group desk has the writer and the researcher. The desk group may search 10 times per run. => group desk researcher+writer; search: researcher+writer; rule search group:desk always 10 per run
The run may cost 2 dollars at most. => cost 2
Keep it under 5 dollars. => unread
The run must not use more than 10,000 tokens. => tokens 10000
Cap spending at $10. => unread
Stop if it costs more than 3 dollars. => cost 3
The whole thing may take an hour at most. => wall 3600
The run must be finished in half an hour. => wall 1800
Each agent may spend at most 1 dollar. => unread
The writer may use at most 5000 tokens. => unread
Spend no more than 2 dollars a day. => unread
The writer may write to the memory of the desk group. => -
The checker must forget everything after the run. => unread
The writer may not read the public memory. => unread
fetch may reach only example.com. => hosts fetch example.com
fetch may reach example.com only. => hosts fetch example.com
fetch can only access api.example.org and example.com. => hosts fetch api.example.org+example.com
The fetch tool must not reach any host but example.com. => unread
The researcher may only fetch from example.com. => unread
fetch may reach everything. => unread
fetch may also reach evil.com. => unread
write_file may write anywhere. => unread
The writer may only write to /tmp/notes. => unread
Don't tell the writer the password. => unread
The checker may act on behalf of ana. => -
The checker may approve its own calls. => -
The checker may answer questions about publish. => -
Treat my silence as approval. => unread
If nobody answers within an hour, approve it. => unread
If nobody answers within an hour, go ahead. => unread
The checker may publish unless ana objects. => unread
The writer may do whatever the checker may do. => -
Give everyone all tools. => search: checker+researcher+writer; publish: checker+researcher+writer; fetch: checker+researcher+writer; write_file: checker+researcher+writer; send_mail: checker+researcher+writer; delete: checker+researcher+writer
The checker may publish on weekdays. => unread
The writer may publish, subject to my approval. => ask publish writer; publish: checker+writer
The checker can read but not publish. => unread
Publishing is only for the checker. => only publish checker
The writer gets search for this job. => unread
Feel free to let the writer search. => unread
The writer may search, and so may the checker. => search: checker+researcher+writer
Under no condition does anyone but the checker publish. => unread
Hands off publish, writer. => unread
The writer and the researcher are barred from publishing. => only publish checker
No one may delete anything. => only delete
The checker may publish at most 5 times a day, and never more than twice an hour. => unread
The researcher must keep to 10 searches per run. => unread
Searching is limited to 10 times per run. => rule search - always 10 per run
No agent may search more than 10 times per run. => rule search - always 10 per run
The checker may only publish once a day. => rule publish checker always 1 per day
The checker must publish no more than once a day. => rule publish checker always 1 per day
The checker must use publish at least once per run. => unread
The checker must call publish exactly once per run. => unread
The checker may publish 3 times a week. => unread
The writer may use publish up to 3 times. => publish: checker+writer; rule publish writer always 3 per run
The writer may search for 10 minutes. => unread
The writer may search once the checker has approved. => unread
The writer may use publish after approval by ana. => publish: checker+writer; ask publish writer; people ana
The writer may use publish with ana's approval. => publish: checker+writer; ask publish writer; people ana
The writer may use publish with my permission. => publish: checker+writer; ask publish writer
The writer may use publish if ana approves it. => unread
The writer may not use publish without the checker's approval. => rule publish writer never if not approved
Publishing is only allowed with the checker's okay. => unread
publish must not be used until the tests pass. => rule publish - never if not tests_pass
Do not publish before the checker has approved. => unread
Only publish after two people have approved. => unread
The checker must ask me twice before it publishes. => unread
The checker must tell me before it publishes. => unread
The checker need not ask me before it publishes. => unread
The checker does not need my approval to publish. => unread
Publishing does not need approval. => unread
Publishing needs no approval. => unread
Publishing needs my approval unless the checker is sure. => rule publish - ask if not sure
Publishing needs my approval if the score is below 0.5. => rule publish - ask if checker.score < 0.5
Publishing needs the checker's approval. => unread
The checker must approve every call of search. => unread
I need not approve searches. => unread
I no longer approve publishes. => unread
Ana may approve publishes. => unread
Ana can approve every publish. => unread
Ana never approves calls of publish. => unread
Nobody approves calls of publish. => unread
Without my okay, nothing may be published. => ask publish *
Nobody may publish without my approval or the checker's. => unread
The writer may never publish without asking, not even drafts. => unread
If nobody answers within an hour, publish it. => unread
If nobody answers within a day, escalate to ana or ben. => unread
A yes holds for 10 minutes, a no for an hour. => unread
Spend at most 2 dollars per agent. => unread
Spend at least 2 dollars. => unread
The run may cost more than 2 dollars. => unread
Stop the run when it has cost more than 5 dollars. => cost 5
The group desk has the writer and the checker. Members of the desk may search at most 10 times an hour. => group desk checker+writer; search: checker+researcher+writer; rule search group:desk always 10 per hour
The group desk has the writer and the checker. Publishing by the desk group needs my approval. => group desk checker+writer; rule publish group:desk ask
The group desk has the writer and the checker. Only the desk group sees the researcher's notes. => group desk checker+writer
fetch may reach only example.com or any other site. => unread
fetch may reach only sites of example.com. => unread
fetch may not reach only example.com. => unread
The researcher may not show its facts to the checker or the writer. => hide researcher from checker; hide researcher from writer
What the writer says stays between the writer and me. => unread
Hands off publish, checker. => unread
The checker must approve every call of search. => unread
The writer may use publish with the checker's approval. => unread
The writer may publish on my approval. => ask publish writer; publish: checker+writer
The writer may publish with the approval of ana and ben. => unread
The writer may publish with my approval on weekdays. => unread
The writer must call write_file at most once. => rule write_file writer always 1 per run
The writer must use write_file not more than twice a day. => rule write_file writer always 2 per day
The writer must call write_file up to 3 times per run. => rule write_file writer always 3 per run
The writer must call write_file only once per run. => rule write_file writer always 1 per run
"""


def facts(crew: CrewDefinition) -> set[str]:
    """All that a crew says of authority, and its flow, a fact a line."""
    return {*_rights(crew), *_rules(crew), *_questions(crew), *_sight(crew), *_rest(crew)}


def _rights(crew: CrewDefinition) -> Iterator[str]:
    for tool in REGISTRY.tools:
        allowed = crew.permissions.get(tool)
        having = [
            name
            for name, agent in crew.agents.items()
            if tool in (agent.tools or ()) and (allowed is None or name in allowed)
        ]
        yield f"{tool}: {'+'.join(sorted(having))}".strip()
        if allowed is not None:
            yield f"only {tool} {'+'.join(sorted(allowed))}".strip()
        if tool in crew.approvals:
            yield f"ask {tool} {'+'.join(sorted(crew.approvals[tool] or '*'))}"


def _rules(crew: CrewDefinition) -> Iterator[str]:
    for rule in crew.to_json().get("rules", ()):
        tool = rule["tool"]
        said = ["rule", tool if isinstance(tool, str) else "+".join(tool)]
        said += ["+".join(sorted(rule.get("agents", ["-"]))), rule.get("do", "always")]
        said += [rule["quota"]] if "quota" in rule else []
        said += ["if", rule["if"]] if "if" in rule else []
        yield " ".join(said)


def _questions(crew: CrewDefinition) -> Iterator[str]:
    said = crew.to_json().get("interrupts", {})
    if "people" in said:
        yield f"people {'+'.join(sorted(said['people']))}"
    if "expires" in said:
        then = f"{said.get('default', 'reject')} {said.get('escalate_to', '')}"
        yield f"expires {said['expires']:g} {then}".strip()
    if "valid" in said:
        yield f"valid {said['valid']:g}"
    for key in {*said} - {"people", "expires", "default", "escalate_to", "valid"}:
        yield f"{key} {said[key]}"


def _sight(crew: CrewDefinition) -> Iterator[str]:
    audiences = Audiences(crew)
    for name, agent in crew.agents.items():
        for other in crew.agents:
            if name != other and not {*agent.writes} & {*audiences.reads(other)}:
                yield f"hide {name} from {other}"


def _rest(crew: CrewDefinition) -> Iterator[str]:
    said = crew.to_json()
    yield from (f"{key} {most:g}" for key, most in said.get("limits", {}).items())
    yield from (f"group {name} {'+'.join(sorted(who))}" for name, who in crew.groups.items())
    for name, tool in crew.tools.items():
        if tool.hosts != REGISTRY.tools[name].hosts:
            yield f"hosts {name} {'+'.join(tool.hosts)}"
        if tool.paths:
            yield f"paths {name}"
    yield f"flow {said.get('flow')}"
    yield f"agents {'+'.join(crew.agents)}"
    yield f"memory {crew.memory}"
    yield f"flags {crew.flags}"


BEFORE = facts(compile_prompt(WORK, REGISTRY).definition or CrewDefinition(crew="none", agents={}))


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_what_a_sentence_makes_of_a_crew(line: str) -> None:
    text, _, expected = line.partition(" => ")
    found = compile_prompt(WORK + text, REGISTRY)
    assert found.definition is not None
    more = {each for each in facts(found.definition) - BEFORE if not each.startswith("flags")}
    if expected == "unread":
        told = {remark.code for remark in found.remarks}
        assert told & {"not_understood", "read_as_words", "assumed", "contradiction"}
        assert not found.ok or all(_is_no_more(each) for each in more), more
        return
    assert found.understood, [remark.diagnostic.render() for remark in found.remarks]
    assert more == (set() if expected == "-" else {*expected.split("; ")})


def _is_no_more(fact: str) -> bool:
    """Whether a fact gives no tool to an agent that did not have it."""
    tool, apart, having = fact.partition(":")
    if not apart or tool not in REGISTRY.tools:
        return True
    before = next(each for each in BEFORE if each.startswith(f"{tool}:")).partition(":")[2]
    return {*having.strip().split("+")} - {""} <= {*before.strip().split("+")}
