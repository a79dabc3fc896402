"""Options that several commands share."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crewlog.errors import UsageError

OUTPUT = "Output"
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="PATH",
        show_default=False,
        help="A file that goes with it: an image, a PDF, audio; may be repeated.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="JSON for programs: one document, or a line per event.",
        rich_help_panel=OUTPUT,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.", rich_help_panel=OUTPUT)]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)
]
RunPlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN[@POSITION]",
        help="The run as it is; or as it was: at a position, a tag, the end of a turn or of a "
        "step: notes@12, notes@draft, notes@exchange:3, notes@writer#2.",
        show_default=False,
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="RUN",
        help="The run's id. Default: the crew's name and four characters. Where that run is there "
        "already, `ask` and `chat` go on with it, and `run` does what --existing says.",
        show_default=False,
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        "--task-queue",
        metavar="NAME",
        help="The task queue of the workers. Default: CREWLOG_TASK_QUEUE, else chosen so that no "
        "step reaches a worker without the crew's code.",
        show_default=False,
    ),
]


def _named_model(name: str | None) -> str | None:
    """What `--model` says.

    Raises:
        UsageError: it says an empty name, which would choose no model.
    """
    if name is not None and not name.strip():
        raise UsageError(
            "--model is empty",
            remedy="Give the model's name, such as openai:gpt-5-mini, or leave --model out.",
        )
    return name


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        callback=_named_model,
        metavar="NAME",
        help="Of a crew's file: the model of every agent, whatever the file says. Of a prompt: the "
        "model that reads it and that its crew uses, where the prompt names none. PROVIDER:NAME or "
        "scripted:FILE.",
        show_default=False,
    ),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who says it. Default: you.", show_default=False),
]
Reason = Annotated[
    str, typer.Option("--reason", "-r", metavar="TEXT", help="Why; it is kept in the journal.")
]
CommandIdOption = Annotated[
    str | None,
    typer.Option(
        "--command-id",
        metavar="ID",
        help="The command's own id: sent again, it has no second effect.",
        show_default=False,
    ),
]
GraphVersion = Annotated[
    int | None,
    typer.Option(
        "--graph-version",
        metavar="N",
        min=1,
        help="The version that this was decided for: where the run has another one, it refuses.",
        show_default=False,
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait", help="Wait for answers that others give, instead of leaving with exit code 3."
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        help="Leave after so long, with exit code 3; the run goes on.",
        show_default=False,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Route the graph without calling anything: which node follows which and why, what "
        "is asked, what is never reached.",
    ),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="NAME[=VALUE]",
        show_default=False,
        help="In a dry run, a flag (approved, approved=false) or an output (checker.score=0.9) "
        "that agents set, or that a step fails (vendor.error, vendor.error=timeout); may be "
        "repeated.",
    ),
]


def parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """What a function takes, for `takes`."""
    return tuple(inspect.signature(function, eval_str=True).parameters.values())


def takes(
    command: Callable[..., int], given: Sequence[inspect.Parameter], help_: str | None
) -> None:
    """Has a command take parameters that are not written at it, as commands share many.

    Args:
        command: It gets all by their names.
        given: What typer reads of them: names, types, and defaults.
        help_: What the command says of itself.
    """
    command.__signature__ = inspect.Signature(given, return_annotation=int)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in given}
    command.__doc__ = help_
