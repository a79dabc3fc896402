"""`run` and `demo`: start a crew and follow it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.compiling import AllowPartial, ReaderOption, RegistryOption
from crewlog.cli.options import (
    AsJson,
    By,
    Debug,
    Files,
    Id,
    Model,
    Queue,
    Timeout,
    Wait,
)
from crewlog.errors import UsageError, check_ineffective_options

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition

CREWS = "Crews"
REAL_MODEL = "openai:gpt-5-mini"
DEMO_INPUT = (
    "Build the skeleton of a music player app in Flutter: a player screen, a library, "
    "offline playback."
)
Existing = Literal["reject", "attach", "replace"]
"""What may be done where there is a run of an id."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"

NO_PROMPT = "the crew is no prompt"
OF_PROMPTS = "Leave it out; a crew's own questions are answered with --answer."
REGISTERED = "a registered crew has its models"
GIVE_THE_FILE = "Give the path of the crew's file instead of its name."

Detach = Annotated[
    bool,
    typer.Option("--detach", "-d", help="Start it and return; a worker in the background has it."),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="DECISION",
        show_default=False,
        help="Answer the next question that this fits: an option, or for a question of the crew "
        "approve, reject, or words; may be repeated.",
    ),
]


@app.command(rich_help_panel=CREWS)
def run(
    crew: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|PROMPT|CREW",
            help="A crew's file, a prompt (.md, .txt, or prose in quotes), or a registered crew. "
            "Left out: the default crew.",
            show_default=False,
        ),
    ] = None,
    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="TEXT",
            help="What the crew is asked to do; - reads standard input.",
        ),
    ] = "",
    file: Files = None,
    id: Id = None,
    detach: Detach = False,
    wait: Wait = False,
    timeout: Timeout = None,
    answer: Answers = None,
    model: Model = None,
    task_queue: Queue = None,
    by: By = None,
    registry: RegistryOption = None,
    reader: ReaderOption = "auto",
    allow_partial: AllowPartial = False,
    existing: Annotated[
        str,
        typer.Option(
            "--existing",
            metavar="reject|attach|replace",
            help="Where there is a run of that --id: refuse, follow that one, or end it and start "
            "anew.",
        ),
    ] = "reject",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Approve what a prompt was compiled to, where the crew's policy allows it.",
        ),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Run a crew and follow it to its end.

    A prompt is compiled first: what was understood is shown, and a person approves it, edits it
    or rejects it.

    Needs no set-up: servers are started if they are not there, and a worker runs for as long as
    this command. Ctrl-C leaves the run where it is; `crewlog watch RUN` goes on with it.
    """
    from crewlog.cli.compiling import is_prompt, text_of_input  # noqa: PLC0415
    from crewlog.cli.files import is_file  # noqa: PLC0415

    if detach and (wait or answer or timeout):
        raise UsageError(
            "--detach does not go with --wait, --answer or --timeout",
            remedy="Answer a detached run's questions with `crewlog answer RUN`; wait for its end "
            "with `crewlog watch RUN --timeout SECONDS`.",
            place="crewlog run",
        )
    crew = _default_crew(as_json=as_json, debug=debug) if crew is None else crew
    if not is_prompt(crew):
        of_prompt = {
            "--registry": registry,
            "--reader": reader != "auto",
            "--allow-partial": allow_partial,
            "--yes": yes,
        }
        check_ineffective_options("crewlog run", of_prompt, NO_PROMPT, OF_PROMPTS)
    found: CrewDefinition | str = crew
    directory = Path.cwd()
    source: Path | None = None
    if is_prompt(crew):
        approval = _from_prompt(
            crew,
            registry,
            model=model,
            reader=reader,
            allow_partial=allow_partial,
            yes=yes,
            input=input,
            as_json=as_json,
        )
        if approval is None:
            return exits.STOPPED
        found, directory = approval
    elif is_file(crew):
        found = loaded(crew, model)
        source = None if model else Path(crew)
        directory = Path(crew).resolve().parent
    else:
        check_ineffective_options("crewlog run", {"--model": model}, REGISTERED, GIVE_THE_FILE)
    input = text_of_input(input)
    return _go(
        found,
        directory,
        file=source,
        files=tuple(file or ()),
        input=input,
        id=id,
        by=by,
        queue=task_queue,
        detach=detach,
        wait=wait,
        timeout=timeout,
        answers=tuple(answer or ()),
        existing=_existing(existing),
        of_new={
            "--file": file,
            "--model": model,
            "--registry": registry,
            "--reader": reader != "auto",
            "--allow-partial": allow_partial,
            "--yes": yes,
        },
        as_json=as_json,
        debug=debug,
    )


def _default_crew(*, as_json: bool, debug: bool) -> str:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    found: list[str] = []

    async def look() -> int:
        async with connected(Screen(as_json=as_json), both=True) as client:
            found.append(await client.catalog.chosen_crew())
        return exits.OK

    code = go(look(), debug=debug)
    if not found:
        raise typer.Exit(code)
    return found[0]


def _existing(text: str) -> Existing:
    """What `--existing` says.

    Raises:
        UsageError: it says something else.
    """
    match text:
        case "reject" | "attach" | "replace":
            return text
        case _:
            raise UsageError(
                f"--existing {text} is not understood",
                remedy="Say reject, attach or replace.",
                place="crewlog run",
            )


def _go(
    crew: CrewDefinition | str,
    directory: Path,
    *,
    file: Path | None = None,
    files: tuple[Path, ...] = (),
    input: str = "",
    id: str | None = None,
    by: str | None = None,
    queue: str | None = None,
    note: str = "",
    detach: bool = False,
    wait: bool = False,
    timeout: float | None = None,
    answers: tuple[str, ...] = (),
    existing: Existing = "reject",
    of_new: Mapping[str, object] | None = None,
    tell: bool = False,
    as_json: bool = False,
    debug: bool = False,
) -> int:
    from crewlog.cli.follow import Manner  # noqa: PLC0415
    from crewlog.cli.following import Start, start_and_follow, start_and_leave  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    start = Start(
        crew=crew,
        directory=directory,
        input=input,
        id=id,
        by=by,
        queue=queue,
        note=note,
        file=file,
        files=files,
        existing=existing,
        of_new=of_new or {},
    )
    if detach:
        return go(start_and_leave(screen, start), debug=debug)
    manner = Manner(
        ask=screen.asks, leave=not wait, answers=answers, by=by, rests=not wait, timeout=timeout
    )
    return go(start_and_follow(screen, start, manner, tell=tell), debug=debug)


def _from_prompt(
    prompt: str,
    registry: str | None,
    *,
    model: str | None,
    reader: str,
    allow_partial: bool,
    yes: bool,
    input: str,
    as_json: bool,
) -> tuple[CrewDefinition, Path] | None:
    """What a prompt was approved to be, and where its code is; none where a person said no.

    Raises:
        InvalidDefinition: the prompt has errors.
        UsageError: nobody is here to approve.
    """
    from crewlog.cli.approving import Rejected, approved  # noqa: PLC0415
    from crewlog.cli.compiling import (  # noqa: PLC0415
        STDIN,
        code_directory,
        compiled,
        find_offer,
        read_source,
    )
    from crewlog.cli.prompts import faults_of  # noqa: PLC0415
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.understood import approval_json, show_understood  # noqa: PLC0415

    if prompt == input == STDIN:
        raise UsageError(
            "standard input cannot be both the prompt and the input",
            remedy="Give the prompt as a file.",
            place="crewlog run",
        )
    screen = Screen(as_json=as_json)
    source = read_source(prompt)
    offer = find_offer(registry, source, model)
    found = compiled(source, offer, reader=reader, as_json=as_json)
    faults = faults_of(found, allow_partial=allow_partial)
    show_understood(screen, found, faults=faults is None)
    if faults is not None:
        screen.line("")
        raise faults
    try:
        definition = approved(screen, found, offer.registry, yes=yes)
    except KeyboardInterrupt:
        screen.line("")
        screen.line(("■ ", "yellow"), "interrupted. ", ("Nothing was started.", "dim"))
        raise
    except Rejected as no:
        reason = f": {plain(no.reason)}" if no.reason else ""
        screen.line("")
        screen.line(("■ ", "yellow"), f"rejected{reason}. ", ("Nothing was started.", "dim"))
        return None
    if as_json:
        screen.record(approval_json(found, definition))
    return definition, code_directory(source, offer)


def loaded(file: str, model: str | None) -> CrewDefinition:
    """The crew in a file, with another model if one is named."""
    from crewlog.cli.files import load_crew  # noqa: PLC0415

    return load_crew(file, model or "")


@app.command(rich_help_panel=CREWS)
def demo(
    id: Id = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Run the Flutter music app crew, from nothing to its result.

    A scripted model stands in, unless OPENAI_API_KEY is set; CREWLOG_MODEL names another.
    """
    file = demo_file()
    chosen = os.environ.get("CREWLOG_MODEL")
    if chosen:
        note = f"▸ model: {chosen} (CREWLOG_MODEL)"
    elif os.environ.get("OPENAI_API_KEY"):
        chosen = REAL_MODEL
        note = f"▸ model: {chosen} (OPENAI_API_KEY is set)"
    else:
        note = "▸ model: scripted (set OPENAI_API_KEY for a real one)"
    definition = loaded(str(file), chosen)
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(4))
    code = _go(
        definition,
        file.parent,
        id=id or f"music-{suffix}",
        note=note,
        tell=True,
        input=DEMO_INPUT,
        as_json=as_json,
        debug=debug,
    )
    if code == exits.OK and not as_json:
        from crewlog.cli.screen import Screen  # noqa: PLC0415

        Screen().line(("  Next     ", "dim"), "a crew of your own: crewlog init my-crew")
    return code


def demo_file() -> Path:
    """The demo crew's file in this checkout.

    Raises:
        UsageError: this is no checkout.
    """
    inside = Path("examples", "flutter_music_app", "crew.yaml")
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (root / inside).is_file():
            return root / inside
    raise UsageError(
        "the demo's crew is not here: it comes with a checkout of the repository",
        remedy="Run it in a clone, or begin a crew of your own: `crewlog init my-crew`.",
        place=str(inside),
    )
