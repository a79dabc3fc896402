"""What a tool may touch, as a definition says it: hosts, checks of arguments, and MCP servers."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from crewlog.definition.matching import NotLinear, pattern_of
from crewlog.definition.shorthand import whole_of
from crewlog.model import Json, Model

MCP_RUN = re.compile(r"mcp:([A-Za-z][A-Za-z0-9_-]{0,63})/([A-Za-z0-9_./-]{1,128})")
"""`mcp:SERVER/TOOL`, the `run` of a tool that a server has."""
_HOST = re.compile(
    r"(?:(?P<scheme>https?)://)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]/:]+))"
    r"(?::(?P<port>\d{1,5}))?(?:/(?P<bits>\d{1,3}))?"
)
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_WIDEST = {4: 8, 6: 16}
"""A network may not be wider than this, in bits: else one entry would open everything."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class HostRule:
    """An entry of `hosts`, read."""

    text: str
    """As it is written."""
    name: str
    """A host, `*.example.org`, or `*`; empty for addresses."""
    network: Network | None
    """The addresses, where they are named by number."""
    scheme: str
    """`http` or `https`; empty for addresses of either."""
    port: int | None
    """The port; none: the scheme's own."""


@lru_cache(4096)
def parse_host(text: str) -> HostRule:
    """An entry of `hosts`.

    Args:
        text: `api.example.org`, `*.example.org`, `*` (any public host), `http://localhost:8080`,
            `10.0.3.7:9200`, or a network as `10.0.0.0/8`. Without a scheme, a name means https.

    Raises:
        ValueError: for anything else.
    """
    network = _network(text)
    if network is not None:
        return HostRule(text, "", network, "", None)
    match = _HOST.fullmatch(text)
    if match is None:
        raise ValueError(
            "a host is written as api.example.org, *.example.org, http://localhost:8080 "
            "or 10.0.0.0/8"
        )
    host = (match["six"] or match["host"]).lower()
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"there is no port {port}")
    network = _network(host + (f"/{match['bits']}" if match["bits"] else ""))
    if network is not None:
        return HostRule(text, "", network, match["scheme"] or "", port)
    if match["bits"] or match["six"] or ends_in_number(host):
        raise ValueError("an address is written in full: 10.0.3.7, [fd00::7], or 10.0.0.0/8")
    if host != "*":
        if not host.isascii():
            raise ValueError("a host outside of ASCII is written as DNS has it: xn--…")
        if not _NAME.fullmatch(host) or len(host) > 253:
            raise ValueError(f"{host!r} is no host name")
    return HostRule(text, host, None, match["scheme"] or "https", port)


def ends_in_number(host: str) -> bool:
    """Whether some reader takes a host for an IPv4 address: `127.1`, `0x7f000001`, `017700000001`.

    This is how browsers tell: by the last label alone.
    """
    last = host.rstrip(".").rpartition(".")[2]
    return bool(re.fullmatch(r"[0-9]+|0[xX][0-9A-Fa-f]*", last))


def _network(text: str) -> Network | None:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    if network.prefixlen < _WIDEST[network.version]:
        raise ValueError(f"the network {text} is too wide: at least /{_WIDEST[network.version]}")
    return network


def _checked_host(value: Json) -> Json:
    if isinstance(value, str):
        parse_host(value)
    return value


Host = Annotated[str, BeforeValidator(_checked_host), WithJsonSchema({"type": "string"})]
"""`api.example.org`, `*.example.org`, `*`, `http://localhost:8080`, `10.0.3.7:9200`,
`10.0.0.0/8`."""


def _check_of(value: Json) -> Json:
    """`url` for `{is: url}`."""
    return whole_of(value, "is", "enum")


class ArgumentCheck(Model):
    """What an argument of a tool must be, besides what its type says."""

    is_: Literal["path", "url"] | None = Field(default=None, alias="is")
    """`path`: a file inside the workspace and the tool's `paths`. `url`: one that `hosts`
    allows."""
    pattern: str | None = None
    """A regular expression that the whole text must match; matched in linear time, as Rust's
    `regex` has them: without look-around and back-references."""
    enum: tuple[Json, ...] | None = None
    """The only values that it may have."""
    minimum: float | None = None
    """The least that a number may be."""
    maximum: float | None = None
    """The most that a number may be."""
    longest: int | None = Field(default=None, ge=0)
    """How many characters a text may have."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        if self.pattern is not None and not _is_expression(self.pattern):
            raise ValueError("the pattern is no regular expression")
        return self


def _is_expression(text: str) -> bool:
    """Whether a text is a regular expression; `reach_checks` refuses one that is not linear."""
    try:
        pattern_of(text)
    except NotLinear:
        with suppress(re.error, RecursionError, OverflowError, MemoryError):
            re.compile(text)
            return True
        return False
    return True


Check = Annotated[
    ArgumentCheck,
    BeforeValidator(_check_of),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["path", "url"], "type": "string"},
                ArgumentCheck.model_json_schema(by_alias=True),
            ]
        }
    ),
]
"""`path`, `url`, or a check in full."""


class McpServer(Model):
    """A server of tools by the Model Context Protocol: a program, or an address."""

    command: str | None = Field(default=None, min_length=1)
    """The program, which a worker starts and speaks with over its input and output."""
    args: tuple[str, ...] = ()
    """The program's arguments."""
    env: dict[str, str] = Field(default_factory=dict)
    """The program's environment, besides the few variables that any program needs. A secret is
    named, as `env:NAME` of the worker's environment."""
    url: str | None = Field(default=None, min_length=1)
    """The address of a server that speaks streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of every request to the address. A secret is named, as `env:NAME`."""
    hosts: tuple[Host, ...] = ()
    """Hosts, besides the address's own, that it may lead to; and the networks of a private one."""
    tools: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,128}$")], ...] = ()
    """Tools of the server that the crew has: short for `NAME: {run: "mcp:SERVER/NAME"}` under
    `tools`, which is how they are kept."""
    prefix: str = Field(default="", pattern=r"^([A-Za-z][A-Za-z0-9_-]{0,31})?$")
    """What the names of `tools` begin with in the crew."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("exactly one of `command` and `url` is needed")
        return self

    @property
    def source(self) -> str:
        """Which server this is, for approvals of its tools; no secret is in it."""
        if self.url is not None:
            return self.url
        # As a shell spells it: words that have blanks are no other words without them.
        return shlex.join(["stdio", self.command or "", *self.args])


def mcp_tool(run: str) -> tuple[str, str] | None:
    """The server and the tool that a tool's `run` names; none where it names a function."""
    match = MCP_RUN.fullmatch(run)
    return (match[1], match[2]) if match else None


def servers_of(runs: Iterable[str], servers: Mapping[str, McpServer]) -> dict[str, McpServer]:
    """The servers that some tools are of, by what the tools run."""
    named = {found[0] for run in runs if (found := mcp_tool(run))}
    return {name: server for name, server in servers.items() if name in named}


def name_in_crew(tool: str, prefix: str) -> str:
    """What a server's tool is called in a crew: as there, with what no name may have replaced."""
    name = prefix + re.sub(r"[^A-Za-z0-9_-]", "_", tool)
    return (name if name[:1].isalpha() else f"tool_{name}")[:64]
