"""Checks paths, URLs and addresses against the allowlist of a tool.

Pure: a text is checked as it is written. `crewlog.allowlist` resolves symbolic links and host
names, and checks the results here.

An ambiguous text is rejected, not interpreted: the parser that checks it and the parser that
connects must never disagree. Invisible characters are rejected, since they make two names look the
same.
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
"""The only name that may lead to this machine, if it is declared."""
_INTERNAL_NAMES = frozenset({"instance-data", "metadata"})
"""Names without a domain for the metadata services of clouds."""
_INTERNAL_DOMAINS = (
    *(LOCALHOST, "internal", "local", "home.arpa"),
    *("metadata.goog", "metadata.tencentyun.com", "metadata.packet.net"),
    "metadata.platformequinix.com",
)
"""Domains of internal networks and of metadata services, with all their subdomains."""
LONGEST_URL = 8_000
LONGEST_PATH = 1_000
LONGEST_NAME = 255
"""Bytes of one name in a path: the limit of file systems."""

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
"""Reserved networks that some versions of Python treat as public."""
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
"""Metadata services of clouds, which give machines their credentials. One of Azure's has a public
address, which leads to the host of the machine."""
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
    """For people, and for the model to repair its call."""
    fault: str = ""
    """The kind of fault: `scheme`, `userinfo`, `private`, `undeclared`, `parent`, …"""


class Target(NamedTuple):
    """The scheme, host and port of a URL."""

    scheme: str
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int


_ALLOWED = AllowlistResult(allowed=True, reason="it is allowed")


def parse_hosts(hosts: Sequence[str]) -> tuple[HostRule, ...]:
    """Parses the entries of a tool's `hosts`."""
    return tuple(parse_host(host) for host in hosts)


# -- URLs ------------------------------------------------------------------------------------------


def check_url(url: str, hosts: Sequence[str]) -> AllowlistResult:
    """Checks that a URL, as it is written, names one of `hosts`.

    Args:
        url: The URL of a model or a redirect.
        hosts: The declared hosts, as in a definition.
    """
    target = parse_url(url)
    return target if isinstance(target, AllowlistResult) else check_target(target, hosts)


def parse_url(url: str) -> Target | AllowlistResult:
    """Parses a URL; rejects it if it is invalid or ambiguous."""
    if not url:
        return _reject("empty", "the URL is empty")
    if len(url) > LONGEST_URL:
        return _reject("long", f"the URL has more than {LONGEST_URL:,} characters")
    if fault := _characters(url):
        return _reject("characters", f"the URL {_quoted(url)} has {fault}")
    match = _URL.fullmatch(url)
    if match is None:
        return _reject("scheme", f"{_quoted(url)} is not a URL with a scheme and a host")
    scheme = match["scheme"].lower()
    if scheme not in _PORTS:
        return _reject("scheme", f"the URL {_quoted(url)} is neither http nor https")
    return _authority(scheme, match["authority"], url)


def _authority(scheme: str, authority: str, url: str) -> Target | AllowlistResult:
    if "@" in authority:
        return _reject("userinfo", f"the URL {_quoted(url)} has a user before its host")
    if not authority.isascii():
        reason = f"the host of {_quoted(url)} is not ASCII: write it as DNS has it, xn--…"
        return _reject("unicode", reason)
    match = _AUTHORITY.fullmatch(authority)
    if match is None or "%" in authority:
        return _reject("host", f"the host of {_quoted(url)} is not written as a host")
    port = _PORTS[scheme]
    if match["port"] is not None:
        if not re.fullmatch(r"[1-9][0-9]{0,4}", match["port"]) or int(match["port"]) > 65535:
            return _reject("port", f"the port of {_quoted(url)} is invalid")
        port = int(match["port"])
    if match["six"] is None:
        host = match["host"].lower()
        return _host_fault(host, url) or Target(scheme, host, port)
    try:
        return Target(scheme, ipaddress.IPv6Address(match["six"]).compressed, port)
    except ValueError:
        return _reject("host", f"the address of {_quoted(url)} is invalid")


def _host_fault(host: str, url: str) -> AllowlistResult | None:
    if not host:
        return _reject("host", f"the URL {_quoted(url)} has no host")
    if host.endswith("."):
        return _reject("dot", f"the host of {_quoted(url)} ends with a dot")
    if _DECIMAL.fullmatch(host) and _address(host) is not None:
        return None
    if ends_in_number(host):
        reason = f"the host of {_quoted(url)} is an address in another spelling: write a.b.c.d"
        return _reject("spelling", reason)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        return _reject("host", f"the host of {_quoted(url)} is not written as a host")
    return None


def check_target(target: Target, hosts: Sequence[str]) -> AllowlistResult:
    """Checks that one of `hosts` names the target of a URL."""
    rules = parse_hosts(hosts)
    address = _address(target.host)
    if any(_matches(rule, target, address) for rule in rules):
        if address is not None:  # `*` allows every host, but not every address
            return check_address(target.host, target, hosts)
        return _ALLOWED
    if address is not None and (kind := _private_kind(address)):
        return _reject("private", f"{target.host} is {kind}, which is not declared")
    if target.host == LOCALHOST and not any(rule.name == LOCALHOST for rule in rules):
        return _reject("private", f"{target.host} is this machine, which is not declared")
    if target.host != LOCALHOST and _is_internal(target.host):
        return _reject(
            "private", f"{target.host} is a name of an internal network, which is not declared"
        )
    where = f"{target.scheme}://{_bracketed(target.host)}"
    where += "" if target.port == _PORTS[target.scheme] else f":{target.port}"
    return _reject("undeclared", f"{where} is not among the allowed hosts: {_joined(hosts)}")


def check_address(address: str, target: Target, hosts: Sequence[str]) -> AllowlistResult:
    """Checks that a resolved address may be connected to.

    A public address may; any other one only if `hosts` names it, or `localhost` for this machine.

    Args:
        address: The address from DNS, or the host itself.
        target: The target of the URL.
        hosts: The declared hosts.
    """
    found = _address(address)
    if found is None:
        return _reject("host", f"{target.host} resolves to {address!r}, which is not an address")
    kind = _private_kind(found)
    if not kind:
        return _ALLOWED
    rules = parse_hosts(hosts)
    if any(rule.name == LOCALHOST and _matches(rule, target, None) for rule in rules) and any(
        found in network for network in _LOOPBACK
    ):
        return _ALLOWED
    for rule in rules:
        has_port = rule.port in (None, target.port) and rule.scheme in ("", target.scheme)
        if rule.network is not None and found in rule.network and has_port:
            return _ALLOWED
    subject = f"{target.host} is"
    if address != target.host:
        subject = f"{target.host} resolves to {address},"
    return _reject("private", f"{subject} {kind}, which is not declared")


def _matches(rule: HostRule, target: Target, address: _Address | None) -> bool:
    if rule.scheme not in ("", target.scheme):
        return False
    if rule.network is not None:
        port = rule.port in (None, target.port) if not rule.scheme else _port(rule, target)
        return address is not None and address in rule.network and port
    if not _port(rule, target):
        return False
    if rule.name == "*":
        return not _is_internal(target.host)  # `*` means public hosts
    if rule.name.startswith("*."):
        return address is None and target.host.endswith(rule.name[1:])
    return target.host == rule.name


def _is_internal(host: str) -> bool:
    """Whether a name belongs to an internal network, without regard to its address."""
    return host in _INTERNAL_NAMES or any(
        host == domain or host.endswith(f".{domain}") for domain in _INTERNAL_DOMAINS
    )


def _port(rule: HostRule, target: Target) -> bool:
    return target.port == (rule.port or _PORTS[target.scheme])


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])  # without the zone
    except ValueError:
        return None


def _private_kind(address: _Address) -> str:
    """The kind of an address that is not public; empty for a public one."""
    inner = _embedded_ipv4(address)
    if inner is not None:
        kind = _private_kind(inner)
        return f"{kind} within an IPv6 address" if kind else ""
    if address in _METADATA:
        return "the address of a metadata service"
    for kind, holds in (
        ("a loopback address", address.is_loopback),
        ("a link-local address", address.is_link_local),
        ("a multicast address", address.is_multicast),
        ("the unspecified address", address.is_unspecified),
        ("a private address", not address.is_global or any(address in n for n in _SPECIAL)),
        ("a reserved address", address.version == 6 and address not in _UNICAST),
    ):
        if holds:
            return kind
    return ""


def _embedded_ipv4(address: _Address) -> _Address | None:
    """The IPv4 address that an IPv6 address contains, to which packets are sent."""
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
    """Checks that a path, as it is written, is inside the workspace and one of some folders.

    Args:
        path: The path from a model, relative to the workspace.
        folders: The tool's `paths`; empty: all of the workspace.
    """
    if fault := _path_fault(path):
        return fault
    names = [name for name in path.split("/") if name not in ("", ".")]
    for folder in folders:
        folder_names = [name for name in folder.split("/") if name not in ("", ".")]
        if names[: len(folder_names)] == folder_names:
            return _ALLOWED
    if folders:
        return _reject("undeclared", f"{_quoted(path)} is not in {_joined(folders)}")
    return _ALLOWED


def _path_fault(path: str) -> AllowlistResult | None:
    if not path.strip():
        return _reject("empty", "the path is empty")
    if "\0" in path:
        return _reject("nul", f"the path {_quoted(path)} has a NUL character")
    if fault := _characters(path, spaces=True):
        return _reject("characters", f"the path {_quoted(path)} has {fault}")
    if len(path.encode()) > LONGEST_PATH or any(
        len(name.encode()) > LONGEST_NAME for name in path.split("/")
    ):
        return _reject("long", "the path is longer than file systems allow")
    if rejection := _absolute_or_upwards(path):
        return rejection
    if _is_disguised(path):
        reason = f"the path {_quoted(path)} hides a separator, '..' or another start"
        return _reject("encoded", reason)
    return None


def _absolute_or_upwards(path: str) -> AllowlistResult | None:
    """The fault of a path that leads out of the workspace, without decoding."""
    if path.startswith("/"):
        return _reject("absolute", f"the path {_quoted(path)} is absolute")
    if "\\" in path:
        return _reject("backslash", f"the path {_quoted(path)} has a backslash: write '/'")
    if _SCHEME.match(path):
        return _reject("url", f"{_quoted(path)} is a URL, not a path")
    if _DRIVE.match(path):
        return _reject("drive", f"the path {_quoted(path)} names a drive")
    names = path.split("/")
    if ".." in names:
        return _reject("parent", f"the path {_quoted(path)} contains '..'")
    if names[0].startswith("~"):
        return _reject("home", f"the path {_quoted(path)} starts with '~', a home directory")
    return None


def _is_disguised(path: str) -> bool:
    """Whether a program that strips, decodes or normalizes a path would get another one."""
    read = path
    for _ in range(DECODE_LIMIT):
        if _UNICODE.search(read):
            return True
        unescaped = html.unescape(unquote(read, errors="replace"))
        if unescaped != read and ("\ufffd" in unescaped or _characters(unescaped, spaces=True)):
            return True  # invalid UTF-8, which a lax decoder may read as a dot or a slash
        folded = unicodedata.normalize("NFKC", unescaped)
        if any(_has_other_folders(each, path.count("/")) for each in (read, unescaped, folded)):
            return True
        if folded == read:
            return False
        read = folded
    return True  # still encoded


def _has_other_folders(read: str, slashes: int) -> bool:
    """Whether a decoded path has other folders than the path, or leads out of them."""
    return (
        read.count("/") != slashes
        or "\0" in read
        or any(_UPWARDS.fullmatch(name.strip()) for name in read.split("/"))
        or any(ord(c) in _SLASHES for c in read)
        or _absolute_or_upwards(read.strip()) is not None
    )


DECODE_LIMIT = 5
"""How often a path is decoded. A path that still changes then is rejected."""
_UNICODE = re.compile(r"%u[0-9a-f]{4}", re.IGNORECASE)
"""An escape that some servers decode, and `unquote` does not."""
_UPWARDS = re.compile(r"[\s.]*\.[\s.]*\.[\s.]*|\.\.+[^\w.].*", re.DOTALL)
"""Names that some programs read as `..`: with blanks and more dots, or with a parameter, `..;a`."""
_SLASHES = frozenset((0x2044, 0x2215, 0x29F8, 0x2216, 0x29F5))
"""Characters that look like a slash, and are not normalized to one."""


# -- both ------------------------------------------------------------------------------------------


def _characters(text: str, *, spaces: bool = False) -> str:
    """A character that no path and no URL may have, described; empty if there is none."""
    for c in text:
        kind = unicodedata.category(c)
        if kind in ("Cc", "Zl", "Zp"):
            return "a line break or control character"
        if is_invisible(c):
            return f"the invisible character U+{ord(c):04X}"
        if not spaces and (c == "\\" or kind == "Zs"):
            return "a space" if kind == "Zs" else "a backslash"
    return ""


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= 200 else f"{text[:200]}…")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or "none is declared"


def _reject(fault: str, reason: str) -> AllowlistResult:
    return AllowlistResult(allowed=False, reason=reason, fault=fault)


_KINDS = frozenset({"Cf", "Cs", "Co", "Cn"})
"""Categories: format, surrogate, private use, unassigned."""
_BLANKS = frozenset(map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)))
"""Fillers that Unicode classifies as letters or symbols."""
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Variation selectors."""


def is_invisible(c: str) -> bool:
    """Whether a character is invisible; blanks and line ends are not."""
    return (
        unicodedata.category(c) in _KINDS
        or c in _BLANKS
        or any(first <= ord(c) <= last for first, last in _SELECTORS)
    )
