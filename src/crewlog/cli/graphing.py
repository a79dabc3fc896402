"""`graph`: draws graphs, and changes those of creatures while they live."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typing_extensions import override

from crewlog.cli.app import Grouped, app, go
from crewlog.cli.options import (
    AsJson,
    By,
    CommandIdOption,
    Debug,
    GraphVersion,
    RunArgument,
    parameters,
    takes,
)

if TYPE_CHECKING:
    from crewlog.definition.operations import Operation
    from crewlog.model import Json


class Drawing(Grouped):
    """Commands of a graph; a word that is none of them is a file or a run, which is drawn."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts `show` before what is no command."""
        first, second = (*args, "", "")[:2]
        if first and first not in (*self.commands, *ctx.help_option_names):
            if second and not second.startswith("-") and not first.startswith("-"):
                raise _no_command(first, [*self.commands])
            args = ["show", *args]
        return super().parse_args(ctx, args)


def _no_command(typed: str, there: list[str]) -> Exception:
    from crewlog.definition.findings import did_you_mean  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415

    return UsageError(
        f"`crewlog graph` has no command {typed!r}",
        remedy=did_you_mean(typed, there, f"There are: {', '.join(there)}."),
        place="crewlog graph",
    )


graph = typer.Typer(
    name="graph",
    cls=Drawing,
    help="Draw the graph of a crew's file or of a run, or change that of a run whose agents listen."
    "\n\n`crewlog graph FILE|RUN` draws; it is `crewlog graph show FILE|RUN`.",
    short_help="Draw a crew's graph, or a run's; add, connect and remove who lives there.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
    subcommand_metavar="FILE|RUN, or COMMAND …",
)
app.add_typer(graph, rich_help_panel="Crews")

Agent = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.", show_default=False)]
Destination = Annotated[
    str, typer.Argument(metavar="TO", help="An agent, or channel:C.", show_default=False)
]
Sender = Annotated[
    str, typer.Argument(metavar="SENDER", help="The agent that sends.", show_default=False)
]
Listener = Annotated[
    str, typer.Argument(metavar="LISTENER", help="The agent that listens.", show_default=False)
]
OtherRun = Annotated[
    str | None,
    typer.Option(
        "--with",
        metavar="RUN",
        help="The run in which the other end lives: the two runs become one.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]
Why = Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Why.")]


def _some(flag: str, metavar: str, help_: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help_, show_default=False)


@graph.command()
def show(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|RUN", help="A crew's file, or a run's id.", show_default=False
        ),
    ],
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Mermaid text instead of a picture.")
    ] = False,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            metavar="N",
            min=1,
            help="Of a run: an earlier graph, as it was when the run got another one.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Draw a crew's graph, or a run's with the state of its nodes."""
    from crewlog.cli.drawing import draw_graph  # noqa: PLC0415

    return go(draw_graph(target, mermaid=mermaid, version=version, as_json=as_json), debug=debug)


def _change(name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a command of an operation: the run, its own arguments, and what every change has.

    Args:
        name: The command's name, where it is not the function's.
    """

    def made(operation: Callable[..., Any]) -> Callable[..., Any]:
        own = parameters(operation)

        def command(**given: Any) -> int:
            typed = {each.name: given.pop(each.name) for each in own}
            run, debug = given.pop("run"), given.pop("debug")
            how = {each: given.pop(each) for each in ("reason", "by", "graph_version")}
            return _do(run, operation(**typed), _place(typed), how, debug=debug, **given)

        run, *options = parameters(_options)
        takes(command, (run, *own, *options), operation.__doc__)
        graph.command(name=name or operation.__name__)(command)
        return operation

    return made


def _options(
    run: RunArgument,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Why = "",
    by: By = None,
    graph_version: GraphVersion = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What all commands have that change a graph."""


def _place(typed: dict[str, Any]) -> str:
    """Where an operation is typed: `crewlog graph`; with a file, the options beside it, and it."""
    from crewlog.cli.change_terms import GRAPH  # noqa: PLC0415

    file = typed.get("file")
    options = [f"--{key}" for key, value in typed.items() if value and key not in ("name", "file")]
    return " ".join([GRAPH, *options, "--file", file]) if file else GRAPH


def _do(
    run: str, operation: Operation, place: str, how: dict[str, Any], *, debug: bool, **rest: Any
) -> int:
    """Shows an operation on a run's graph and makes it, as `crewlog change` does."""
    from crewlog.cli.changes import Wanted  # noqa: PLC0415
    from crewlog.cli.changing import make_change  # noqa: PLC0415

    typed = Wanted(operations=(operation,), places=(place,))
    return go(make_change(run, typed, how, **rest), debug=debug)


@_change()
def add(
    name: Agent,
    like: Annotated[
        str | None, _some("--like", "AGENT", "An agent of the run that it is like in the rest.")
    ] = None,
    file: Annotated[
        str | None, _some("--file", "FILE", "The agent as YAML, or its prompt (.md, .txt).")
    ] = None,
    prompt: Annotated[
        str | None, _some("--prompt", "TEXT", "Its prompt, or the file of it.")
    ] = None,
    listen: Annotated[
        list[str] | None, _some("--listen", "CHANNEL", "It has a turn for what is said there.")
    ] = None,
    send: Annotated[list[str] | None, _some("--send", "CHANNEL", "It may send there.")] = None,
    wire: Annotated[
        list[str] | None, _some("--wire", "TO", "Its final messages go there: AGENT, channel:C.")
    ] = None,
    parent: Annotated[
        str | None, _some("--parent", "AGENT", "Whom it works for: they stay in one graph.")
    ] = None,
    beside: Annotated[
        str | None, _some("--beside", "AGENT", "In whose graph it stays without a channel.")
    ] = None,
) -> Any:
    """Let an agent come to a live graph; channels that it names and that are not there are made."""
    from crewlog.cli.changes import agent_in, names_in, prompt_in  # noqa: PLC0415
    from crewlog.definition.operations import AddAgent  # noqa: PLC0415

    edges: dict[str, Json] = {
        "prompt": None if prompt is None else prompt_in(prompt, "crewlog graph add --prompt"),
        "listen": names_in(listen),
        "send": names_in(send),
        "wires": names_in(wire),
        "parent": parent,
        "beside": beside,
    }
    own = {key: value for key, value in edges.items() if value}
    agent = {**(agent_in(file, "crewlog graph add --file") if file else {}), **own}
    return _made(AddAgent, name=name, agent=agent, like=like)


@_change()
def remove(name: Agent) -> Any:
    """Let an agent go: a turn under way ends first, and what led to it goes along."""
    from crewlog.definition.operations import RemoveAgent  # noqa: PLC0415

    return _made(RemoveAgent, name=name)


@_change()
def start(name: Agent) -> Any:
    """Switch an agent on that was switched off."""
    from crewlog.definition.operations import EnableAgent  # noqa: PLC0415

    return _made(EnableAgent, name=name)


@_change("stop-node")
def stop_node(name: Agent) -> Any:
    """Switch an agent off: it stays where it is connected, and has no turns."""
    from crewlog.definition.operations import DisableAgent  # noqa: PLC0415

    return _made(DisableAgent, name=name)


@_change()
def channel(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The channel's name.", show_default=False)
    ],
    remove: Annotated[
        bool, typer.Option("--remove", help="Take it away, with all that leads there.")
    ] = False,
    description: Annotated[
        str | None, _some("--description", "TEXT", "What it is for, in a line.")
    ] = None,
) -> Any:
    """Make a channel, which connects nobody by itself; or take one away."""
    from crewlog.definition.operations import AddChannel, RemoveChannel  # noqa: PLC0415

    if remove and description is not None:
        raise _either("--remove", "--description")
    if remove:
        return _made(RemoveChannel, name=name)
    return _made(AddChannel, name=name, description=description)


@_change()
def wire(
    name: Agent,
    to: Destination,
    other: OtherRun = None,
) -> Any:
    """Let an agent's final messages go to another agent, too, or to a channel."""
    from crewlog.definition.operations import Wire  # noqa: PLC0415

    return _made(Wire, name=name, to=to, other=other)


@_change()
def unwire(
    name: Agent,
    to: Destination,
) -> Any:
    """Let an agent's final messages go there no more."""
    from crewlog.definition.operations import Unwire  # noqa: PLC0415

    return _made(Unwire, name=name, to=to)


@_change()
def connect(
    sender: Sender,
    listener: Listener,
    channel: Annotated[
        str | None, _some("--channel", "CHANNEL", "Over which. Default: SENDER-to-LISTENER.")
    ] = None,
    other: OtherRun = None,
) -> Any:
    """Let an agent send to a channel, and another one listen to it."""
    from crewlog.definition.operations import Connect  # noqa: PLC0415

    return _made(Connect, sender=sender, listener=listener, channel=channel, other=other)


@_change()
def disconnect(
    sender: Sender,
    listener: Listener,
    channel: Annotated[
        str | None, _some("--channel", "CHANNEL", "Which. Default: all from the one to the other.")
    ] = None,
) -> Any:
    """Let what an agent says in a channel be heard by another one no more; others hear it still."""
    from crewlog.definition.operations import Disconnect  # noqa: PLC0415

    return _made(Disconnect, sender=sender, listener=listener, channel=channel)


def _either(one: str, other: str) -> Exception:
    from crewlog.errors import UsageError  # noqa: PLC0415

    return UsageError(
        f"{one} and {other} do not go together", remedy=f"Leave {other} out.", place="crewlog graph"
    )


def _made(kind: type[Any], **fields: Json) -> Operation:
    """An operation of what was typed.

    Raises:
        UsageError: a name is none.
    """
    from pydantic import ValidationError  # noqa: PLC0415

    from crewlog.cli.change_terms import ARGUMENTS  # noqa: PLC0415
    from crewlog.cli.changes import no_name  # noqa: PLC0415

    try:
        operation: Operation = kind(**fields)
    except ValidationError as error:
        raise no_name(error, "crewlog graph", ARGUMENTS) from None
    return operation
