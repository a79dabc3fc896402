"""`ask`: a question to a crew, and its answer; or people are asked before an agent's calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import (
    AsJson,
    By,
    CommandIdOption,
    Debug,
    Id,
    Model,
    Queue,
)
from crewlog.errors import UsageError, check_ineffective_options

if TYPE_CHECKING:
    from crewlog.cli.following import Start
    from crewlog.cli.screen import Screen
    from crewlog.definition.model import CrewDefinition
    from crewlog.model import Json
    from crewlog.wire import InterruptView, RunResult


PLACE = "crewlog ask"


@app.command(rich_help_panel="Crews")
def ask(
    crew: Annotated[
        str,
        typer.Argument(
            metavar="FILE|CREW",
            help="A crew's file, or a registered crew. With AGENT and TOOL: a run.",
            show_default=False,
        ),
    ],
    input: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|AGENT",
            help="What is asked; - reads standard input. With TOOL: an agent of the run.",
            show_default=False,
        ),
    ],
    tool: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOOL]",
            help="People are asked before each call that the agent makes of it.",
            show_default=False,
        ),
    ] = None,
    id: Id = None,
    to: Annotated[
        str, typer.Option("--to", metavar="LOG", help="The audience in an open run.")
    ] = "public",
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", help="Wait no longer; the run goes on.", min=0.1
        ),
    ] = None,
    model: Model = None,
    task_queue: Queue = None,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", "-r", metavar="TEXT", help="With TOOL: why; it is kept in the journal."
        ),
    ] = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Ask a crew, and print its answer; or, with RUN AGENT TOOL, be asked before each such call.

    The answer is what the last of the crew's agents said.

    The run is started if it is not there, and answers in the same round trip. Standard output has
    the answer alone. Nobody is asked here: a run that asks people waits for `crewlog answer`, and
    that it does is told on standard error.
    """
    from crewlog.cli.compiling import text_of_input  # noqa: PLC0415
    from crewlog.cli.files import is_file, load_crew  # noqa: PLC0415
    from crewlog.cli.following import Start  # noqa: PLC0415
    from crewlog.cli.run import GIVE_THE_FILE, REGISTERED  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.wire import is_prompt  # noqa: PLC0415

    if tool is not None:
        from crewlog.cli.permitting import Command, ruled  # noqa: PLC0415

        of_start = {
            "--id": id,
            "--to": to != "public",
            "--timeout": timeout,
            "--model": model,
            "--task-queue": task_queue,
        }
        check_ineffective_options(PLACE, of_start, "RUN AGENT TOOL starts nothing", "Leave it out.")
        who = Command(reason, by, None, command_id)
        return go(ruled(crew, input, tool, "ask", who, as_json=as_json), debug=debug)
    of_ruling = {"--reason": reason, "--command-id": command_id}
    check_ineffective_options(PLACE, of_ruling, "it goes with RUN AGENT TOOL", "Leave it out.")
    found: CrewDefinition | str = crew
    if is_file(crew):
        found = load_crew(crew, model or "")
    elif is_prompt(crew):
        raise UsageError(
            "a prompt must be approved before it runs, and asking waits for nobody",
            remedy="Make a crew of it: crewlog compile PROMPT --out crew.yaml.",
            place="crewlog ask",
        )
    else:
        check_ineffective_options(PLACE, {"--model": model}, REGISTERED, GIVE_THE_FILE)
    text = text_of_input(input)
    if not text.strip():
        raise UsageError(
            "nothing is asked: the text is empty",
            remedy="For example: crewlog ask notes 'What changed since v2.1?'",
            place="crewlog ask",
        )
    start = Start(
        crew=found,
        directory=Path(crew).resolve().parent if is_file(crew) else Path.cwd(),
        input=text,
        id=id,
        by=by,
        queue=task_queue,
        file=Path(crew) if is_file(crew) and not model else None,
    )
    screen = Screen(as_json=as_json)
    return go(_ask(screen, start, to, timeout, as_json=as_json), debug=debug)


async def _ask(
    screen: Screen, start: Start, to: str, timeout: float | None, *, as_json: bool
) -> int:
    from crewlog.cli.following import assign_for, definition_of_start, ready  # noqa: PLC0415
    from crewlog.cli.hands import hand  # noqa: PLC0415

    assignment = assign_for(start)
    async with ready(screen, assignment) as client, hand(assignment):
        definition = await definition_of_start(client, start.crew)
        client.mentions = not assignment.own
        result = await client.ask(
            start.crew,
            start.input,
            id=start.id,
            by=start.by,
            to=to,
            timeout=timeout,
            tell=partial(_waits, screen),
        )
    if as_json:
        screen.document(result.model_dump(mode="json"))
    else:
        _tell(screen, result, definition)
    return exits.STOPPED if result.status == "stopped" else exits.OK


def _waits(screen: Screen, run: str, questions: Sequence[InterruptView]) -> None:
    """Says on standard error whom a run waits for: nobody is asked here."""
    from crewlog.cli.questions import answer_line  # noqa: PLC0415
    from crewlog.cli.screen import plain  # noqa: PLC0415

    for each in questions:
        screen.note(("▸ ", "yellow"), f"{run} waits for people: {each.id}: {plain(each.question)}")
        screen.note("  ", *answer_line(run, each))


def _tell(screen: Screen, result: RunResult, definition: CrewDefinition | None) -> None:
    from crewlog.cli.screen import plain, plain_lines, tell_warning, write  # noqa: PLC0415

    tell_warning(screen, result.warning, aside=True)
    if result.response is not None:  # a conversation, which goes on
        write(plain_lines(result.response.text))
        return
    answers = _answers(result, definition)
    for agent, said in answers.items():
        if len(answers) > 1:
            screen.line((f"{plain(agent)}:", "bold"))
        write(plain_lines(said if isinstance(said, str) else json.dumps(said)))


def _answers(result: RunResult, definition: CrewDefinition | None) -> dict[str, Json]:
    """What the agents said that nothing follows, or the root; of an unknown crew, all of them."""
    from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

    said = {str(agent): found["text"] for agent, found in result.outputs.items() if "text" in found}
    if definition is None:
        return said
    plan = lower(definition)
    root = plan.graph.root if plan.graph is not None else None
    if root in said:  # whoever else lives there speaks to others
        return {root: said[root]}
    nodes = plan.nodes
    waited = {source for node in nodes.values() if node.join for source in node.join.of}
    last = {str(a) for name, node in nodes.items() if name not in waited for a in node.agents}
    return {agent: text for agent, text in said.items() if agent in last} or said
