"""What a tool call may touch: paths in the workspace, URLs, and the addresses that names lead to.

Pure: a text is judged by how it is written. What needs a look at the world, a symbolic link or an
answer of DNS, is looked at by `crewlog.allowlist`, which asks here about what it found.

A text that readers could read differently is refused, not interpreted: of two parsers in a row, the
checking one and the connecting one, neither may be the cleverer.

Characters that nobody sees: in a name, they make two of what looks like one.
"""

from __future__ import annotations

import html
import ipaddress
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from crewlog.definition.reaching import HostRule, ends_in_number, parse_host
from crewlog.model import Model

LOCALHOST = "localhost"
"""The one name that leads to this machine, where it is declared itself."""
_INNER_NAMES = frozenset({"instance-data", "metadata"})
"""Names without a domain by which clouds' machines ask for their metadata."""
_INNER_DOMAINS = (
    *(LOCALHOST, "internal", "local", "home.arpa"),
    *("metadata.goog", "metadata.tencentyun.com", "metadata.packet.net"),
    "metadata.platformequinix.com",
)
"""Domains of networks' own, and of clouds' metadata: each with all that is below it."""
LONGEST_URL = 8_000
LONGEST_PATH = 1_000
LONGEST_NAME = 255
"""Bytes of one name of a path: what file systems take."""

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[/?#].*)?", re.DOTALL
)
_AUTHORITY = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^:\[\]]*))(?::(?P<port>.*))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PORTS = {"http": 80, "https": 443}
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20"))
)
"""Networks for protocols and documents that some versions of Python take for public."""
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            *("169.254.169.254", "169.254.169.253", "169.254.170.2", "169.254.170.23"),
            *("168.63.129.16", "100.100.100.200", "192.0.0.192", "169.254.0.23"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe"),
        ),
    )
)
"""Where clouds tell machines their names, keys and credentials; one of Azure's is a public address
by its number, and leads into the machine's own host."""
_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AllowlistResult(Model):
    """The outcome of a check of a path, a URL or an address."""

    allowed: bool
    reason: str
    """For people, and for the model that is to repair its call."""
    fault: str = ""
    """What is wrong, in a word: `scheme`, `userinfo`, `private`, `undeclared`, `parent`, …"""


class Target(NamedTuple):
    """Where a URL leads."""

    scheme: str
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int


_FINE = AllowlistResult(allowed=True, reason="it is allowed")


def rules_of(hosts: Sequence[str]) -> tuple[HostRule, ...]:
    """The entries of a tool's `hosts`, read."""
    return tuple(parse_host(host) for host in hosts)


# -- URLs ------------------------------------------------------------------------------------------


def check_url(url: str, hosts: Sequence[str]) -> AllowlistResult:
    """Whether a URL, as it is written, leads to one of `hosts`.

    Args:
        url: What a model or a redirect says.
        hosts: What is declared, as in a definition.
    """
    target = parse_url(url)
    return target if isinstance(target, AllowlistResult) else check_target(target, hosts)


def parse_url(url: str) -> Target | AllowlistResult:
    """Where a URL leads; a refusal where that can be read in more than one way."""
    if not url:
        return _no("empty", "the URL is empty")
    if len(url) > LONGEST_URL:
        return _no("long", f"the URL has more than {LONGEST_URL:,} characters")
    if fault := _characters(url):
        return _no("characters", f"the URL {_shown(url)} has {fault}")
    match = _URL.fullmatch(url)
    if match is None:
        return _no("scheme", f"{_shown(url)} is no URL with a scheme and a host")
    scheme = match["scheme"].lower()
    if scheme not in _PORTS:
        return _no("scheme", f"the URL {_shown(url)} is neither http nor https")
    return _authority(scheme, match["authority"], url)


def _authority(scheme: str, authority: str, url: str) -> Target | AllowlistResult:
    if "@" in authority:
        return _no("userinfo", f"the URL {_shown(url)} has a user before its host")
    if not authority.isascii():
        say = f"the host of {_shown(url)} is not ASCII: write it as DNS has it, xn--…"
        return _no("unicode", say)
    match = _AUTHORITY.fullmatch(authority)
    if match is None or "%" in authority:
        return _no("host", f"the host of {_shown(url)} is not written as a host")
    port = _PORTS[scheme]
    if match["port"] is not None:
        if not re.fullmatch(r"[1-9][0-9]{0,4}", match["port"]) or int(match["port"]) > 65535:
            return _no("port", f"the port of {_shown(url)} is none")
        port = int(match["port"])
    if match["six"] is None:
        host = match["host"].lower()
        return _host_fault(host, url) or Target(scheme, host, port)
    try:
        return Target(scheme, ipaddress.IPv6Address(match["six"]).compressed, port)
    except ValueError:
        return _no("host", f"the address of {_shown(url)} is none")


def _host_fault(host: str, url: str) -> AllowlistResult | None:
    if not host:
        return _no("host", f"the URL {_shown(url)} has no host")
    if host.endswith("."):
        return _no("dot", f"the host of {_shown(url)} ends with a dot")
    if _DECIMAL.fullmatch(host) and _address(host) is not None:
        return None
    if ends_in_number(host):
        say = f"the host of {_shown(url)} is an address in another spelling: write a.b.c.d"
        return _no("spelling", say)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        return _no("host", f"the host of {_shown(url)} is not written as a host")
    return None


def check_target(target: Target, hosts: Sequence[str]) -> AllowlistResult:
    """Whether some of `hosts` names where a URL leads."""
    rules = rules_of(hosts)
    address = _address(target.host)
    if any(_names(rule, target, address) for rule in rules):
        if address is not None:  # `*` names every host: not every address
            return check_address(target.host, target, hosts)
        return _FINE
    if address is not None and (kind := _private(address)):
        return _no("private", f"{target.host} is {kind}, which is not declared")
    if target.host == LOCALHOST and not any(rule.name == LOCALHOST for rule in rules):
        return _no("private", f"{target.host} is this machine, which is not declared")
    if target.host != LOCALHOST and _is_inner(target.host):
        return _no("private", f"{target.host} is a name of a network's own, which is not declared")
    where = f"{target.scheme}://{_bracketed(target.host)}"
    where += "" if target.port == _PORTS[target.scheme] else f":{target.port}"
    return _no("undeclared", f"{where} is not among the hosts that may be reached: {_all(hosts)}")


def check_address(address: str, target: Target, hosts: Sequence[str]) -> AllowlistResult:
    """Whether the address that a host's name leads to may be connected to.

    A public address may; any other only where `hosts` names it, or, of this machine, `localhost`.

    Args:
        address: What DNS said, or the host itself.
        target: What was asked for.
        hosts: What is declared.
    """
    found = _address(address)
    if found is None:
        return _no("host", f"{target.host} leads to {address!r}, which is no address")
    kind = _private(found)
    if not kind:
        return _FINE
    rules = rules_of(hosts)
    if any(rule.name == LOCALHOST and _names(rule, target, None) for rule in rules) and any(
        found in network for network in _LOOPBACK
    ):
        return _FINE
    for rule in rules:
        fits = rule.port in (None, target.port) and rule.scheme in ("", target.scheme)
        if rule.network is not None and found in rule.network and fits:
            return _FINE
    what = f"{target.host} is" if address == target.host else f"{target.host} leads to {address},"
    return _no("private", f"{what} {kind}, which is not declared")


def _names(rule: HostRule, target: Target, address: _Address | None) -> bool:
    if rule.scheme not in ("", target.scheme):
        return False
    if rule.network is not None:
        port = rule.port in (None, target.port) if not rule.scheme else _port(rule, target)
        return address is not None and address in rule.network and port
    if not _port(rule, target):
        return False
    if rule.name == "*":
        return not _is_inner(target.host)  # every host is every public one
    if rule.name.startswith("*."):
        return address is None and target.host.endswith(rule.name[1:])
    return target.host == rule.name


def _is_inner(host: str) -> bool:
    """Whether a name leads inside a network, whatever it leads to now."""
    return host in _INNER_NAMES or any(
        host == domain or host.endswith(f".{domain}") for domain in _INNER_DOMAINS
    )


def _port(rule: HostRule, target: Target) -> bool:
    return target.port == (rule.port or _PORTS[target.scheme])


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])  # a zone says which interface
    except ValueError:
        return None


def _private(address: _Address) -> str:
    """What kind of address it is that nobody reaches by accident; empty for public ones."""
    inner = _inside(address)
    if inner is not None:
        kind = _private(inner)
        return f"{kind} within another" if kind else ""
    if address in _METADATA:
        return "an address of a cloud's metadata"
    for kind, holds in (
        ("a loopback address", address.is_loopback),
        ("a link-local address", address.is_link_local),
        ("an address of many machines", address.is_multicast),
        ("no address of a machine", address.is_unspecified),
        ("a private address", not address.is_global or any(address in n for n in _SPECIAL)),
        ("a reserved address", address.version == 6 and address not in _UNICAST),
    ):
        if holds:
            return kind
    return ""


def _inside(address: _Address) -> _Address | None:
    """The IPv4 address that an IPv6 address stands for: where packets to it come out."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return inner
    return None


# -- paths -----------------------------------------------------------------------------------------


def check_path(path: str, folders: Sequence[str] = ()) -> AllowlistResult:
    """Whether a path, as it is written, stays inside the workspace and some folders of it.

    Args:
        path: What a model says; relative to the workspace.
        folders: The tool's `paths`; empty means all of the workspace.
    """
    if fault := _path_fault(path):
        return fault
    names = [name for name in path.split("/") if name not in ("", ".")]
    for folder in folders:
        within = [name for name in folder.split("/") if name not in ("", ".")]
        if names[: len(within)] == within:
            return _FINE
    if folders:
        return _no("undeclared", f"{_shown(path)} is not in {_all(folders)}")
    return _FINE


def _path_fault(path: str) -> AllowlistResult | None:
    if not path.strip():
        return _no("empty", "the path is empty")
    if "\0" in path:
        return _no("nul", f"the path {_shown(path)} has a NUL character")
    if fault := _characters(path, spaces=True):
        return _no("characters", f"the path {_shown(path)} has {fault}")
    if len(path.encode()) > LONGEST_PATH or any(
        len(name.encode()) > LONGEST_NAME for name in path.split("/")
    ):
        return _no("long", "the path is longer than file systems take")
    if led := _leads_away(path):
        return led
    if _is_disguised(path):
        say = f"the path {_shown(path)} hides a separator, '..' or another beginning"
        return _no("encoded", say)
    return None


def _leads_away(path: str) -> AllowlistResult | None:
    """What is wrong with a path as it stands, nothing decoded."""
    if path.startswith("/"):
        return _no("absolute", f"the path {_shown(path)} is absolute")
    if "\\" in path:
        return _no("backslash", f"the path {_shown(path)} has a backslash: write '/'")
    if _SCHEME.match(path):
        return _no("url", f"{_shown(path)} is a URL, not a path")
    if _DRIVE.match(path):
        return _no("drive", f"the path {_shown(path)} names a drive")
    names = path.split("/")
    if ".." in names:
        return _no("parent", f"the path {_shown(path)} leads upwards by '..'")
    if names[0].startswith("~"):
        return _no("home", f"the path {_shown(path)} begins with '~', somebody's home")
    return None


def _is_disguised(path: str) -> bool:
    """Whether another path comes of it where somebody downstream strips, decodes or folds it."""
    read = path
    for _ in range(DECODED):
        if _UNICODE.search(read):
            return True
        unescaped = html.unescape(unquote(read, errors="replace"))
        if unescaped != read and ("\ufffd" in unescaped or _characters(unescaped, spaces=True)):
            return True  # bytes that are no UTF-8: a lax reader makes a dot or a slash of them
        folded = unicodedata.normalize("NFKC", unescaped)
        if any(_misread(each, path.count("/")) for each in (read, unescaped, folded)):
            return True
        if folded == read:
            return False
        read = folded
    return True  # what is still not plain was written so that nobody sees what it is


def _misread(read: str, slashes: int) -> bool:
    """Whether a reading of a path has other folders than the path, or leads out of them."""
    return (
        read.count("/") != slashes
        or "\0" in read
        or any(_UPWARDS.fullmatch(name.strip()) for name in read.split("/"))
        or any(ord(c) in _SLASHES for c in read)
        or _leads_away(read.strip()) is not None
    )


DECODED = 5
"""How often a path is decoded to find what it hides; by then it must not change any more."""
_UNICODE = re.compile(r"%u[0-9a-f]{4}", re.IGNORECASE)
"""A character as some servers read it, and `unquote` does not."""
_UPWARDS = re.compile(r"[\s.]*\.[\s.]*\.[\s.]*|\.\.+[^\w.].*", re.DOTALL)
"""Names that some reader takes for `..`: with blanks and more dots, or with a parameter, `..;a`."""
_SLASHES = frozenset((0x2044, 0x2215, 0x29F8, 0x2216, 0x29F5))
"""Signs that look like a slash and that nothing folds to one."""


# -- both ------------------------------------------------------------------------------------------


def _characters(text: str, *, spaces: bool = False) -> str:
    """What characters a text has that no path and no URL has; empty where none."""
    for c in text:
        kind = unicodedata.category(c)
        if kind in ("Cc", "Zl", "Zp"):
            return "a line break or control character"
        if is_invisible(c):
            return f"the invisible character U+{ord(c):04X}"
        if not spaces and (c == "\\" or kind == "Zs"):
            return "a space" if kind == "Zs" else "a backslash"
    return ""


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 200 else f"{text[:200]}…")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _all(names: Sequence[str]) -> str:
    return ", ".join(names) or "none is declared"


def _no(fault: str, reason: str) -> AllowlistResult:
    return AllowlistResult(allowed=False, reason=reason, fault=fault)


_KINDS = frozenset({"Cf", "Cs", "Co", "Cn"})
"""Formats and directions, half characters, private ones, and those that do not exist."""
_BLANKS = frozenset(map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)))
"""Fillers that count as letters and signs."""
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Marks that choose how the character before them is drawn."""


def is_invisible(c: str) -> bool:
    """Whether a character shows nothing; blanks and line ends are no such characters."""
    return (
        unicodedata.category(c) in _KINDS
        or c in _BLANKS
        or any(first <= ord(c) <= last for first, last in _SELECTORS)
    )
