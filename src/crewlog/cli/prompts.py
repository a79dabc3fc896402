"""`compile` and `explain`: what a prompt says, and why a node is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.compiling import AllowPartial, ReaderOption, RegistryOption
from crewlog.cli.options import AsJson, Assume, Debug, DryRunOption
from crewlog.errors import InvalidDefinition, UsageError, check_ineffective_options

if TYPE_CHECKING:
    from crewlog.cli.screen import Screen
    from crewlog.definition.model import CrewDefinition
    from crewlog.prompt.compiled import CompiledPrompt

PROMPTS = "Crews"
STDOUT = Path("-")
"""What `--out` takes for standard output, as other tools do."""
PromptArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROMPT",
        help="A file of prose (.md, .txt), the prose itself in quotes, or - for standard input.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="The crew's model, where the prompt names none: PROVIDER:NAME or scripted:FILE.",
        show_default=False,
    ),
]


@app.command("compile", rich_help_panel=PROMPTS)
def compile_(
    prompt: PromptArgument,
    registry: RegistryOption = None,
    model: ModelOption = None,
    reader: ReaderOption = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the crew to this YAML file; - writes it to standard output, and all else "
            "to standard error.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the file: what did not change keeps its names in it, and what people "
            "wrote into it stands.",
        ),
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Show talk and pasted text, too.")] = False,
    allow_partial: AllowPartial = False,
    dry_run: DryRunOption = False,
    assume: Assume = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what a prompt is understood to say, clause by clause.

    Each clause with the part of the crew that it became, or the reason why it became none; the
    graph; the assumptions. Nothing is started.
    """
    del debug
    from crewlog.cli.compiling import compiled, find_offer, read_source  # noqa: PLC0415
    from crewlog.cli.partly import asking_first  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415

    assumed = wanted(assume, dry_run=dry_run)
    if out is None or out == STDOUT:
        check_ineffective_options(
            "crewlog compile", {"--force": force}, "no file is written", "Add --out FILE."
        )
    if out == STDOUT and as_json:
        raise UsageError(
            "--out - and --json both write to standard output",
            remedy='Choose one of them; the JSON has the crew as "definition".',
            place="crewlog compile",
        )
    screen = Screen(as_json=as_json, aside=out == STDOUT)
    source = read_source(prompt)
    offer = find_offer(registry, source, model)
    previous = _previous(out, force=force)
    found = compiled(source, offer, reader=reader, previous=previous, as_json=as_json)
    faults = faults_of(found, allow_partial=allow_partial)
    if previous is not None and faults is None:
        from crewlog.prompt.keeping import replacing  # noqa: PLC0415

        found = replacing(found, previous, offer.registry, str(out))
    if faults is None:
        found = asking_first(found)
    return _tell(
        screen,
        found,
        faults,
        words=words,
        out=out,
        assume=assumed,
        previous=previous,
    )


def wanted(assume: list[str] | None, *, dry_run: bool) -> list[str] | None:
    """What a dry run assumes; none where none is wanted.

    Raises:
        UsageError: something is to be assumed, and nothing is to be run dry.
    """
    if assume and not dry_run:
        raise UsageError("--assume is for a dry run", remedy="Add --dry-run.")
    return list(assume or ()) if dry_run else None


def _previous(out: Path | None, *, force: bool) -> CrewDefinition | None:
    """The crew in the file that is to be replaced.

    Raises:
        UsageError: it is not to be.
        InvalidDefinition: it has faults, so that nobody knows what in it would be lost.
    """
    if out is None or out == STDOUT or not out.exists():
        return None
    if not force:
        raise UsageError(
            f"there is a file {str(out)!r} already",
            remedy="Choose another name, or use --force: what people wrote into it stands.",
            place="crewlog compile",
        )
    from crewlog.definition.load import load_file  # noqa: PLC0415

    return load_file(out)


def faults_of(
    found: CompiledPrompt, *, allow_partial: bool | None = None
) -> InvalidDefinition | None:
    """The faults of a prompt; none where it has none, or where a part of its crew is enough.

    Args:
        found: The prompt.
        allow_partial: Whether a crew that can run is enough, although the prompt has faults; none
            for a command that has no such option.
    """
    from crewlog.cli.partly import ways_on  # noqa: PLC0415

    if allow_partial and found.partial:
        return None
    diagnostics = [each.diagnostic for each in found.remarks if each.error]
    if not diagnostics:
        return None
    error = InvalidDefinition(diagnostics)
    error.hint = ways_on(found, partial=allow_partial is False)
    return error


def _tell(
    screen: Screen,
    found: CompiledPrompt,
    faults: InvalidDefinition | None,
    *,
    words: bool,
    out: Path | None,
    assume: list[str] | None,
    previous: CrewDefinition | None,
) -> int:
    from crewlog.cli.dry import dry_run_of, show_dry_run  # noqa: PLC0415
    from crewlog.cli.screen import write  # noqa: PLC0415
    from crewlog.cli.understood import as_json, show_understood  # noqa: PLC0415
    from crewlog.definition.write import to_yaml  # noqa: PLC0415
    from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

    document: dict[str, Any] = as_json(found)
    show_understood(screen, found, words=words, faults=faults is None)
    if faults is None and found.definition is not None:
        if assume is not None:
            run = dry_run_of(lower(found.definition), assume)
            document["dry_run"] = run.model_dump(mode="json")
            show_dry_run(screen, run)
        if out == STDOUT:
            write(to_yaml(found.definition).rstrip("\n"))
        elif out is not None:
            write_crew(out, found.definition, comments=previous is not None)
            document["out"] = str(out)
            screen.line("")
            screen.line(("  Written  ", "dim"), str(out))
            if previous is not None:
                document["replaced"] = _replaced(screen, previous, found.definition)
            if not found.ok:
                asks = "before its first step, each run asks people to approve the crew"
                screen.wrapped([("  Asks     ", "dim")], asks, indent=11)
            screen.line(("  Next     ", "dim"), f"crewlog {_how(found.definition)} {out}")
    if screen.as_json:
        screen.document(document)
    if faults is not None:
        if not screen.as_json and found.clauses:
            screen.line("")
        raise faults
    return exits.OK


def _how(crew: CrewDefinition) -> str:
    """The command that people use a crew by."""
    return "run" if crew.conversation is None else "chat"


def _replaced(screen: Screen, before: CrewDefinition, after: CrewDefinition) -> list[str]:
    """Shows what became of a crew's file: nothing in it goes in silence."""
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.definition.diff import diff  # noqa: PLC0415

    changes = diff(before, after).changes
    kind = ""
    for change in changes:
        label = "" if change.kind == kind else change.kind.capitalize()
        kind = change.kind
        screen.wrapped([(f"  {label:<9}", "dim")], plain(change.words), indent=11)
    return [change.words for change in changes]


def write_crew(path: Path, definition: CrewDefinition, *, comments: bool = False) -> None:
    """Write a crew's file.

    Args:
        path: The file.
        definition: The crew.
        comments: Whether the comments of the file that is there are taken over.

    Raises:
        UsageError: it cannot be written.
    """
    from crewlog.definition.comments import with_comments  # noqa: PLC0415
    from crewlog.definition.write import to_yaml  # noqa: PLC0415

    text = to_yaml(definition)
    try:
        if comments:
            text = with_comments(text, path.read_text(encoding="utf-8-sig"))
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {str(path)!r}: {error.strerror or error}",
            remedy="Choose another place.",
            place="crewlog compile",
        ) from None


@app.command(rich_help_panel=PROMPTS)
def explain(
    crew: Annotated[
        str,
        typer.Argument(
            metavar="FILE|PROMPT|CREW",
            help="A crew's file, a prompt, or a registered crew's name.",
            show_default=False,
        ),
    ],
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.", show_default=False)],
    registry: RegistryOption = None,
    model: ModelOption = None,
    reader: ReaderOption = "auto",
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Explain a node: why it is there, what it waits for, what may follow, what it may do.

    Of a compiled prompt with the words that it came from.
    """
    from crewlog.cli.compiling import compiled, find_offer, is_prompt, read_source  # noqa: PLC0415
    from crewlog.cli.explained import origin, show_explanation  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.understood import clause_view  # noqa: PLC0415
    from crewlog.reporting.explanation import explain as explain_node  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    found: CompiledPrompt | None = None
    if is_prompt(crew):
        source = read_source(crew)
        offer = find_offer(registry, source, model)
        found = compiled(source, offer, reader=reader, as_json=as_json)
        faults = faults_of(found)
        if faults is not None:
            raise faults
        definition = found.definition
    else:
        definition = _definition(crew, as_json=as_json, debug=debug)
    if definition is None:
        return exits.USAGE
    explained = explain_node(definition, node)
    if as_json:
        if found is not None:
            clauses = tuple(map(clause_view, origin(found, explained)))
            explained = explained.model_copy(update={"clauses": clauses})
        screen.document(explained.model_dump(mode="json"))
    else:
        show_explanation(screen, explained, found)
    return exits.OK


def _definition(crew: str, *, as_json: bool, debug: bool) -> CrewDefinition:
    """The definition in a file, or of a registered crew."""
    from crewlog.cli.files import is_file, load_crew  # noqa: PLC0415

    if is_file(crew):
        return load_crew(crew)
    kept: list[CrewDefinition] = []

    async def ask() -> int:
        from crewlog.cli.screen import Screen  # noqa: PLC0415
        from crewlog.cli.services import connected  # noqa: PLC0415
        from crewlog.definition.model import CrewDefinition  # noqa: PLC0415
        from crewlog.ids import CrewName  # noqa: PLC0415

        async with connected(Screen(as_json=as_json), both=True) as client:
            store = await client.store()
            row = await store.get_crew(CrewName(crew))
            if row is not None:
                found = await store.get_definition(row.definition)
                kept.append(CrewDefinition.from_json(found))
        return exits.OK

    go(ask(), debug=debug)
    if not kept:
        raise UsageError(
            f"there is no file and no registered crew {crew!r}",
            remedy="Give a crew's file or a prompt, or register the crew: `crewlog register FILE`.",
            place="crewlog explain",
        )
    return kept[0]
