"""Rules in many voices, orders, quantifiers and modalities, each against the statements it makes.

A line of a table is a sentence and what it says, apart by `=>`; several statements stand apart by
`;`. `nothing` says that no rule is made of it, and that the words are reported or an agent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crewlog.prompt.ast import AnyStatement
from crewlog.prompt.grammar import read
from crewlog.prompt.registry import Registry, offered_tools

TOOLS = {
    "write_file": ["save files"],
    "read_file": ["open files"],
    "run_tests": [],
    "deploy": ["roll out"],
    "web_search": ["search the web"],
    "draw_chart": ["draw charts"],
    "search_logs": [],
    "restart_service": ["restart services"],
    "page_oncall": ["wake people up"],
    "publish_post": ["post to the blog"],
    "make_image": ["generate pictures"],
    "render_pdf": [],
    "send_email": ["send emails"],
    "read_ledger": ["look into the books"],
    "send_payment": ["pay people"],
}
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5", "openai:o3"],
        "tools": {
            name: {"run": "a:b", "words": words, "risk": "high" if name == "deploy" else "low"}
            for name, words in TOOLS.items()
        },
    }
)
CASTS = {
    "software": "There are five agents: a planner, a coder, a tester, a reviewer and a UI designer.",
    "research": "There are four agents: a scout, an analyst, a statistician and a referee.",
    "operations": "We have four agents: a commander, a fixer, a verifier and a log analyst.",
    "publishing": "We have five agents: a writer, an editor, an illustrator, a translator and a "
    "publisher.",
    "back_office": "There are four agents: a bookkeeper, an auditor, a lawyer and a messenger.",
}
RULES = {
    "allow", "deny", "sees", "ask", "ask_tool", "gate", "on_error", "limit", "model", "switch",
    "inside", "use",
}  # fmt: skip


def told(statement: AnyStatement) -> str:
    """A statement in a line."""
    said: dict[str, Any] = statement.model_dump(mode="json", exclude_defaults=True)
    said.pop("words", None)
    said.pop("question", None)
    agents = "+".join(said.pop("agents", ())) or said.pop("agent", "all")
    parts = [statement.kind, agents]
    if "tools" in said:
        parts.append("+".join(said.pop("tools")))
    for key, value in said.items():
        if key == "options":
            parts += [f"{k}={'+'.join(v) if isinstance(v, list) else v}" for k, v in value.items()]
        elif value is True:
            parts.append(key)
        else:
            shown = "+".join(value) if isinstance(value, list) else value
            parts.append(f"{key}={shown}")
    return " ".join(parts)


def rules_of(domain: str, sentence: str) -> tuple[list[str], list[str]]:
    """What a sentence says, and the codes of what is remarked of it."""
    cast = f"{CASTS[domain]} "
    reading = read(f"{cast}{sentence}", REGISTRY)
    made = [told(s) for s in reading.ast.statements if s.kind in RULES]
    return made, [r.code for r in reading.remarks]


TABLE = """
[software]
The coder may use write_file. => allow coder write_file
The coder and the tester may both use read_file. => allow coder+tester read_file
Both the coder and the tester can open files. => allow coder+tester read_file
The coder is free to open files. => allow coder read_file
The coder is entitled to use write_file and read_file. => allow coder write_file+read_file
The tester has permission to run tests. => allow tester run_tests
The tester gets to use run_tests. => allow tester run_tests
The coder has write_file and read_file at its disposal. => allow coder write_file+read_file
Give the coder write_file, and give the tester run_tests. => allow coder write_file; allow tester run_tests
Grant the tester access to run_tests. => allow tester run_tests
Access to run_tests is granted to the tester. => allow tester run_tests
The tester is granted access to run_tests. => allow tester run_tests
Allow the coder to use write_file. => allow coder write_file
Please let the coder use write_file. => allow coder write_file
Let only the coder use write_file. => allow coder write_file only
Only the coder may use write_file. => allow coder write_file only
The coder alone may use write_file. => allow coder write_file only
The coder is the only one who may use write_file. => allow coder write_file only
The coder is the only agent allowed to save files. => allow coder write_file only
Nobody but the coder may save files. => allow coder write_file only
Nobody except the coder and the tester may save files. => allow coder+tester write_file only
No agent other than the coder may use write_file. => allow coder write_file only
No one apart from the coder has access to write_file. => allow coder write_file only
No one is allowed to use write_file except the coder. => allow coder write_file only
write_file may only be used by the coder. => allow coder write_file only
write_file may be used only by the coder. => allow coder write_file only
write_file is reserved for the coder. => allow coder write_file only
write_file is restricted to the coder and the tester. => allow coder+tester write_file only
write_file is only for the coder. => allow coder write_file only
write_file is available to the coder only. => allow coder write_file only
write_file is used exclusively by the coder. => allow coder write_file only
write_file belongs to the coder alone. => allow coder write_file only
write_file: only the coder => allow coder write_file only
The coder, and nobody else, may use write_file. => allow coder write_file only
The coder and nobody else may use write_file. => allow coder write_file only
The coder may use write_file, and nobody else may. => allow coder write_file only
The coder may use write_file, but nobody else may use it. => allow coder write_file only
write_file can be used by the coder and the tester, but not by the reviewer. => allow coder+tester write_file; deny reviewer write_file
write_file and read_file can be used by the coder. => allow coder write_file+read_file
Both write_file and read_file can be used by the coder. => allow coder write_file+read_file
write_file may be used by the coder, and by the tester too. => allow coder write_file; allow tester write_file
The coder has write_file, but must not use deploy. => allow coder write_file; deny coder deploy
The coder may use write_file, but not deploy. => allow coder write_file; deny coder deploy
The coder may use write_file and the tester run_tests. => allow coder write_file; allow tester run_tests
The coder may use write_file, and so may the tester. => allow coder write_file; allow tester write_file
The coder (write_file, read_file) => allow coder write_file+read_file
Coder: write_file, read_file => allow coder write_file+read_file
run_tests -> tester => allow tester run_tests
Everyone may use read_file. => allow all read_file
All agents can open files. => allow all read_file
read_file is available to everyone. => allow all read_file
read_file may be used by anyone. => allow all read_file
Everyone except the reviewer may use write_file. => allow all write_file; deny reviewer write_file
The coder may use everything but deploy. => allow coder *; deny coder deploy
The coder may use nothing but read_file. => allow coder read_file
The reviewer may not use deploy. => deny reviewer deploy
The reviewer isn't allowed to roll out. => deny reviewer deploy
The reviewer must never use deploy. => deny reviewer deploy
The reviewer is forbidden to use deploy. => deny reviewer deploy
The reviewer has no right to use deploy. => deny reviewer deploy
The reviewer has no access to deploy. => deny reviewer deploy
Don't let the reviewer use deploy. => deny reviewer deploy
Never let the reviewer or the tester use deploy. => deny reviewer+tester deploy
Forbid the reviewer to use deploy. => deny reviewer deploy
Stop the reviewer from using deploy. => deny reviewer deploy
Keep the reviewer away from deploy. => deny reviewer deploy
deploy is off limits for the reviewer. => deny reviewer deploy
deploy is forbidden for the reviewer. => deny reviewer deploy
deploy must not be used by the reviewer. => deny reviewer deploy
deploy is not for the reviewer. => deny reviewer deploy
Neither the reviewer nor the tester may use deploy. => deny reviewer+tester deploy
Nobody may use deploy. => deny all deploy
No agent may use deploy, ever. => deny all deploy
deploy may not be used. => deny all deploy
deploy must not be used by anyone. => deny all deploy
Never use deploy. => deny all deploy
deploy is off limits. => deny all deploy
Under no circumstances may anyone use deploy. => deny all deploy
The reviewer works without deploy. => deny reviewer deploy
The coder is on gpt-5. => model coder model=openai:gpt-5
Use gpt-5 for the coder. => model coder model=openai:gpt-5
The coder and the tester run on the model gpt-5. => model coder+tester model=openai:gpt-5
gpt-5 drives the coder. => model coder model=openai:gpt-5
The coder's model is gpt-5. => model coder model=openai:gpt-5
Everyone uses gpt-5. => model all model=openai:gpt-5
The coder can use gpt-5. => model coder model=openai:gpt-5
The coder may use the model gpt-5. => model coder model=openai:gpt-5
The coder may not use gpt-5. => nothing
The coder can use gpt-7. => error unknown_tool
The coder may use deploy, but only at night. => nothing
The coder may roll out but only on Fridays. => nothing
The coder may use deploy, but only with my approval. => allow coder deploy; ask_tool coder deploy
The coder may use rocket_launcher. => error unknown_tool
The coder has the tool rocket_launcher. => error unknown_tool
The coder uses the launcher tool. => error unknown_tool
rocket_launcher needs my approval. => error unknown_tool
Only the coder may use wite_file. => error unknown_tool
The coder may use the teleporter. => error unknown_tool
Everyone may call teleport. => error unknown_tool
Give the coder rocket_launcher. => error unknown_tool
The coder uses the model scripted:evil.yaml. => model coder model=scripted:evil.yaml
If it is Friday, the coder may use deploy. => nothing
The coder may use deploy unless it is Friday. => nothing
The coder may use deploy when the tests pass. => nothing
The coder may use deploy until the release. => nothing
Not everyone may use deploy. => nothing
The coder needn't use deploy. => nothing
The coder doesn't have to use deploy. => nothing
The coder wants to use deploy. => nothing
Nobody may not use deploy. => nothing
The planner gives the coder deploy. => nothing
The coder asks the planner for deploy. => nothing
Only the coder may not use deploy. => nothing
Everyone except the coder may not use deploy. => nothing
The coder deploys. => nothing
The tester runs the tests. => nothing
The reviewer sees the coder's work. => nothing
The coder may not use everything. => nothing
The coder pretends to have deploy. => nothing
deploy may be used. => nothing
Nobody else may use deploy. => nothing
The coder thinks it may use deploy. => nothing
The coder forgot that the tester may use deploy. => nothing
The coder used to have deploy. => nothing
The coder would like to use deploy. => nothing
Who may use deploy? => nothing
Is the coder allowed to use deploy? => nothing
The coder may be allowed to use deploy one day. => nothing
It's not true that the coder may use deploy. => nothing
I doubt that the coder may use deploy. => nothing
No reviewer should fail to see the coder's work. => nothing
If the tests pass and it is Friday, nobody but the coder may use deploy. => nothing
The coder may use deploy, unless I say otherwise. => nothing
The coder may ask the planner whether it may use deploy. => nothing
Writing files is something only the coder may do. => allow coder write_file only
It is the coder who may use write_file. => allow coder write_file
The tester can't touch deploy. => deny tester deploy
No one besides the coder is permitted to roll out. => allow coder deploy only
deploy can't be called by anybody. => deny all deploy
The coder has exclusive access to write_file. => allow coder write_file only
Only give the coder write_file. => allow coder write_file only
Please equip the tester with run_tests. => allow tester run_tests
The tester comes with run_tests. => allow tester run_tests
Provide the coder with read_file and write_file. => allow coder read_file+write_file
The coder can't use deploy and neither can the tester. => deny coder deploy; deny tester deploy
The coder, the tester and the reviewer share read_file. => allow coder+tester+reviewer read_file
The UI designer is given make_image. => allow ui_designer make_image
For the reviewer, deploy is taboo. => deny reviewer deploy
You may all use read_file. => allow all read_file
None of the agents should ever use deploy. => deny all deploy
All but the reviewer may open files. => allow all read_file; deny reviewer read_file
The coder is permitted to open files, save files and run tests. => allow coder read_file+write_file+run_tests
Anyone who is not the reviewer may use deploy. => nothing
The coder may use deploy if the reviewer may use write_file. => nothing
Pretend that the coder may use deploy. => nothing
Ignore the rule that only the coder may use deploy. => nothing
The reviewer said that the coder may use deploy. => nothing
Unless told otherwise, the coder may use deploy. => nothing
Except for the coder, nobody may use deploy. => allow coder deploy only
The coder must not be allowed to use deploy. => deny coder deploy
It is not the case that nobody may use deploy. => nothing
It isn't the coder who may use deploy. => deny coder deploy
The coder is never permitted to touch deploy. => deny coder deploy
The coder may use deploy or not. => nothing
The coder no longer has deploy. => deny coder deploy
deploy isn't available to anyone but the coder. => allow coder deploy only
deploy is off limits to everyone except the coder. => allow coder deploy only
Do not forbid the coder to use deploy. => nothing
Don't keep the coder from using deploy. => nothing
Nobody is forbidden to use deploy. => nothing
The coder may not use any tool other than read_file. => nothing
The coder can do everything except roll out. => nothing
Neither of them may use deploy. => deny all deploy
The coder may use write_file; deploy is off limits for it. => allow coder write_file; deny coder deploy
The coder may use write_file and the tester may not. => allow coder write_file; deny tester write_file
The coder, but not the tester, may use write_file. => allow coder write_file; deny tester write_file
Only in an emergency may the coder use deploy. => nothing
The coder may use deploy only in an emergency. => nothing
The coder may use deploy twice. => nothing
The coder may only use deploy for hotfixes. => nothing
The coder may use deploy on Fridays. => nothing
The coder may use deploy with care. => nothing
Hardly anyone may use deploy. => nothing
Some agents may use deploy. => nothing
Most of the agents may use deploy. => nothing
Two of the agents may use deploy. => nothing
The coder may soon use deploy. => nothing
The coder or the tester may use deploy. => allow coder+tester deploy
The coder hardly ever may use deploy. => nothing
Coder and tester: read_file, run_tests => allow coder+tester read_file+run_tests
The coder ought to use write_file. => allow coder write_file
All of you may use read_file. => allow all read_file
Nobody besides the tester is to run tests. => allow tester run_tests only
The reviewer has to do without deploy. => deny reviewer deploy
The reviewer and the planner are not allowed to save files or roll out. => deny reviewer+planner write_file+deploy
No tools for the planner. => nothing
Let everyone open files, but let only the coder save files. => allow all read_file; allow coder write_file only
The coder is allowed write_file. => allow coder write_file
deploy can only ever be used by the coder. => allow coder deploy only
[operations]
Ask me before anyone uses restart_service. => ask_tool all restart_service
Ask me before the fixer uses restart_service. => ask_tool fixer restart_service
Check with me before the fixer uses restart_service. => ask_tool fixer restart_service
Before the fixer uses restart_service, ask me. => ask_tool fixer restart_service
Whenever the fixer wants to use restart_service, check with me. => ask_tool fixer restart_service
Consult me whenever the fixer is about to restart services. => ask_tool fixer restart_service
The fixer must ask me before it uses restart_service. => ask_tool fixer restart_service
The fixer asks me before using restart_service. => ask_tool fixer restart_service
The fixer needs my approval to use restart_service. => ask_tool fixer restart_service
restart_service needs my approval. => ask_tool all restart_service
restart_service requires my consent. => ask_tool all restart_service
Every use of restart_service needs my go-ahead. => ask_tool all restart_service
restart_service may only be used with my say-so. => ask_tool all restart_service
restart_service must be approved by me. => ask_tool all restart_service
Nobody may use restart_service without my approval. => ask_tool all restart_service
Never let anyone use restart_service without asking me. => ask_tool all restart_service
NEVER use restart_service without asking me first! => ask_tool all restart_service
The fixer may not use restart_service unless I approve. => ask_tool fixer restart_service
The fixer may not use restart_service without my sign-off. => ask_tool fixer restart_service
The fixer may use restart_service only with my approval. => allow fixer restart_service; ask_tool fixer restart_service
The fixer may use restart_service, but only with my approval. => allow fixer restart_service; ask_tool fixer restart_service
The fixer may use restart_service, but not without asking me. => allow fixer restart_service; ask_tool fixer restart_service
The fixer is the only one who may use restart_service, and check with me before the fixer uses it. => allow fixer restart_service only; ask_tool fixer restart_service
The fixer may use restart_service, but it has to ask me before it does. => allow fixer restart_service; ask_tool fixer restart_service
I approve every use of restart_service. => ask_tool all restart_service
I want to be asked before anyone uses restart_service. => ask_tool all restart_service
I approve every restart. => ask_tool all restart_service
I have to approve every restart. => ask_tool all restart_service
I want to approve any restart. => ask_tool all restart_service
I sign off on each restart of a service. => ask_tool all restart_service
I approve all restarts. => ask_tool all restart_service
Every restart needs my approval. => ask_tool all restart_service
Every restart must be approved by me. => ask_tool all restart_service
Ask me before each restart. => ask_tool all restart_service
The fixer asks me before each restart. => ask_tool fixer restart_service
I approve the restart. => ask all
Ask me before any risky tool. => ask_tool all
Before any risky tool is used, ask me. => ask_tool all
Any risky tool needs my approval. => ask_tool all
Check with me before anything dangerous is used. => ask_tool all
When unsure, the fixer asks a human. => gate fixer
The fixer asks a human when unsure. => gate fixer
The fixer, when unsure, asks a human. => gate fixer
If in doubt, the fixer checks with me. => gate fixer
If the fixer is in doubt, ask me. => gate fixer
Whenever the verifier isn't certain, it consults me. => gate verifier
When the verifier is not sure what to do, ask a human. => gate verifier
When unsure, ask a human. => gate all
Every agent asks a human when unsure. => gate all
If an agent is unsure, it should ask me. => gate all
Check with me if the verifier's confidence is under 75 %. => gate verifier below=0.75
If the verifier's confidence drops below 0.6, ask me. => gate verifier below=0.6
Ask me when the verifier is less than 80 % sure. => gate verifier below=0.8
If the fixer fails, continue without it. => on_error fixer policy=continue
Should the fixer fail, carry on without it. => on_error fixer policy=continue
Stop if the fixer fails. => on_error fixer policy=fail
Ask me if the fixer crashes. => on_error fixer policy=ask
If anything goes wrong, ask me. => on_error all policy=ask
If an agent fails, stop the run. => on_error all policy=fail
The fixer's failure is no reason to stop. => on_error fixer policy=continue
The verifier is optional. => on_error verifier policy=continue
The verifier may fail. => on_error verifier policy=continue
If the verifier doesn't answer, go on without it. => on_error verifier policy=continue
At most 20 steps. => limit all what=steps most=20
40 steps at most. => limit all what=steps most=40
The run takes no more than 40 steps. => limit all what=steps most=40
Max 5 at a time. => limit all what=parallel most=5
No more than 3 agents may work at the same time. => limit all what=parallel most=3
Never run more than two agents in parallel. => limit all what=parallel most=2
The verifier is switched off for now. => switch verifier
For now, the verifier is switched off. => switch verifier
Switch the verifier off. => switch verifier
Leave the verifier out this time. => switch verifier
The verifier is disabled until further notice. => switch verifier
The verifier takes no part today. => switch verifier
Before you page anyone with page_oncall, get my approval. => ask_tool all page_oncall
The fixer has to get my okay before using restart_service. => ask_tool fixer restart_service
Using restart_service requires my approval. => ask_tool all restart_service
No restart_service without my approval. => ask_tool all restart_service
Every call of page_oncall has to be confirmed by me. => ask_tool all page_oncall
Run restart_service only after I have agreed. => ask_tool all restart_service
The commander consults a human whenever it has doubts. => gate commander
Should the verifier be unsure, it asks me. => gate verifier
If the log analyst isn't at least 70 % confident, ask me. => gate log_analyst below=0.7
A human must be asked when the fixer is unsure. => gate fixer
When the verifier crashes, the run stops. => on_error verifier policy=fail
Don't stop if the verifier fails. => on_error verifier policy=continue
If the fixer can't finish, ask me what to do. => on_error fixer policy=ask
Limit the run to 30 steps. => limit all what=steps most=30
Let no more than two agents work at once. => limit all what=parallel most=2
The log analyst sits this one out. => switch log_analyst
The commander may wake people up, but only after I've said yes. => allow commander page_oncall; ask_tool commander page_oncall
No risky tool without asking me. => ask_tool all
Check back with me before the fixer touches restart_service. => ask_tool fixer restart_service
I insist on approving every use of restart_service. => ask_tool all restart_service
The verifier must wait for my approval before it starts. => ask all before=verifier
The fixer may not start before I approve. => ask all before=fixer
Don't start the fixer without my approval. => ask all before=fixer
Ignore it if the log analyst fails. => on_error log_analyst policy=continue
Nobody needs my approval to use restart_service. => nothing
The fixer doesn't need my approval to use restart_service. => nothing
Don't ask me before the fixer uses restart_service. => nothing
restart_service needs no approval. => nothing
restart_service never needs my approval. => nothing
The fixer may use restart_service without my approval. => nothing
Ask the commander before anyone uses restart_service. => nothing
The fixer never asks a human when unsure. => nothing
When sure, the fixer asks a human. => nothing
If the fixer does not fail, stop. => nothing
Don't switch the verifier off. => nothing
The verifier is not switched off. => nothing
At least 20 steps. => nothing
The fixer shall not restart services before I have given my consent. => ask_tool fixer restart_service
restart_service: only with my approval => ask_tool all restart_service
I need to sign off on every use of page_oncall. => ask_tool all page_oncall
page_oncall calls for my approval. => ask_tool all page_oncall
Have the fixer ask me before it uses restart_service. => ask_tool fixer restart_service
The commander may not wake people up without consulting me. => ask_tool commander page_oncall
Every dangerous action requires my approval. => ask_tool all
In case of doubt, the fixer should ask me. => gate fixer
The verifier turns to a human when it is not certain. => gate verifier
If the commander is less than 60 % confident, consult me. => gate commander below=0.6
Should anything fail, ask me. => on_error all policy=ask
The log analyst is on holiday this week. => switch log_analyst
Turn off the verifier for now. => switch verifier
[publishing]
The writer reviews its own work, at most 2 times. => inside writer use=review_loop rounds=2
The writer double-checks its own work. => inside writer use=review_loop
The writer goes over its own draft, up to three times. => inside writer use=review_loop rounds=3
The writer plans first, then carries the plan out. => inside writer use=planner_executor
The writer makes a plan and then executes it. => inside writer use=planner_executor
The writer plans its work before doing it. => inside writer use=planner_executor
The editor decides who works next: writer, illustrator or translator (at most 10 times). => use editor+writer+illustrator+translator use=supervisor supervisor=editor workers=writer+illustrator+translator at_most=10
The editor picks who goes next: the writer or the translator, no more than 8 times. => use editor+writer+translator use=supervisor supervisor=editor workers=writer+translator at_most=8
Only the editor sees the writer's notes. => sees editor whose=writer
The writer's notes are seen by nobody but the editor. => sees editor whose=writer
Nobody but the editor may read what the writer writes. => sees editor whose=writer
The writer's drafts are for the editor's eyes only. => sees editor whose=writer
Show the writer's notes to the editor only. => sees editor whose=writer
The translator may not see the writer's work. => sees translator whose=writer hidden
The writer's work must not be seen by the translator. => sees translator whose=writer hidden
The writer's work stays hidden from the translator. => sees translator whose=writer hidden
Hide the writer's drafts from the translator. => sees translator whose=writer hidden
Keep the writer's notes from the translator. => sees translator whose=writer hidden
Don't show the translator the writer's notes. => sees translator whose=writer hidden
Never let the translator see the writer's notes. => sees translator whose=writer hidden
The translator sees nothing of the others. => sees translator hidden
The translator works blind. => sees translator hidden
The translator knows nothing about what the others do. => sees translator hidden
The translator isn't shown anything the others write. => sees translator hidden
The translator works without seeing what the others do. => sees translator hidden
Ask me before the publisher publishes it. => ask all before=publisher
I approve the text before the publisher starts. => ask all before=publisher
The text needs my sign-off before the publisher releases it. => ask all before=publisher
Wait for my go-ahead before the publisher starts. => ask all before=publisher
Before the publisher starts, I approve the text. => ask all before=publisher
Before the publisher starts, I approve the text; if I reject it, it goes back to the writer. => ask all before=publisher reject_to=writer
The memo needs my sign-off before the publisher sends it; if I say no, send it back to the writer. => ask all before=publisher reject_to=writer
The publisher posts only once I have approved the text. => ask all before=publisher
Don't let the publisher publish anything before I have seen it. => ask all before=publisher
The translator and the illustrator use o3. => model translator+illustrator model=openai:o3
The illustrator's sketches must stay invisible to the translator. => sees translator whose=illustrator hidden
The translator shouldn't get to see the illustrator's sketches. => sees translator whose=illustrator hidden
Reveal the writer's notes to nobody but the editor. => sees editor whose=writer
Only the publisher is to post to the blog. => allow publisher publish_post only
The publisher may post to the blog once I've given my okay. => allow publisher publish_post; ask_tool publisher publish_post
The illustrator and the writer can both generate pictures, the editor can't. => allow illustrator+writer make_image; deny editor make_image
The editor polishes and double-checks its own text, no more than twice. => inside editor use=review_loop rounds=2
Not only the editor sees the writer's notes. => nothing
Everybody may see the writer's notes. => nothing
The translator need not see the writer's notes. => nothing
Don't hide the writer's notes from the translator. => nothing
The writer's notes are not hidden from the editor. => nothing
The writer never reviews its own work. => nothing
The writer does not plan first and then carry the plan out. => nothing
Run the writer on o3. => model writer model=openai:o3
The editor works with the model o3. => model editor model=openai:o3
The publisher must not publish anything without my approval. => ask all before=publisher
My approval is needed before the publisher starts. => ask all before=publisher
The publisher has to wait until I have approved. => ask all before=publisher
The writer and the translator share make_image. => allow writer+translator make_image
[back_office]
The bookkeeper may look into the books. => allow bookkeeper read_ledger
The bookkeeper, who may use read_ledger, is careful. => allow bookkeeper read_ledger
The auditor and the lawyer may use read_ledger, the messenger send_email. => allow auditor+lawyer read_ledger; allow messenger send_email
The auditor has read access to read_ledger. => allow auditor read_ledger
Only the lawyer and the auditor get to see the bookkeeper's figures. => sees lawyer+auditor whose=bookkeeper
send_payment is something the bookkeeper alone may use. => allow bookkeeper send_payment only
The bookkeeper can't pay people unless I have signed off. => ask_tool bookkeeper send_payment
Payments need care: send_payment is never to be used by the messenger. => deny messenger send_payment
I have to okay every use of send_payment. => ask_tool all send_payment
Make sure that nobody pays people without my consent. => ask_tool all send_payment
The lawyer's remarks are confidential: only the auditor may read them. => nothing
The bookkeeper, the auditor and the lawyer may all look into the books. => allow bookkeeper+auditor+lawyer read_ledger
send_email may be used by no one but the messenger. => allow messenger send_email only
The messenger is not to use send_payment. => deny messenger send_payment
The auditor and the lawyer must not see each other's work. => sees auditor whose=lawyer hidden; sees lawyer whose=auditor hidden
The lawyer should be kept away from send_payment. => deny lawyer send_payment
Make gpt-5 the model of the auditor. => model auditor model=openai:gpt-5
The whole crew runs on o3. => model all model=openai:o3
[research]
The analyst's work is visible only to the referee. => sees referee whose=analyst
The statistician mustn't know what the analyst found. => sees statistician whose=analyst hidden
The referee gets to see nothing. => sees referee hidden
Conceal the analyst's findings from the statistician. => sees statistician whose=analyst hidden
The referee must not be shown the analyst's results. => sees referee whose=analyst hidden
Nobody other than the referee reads the analyst's notes. => sees referee whose=analyst
The statistician and the referee work in isolation. => sees statistician+referee hidden
The analyst should check its own results twice. => inside analyst use=review_loop rounds=2
The scout may search the web; everyone may open files. => allow scout web_search; allow all read_file
If the scout breaks down, the rest should go on without it. => on_error scout policy=continue
The scout and nobody else is allowed to search the web. => allow scout web_search only
Should the statistician crash, we stop everything. => on_error statistician policy=fail
The analyst verifies its own numbers before handing them on, at most three times. => inside analyst use=review_loop rounds=3
web_search can be used by all agents. => allow all web_search
The statistician has draw_chart, the scout has web_search. => allow statistician draw_chart; allow scout web_search
The referee hasn't got draw_chart. => deny referee draw_chart
The scout doesn't get web_search. => deny scout web_search
The analyst first draws up a plan and then follows it. => inside analyst use=planner_executor
No one gets to see the analyst's notes apart from the referee. => sees referee whose=analyst
If the analyst is uncertain about the numbers, it asks me. => gate analyst
As soon as the analyst's confidence falls below 50 %, check with me. => gate analyst below=0.5
The statistician is turned off today. => switch statistician
Not more than 25 steps in total, please. => limit all what=steps most=25
The statistician will use draw_chart. => allow statistician draw_chart
The scout, the analyst and the referee can't use draw_chart. => deny scout+analyst+referee draw_chart
What the analyst writes is not to be seen by the statistician. => sees statistician whose=analyst hidden
The statistician does not read the analyst's notes. => sees statistician whose=analyst hidden
The referee judges without knowing what the others wrote. => sees referee hidden
The analyst's notes go to the referee only. => sees referee whose=analyst
The analyst reviews and revises its own report, 3 rounds at most. => inside analyst use=review_loop rounds=3
The scout devises a plan first and executes it afterwards. => inside scout use=planner_executor
The referee delegates to the scout and the analyst, at most 5 times. => use referee+scout+analyst use=supervisor supervisor=referee workers=scout+analyst at_most=5
If something breaks, carry on. => on_error all policy=continue
The run must not take more than 50 steps. => limit all what=steps most=50
"""


def _rows() -> Iterator[Any]:
    domain = ""
    for line in TABLE.strip().splitlines():
        if line.startswith("["):
            domain = line.strip("[]")
            continue
        sentence, _, expected = line.rpartition(" => ")
        yield pytest.param(domain, sentence, expected, id=sentence[:60])


def _nothing(expected: str) -> bool:
    return expected == "nothing" or expected.startswith("error ")


def test_there_are_enough_and_many_say_nothing() -> None:
    rows = list(_rows())
    assert len(rows) >= 200
    assert sum(_nothing(str(row.values[2])) for row in rows) >= 40


@pytest.mark.parametrize(("domain", "sentence", "expected"), list(_rows()))
def test_rules_in_many_ways(domain: str, sentence: str, expected: str) -> None:
    made, codes = rules_of(domain, sentence)
    if expected.startswith("error "):
        assert expected.removeprefix("error ") in codes
        assert not [line for line in made if line.startswith("allow")]
    elif expected == "nothing":
        assert made == []
    else:
        but_one = "+".join(tool for tool in TOOLS if tool != "deploy")
        assert made == expected.replace("*", but_one).split("; ")
        assert "not_understood" not in codes


@pytest.mark.parametrize(
    "sentence",
    [
        "We give write_file to the coder and run_tests to the tester at once.",
        "The coder may use deploy only in an emergency.",
        "The coder may use deploy, but only at night.",
        "Hardly anyone may use deploy.",
        "Don't keep the coder from using deploy.",
    ],
)
def test_what_is_not_given_is_reported(sentence: str) -> None:
    made, codes = rules_of("software", sentence)
    assert made == []
    assert {"not_understood", "read_as_words", "unknown_tool"} & {*codes}


def test_a_right_at_times_becomes_no_part_of_a_prompt() -> None:
    reading = read("The coder codes. The coder may roll out but only at night.", REGISTRY)
    assert [s.kind for s in reading.ast.statements] == ["step"]
    assert [remark.code for remark in reading.remarks] == ["not_understood"]


def test_a_model_that_is_not_offered_is_called_a_model() -> None:
    (remark,) = read("The coder codes. The coder can use gpt-7.", REGISTRY).remarks
    assert "model 'gpt-7'" in remark.diagnostic.message
    assert "openai:gpt-5" in remark.diagnostic.remedy


@pytest.mark.parametrize("tools", [0, 2, 12, 13])
def test_what_is_offered_is_said_in_one_way(tools: int) -> None:
    names = {f"t{i:02}": {"run": "m:f"} for i in range(tools)}
    registry = Registry.model_validate({"tools": names})
    offers = offered_tools(registry)
    for sentence in (
        "The coder may use frobnicate.",
        "The coder uses the frobnicate tool and drafts.",
    ):
        (remark,) = read(sentence, registry).remarks
        assert remark.diagnostic.remedy == offers
    more = {0: "no tools: name a registry", 2: "t00 and t01.", 12: "and t11.", 13: "and 1 more."}
    assert more[tools] in offers


@pytest.mark.parametrize(
    ("sentence", "code", "severity"),
    [
        ("The coder uses frobnicate", "assumed", "warning"),
        ("The coder drafts with frobnicate", "assumed", "warning"),
        ("The coder uses Slack to tell the tester", "assumed", "warning"),
        ("The coder has frobnicate", "assumed", "warning"),
        ("The coder uses the frobnicate tool and drafts", "unknown_tool", "error"),
        ("The coder drafts with frob_nicate", "unknown_tool", "error"),
    ],
)
def test_what_may_be_a_tool_and_is_not_offered_is_reported(
    sentence: str, code: str, severity: str
) -> None:
    (remark,) = read(f"{sentence}.", REGISTRY).remarks
    assert (remark.code, remark.severity) == (code, severity)
    assert remark.diagnostic.message.startswith("the registry offers no tool 'frob") == (
        "Slack" not in sentence
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "The coder drafts with care and precision",
        "The coder works with the tester",
        "The coder uses plain words and short lines",
        "The coder has finished it",
    ],
)
def test_how_something_is_done_is_no_tool(sentence: str) -> None:
    assert not read(f"The tester tests. {sentence}.", REGISTRY).remarks


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("", ["web_search"]),
        ("The scout may use read_file. ", ["web_search"]),
        ("The scout may search the web. ", []),
        ("Everyone may use web_search. ", []),
        ("The scout may not use web_search. ", []),
    ],
)
def test_a_tool_that_a_task_speaks_of_and_nothing_gives_is_named(
    given: str, missing: list[str]
) -> None:
    reading = read(f"{given}The scout searches the web. Then the writer writes.", REGISTRY)
    said = [r.diagnostic.message for r in reading.remarks if r.code == "assumed"]
    assert [tool for tool in TOOLS if any(repr(tool) in text for text in said)] == missing
    assert len(said) == len(missing)
