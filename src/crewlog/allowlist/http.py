"""HTTP for tools: every request and every redirect goes where the definition lets it, or nowhere.

The host's name is looked up once and the connection goes to the address that was checked, so a
second answer of DNS changes nothing. TLS still asks for the host's own certificate. Connections are
kept for each host by itself: two hosts at one address never share one, whose certificate is one's.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any

import httpx

from crewlog.authority.allowlist import (
    AllowlistResult,
    Target,
    check_address,
    check_target,
    parse_url,
)
from crewlog.errors import NotInAllowlist, UsageError

LOOKUP_SECONDS = 10.0
"""How long a coroutine waits for DNS."""
_OURS = frozenset({"transport", "mounts", "proxy", "trust_env", "app"})
_OF_TRANSPORT = frozenset({"verify", "cert", "http1", "http2", "limits"})
_REMEDY = "Use a host that the tool may reach."
Lookup = Callable[[str, int], list[str]]
"""Which addresses a host's name leads to."""


def lookup(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system finds them.

    Raises:
        OSError: where it finds none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def allowed_addresses(target: Target, hosts: Sequence[str], look: Lookup = lookup) -> list[str]:
    """The addresses that a target may be reached at; all that its name leads to must be allowed.

    Raises:
        NotInAllowlist: where one is not, or there is none.
    """
    allowed = check_target(target, hosts)
    if not allowed.allowed:
        raise NotInAllowlist(allowed.reason, remedy=_REMEDY)
    try:
        found = look(target.host, target.port)
    except (OSError, UnicodeError) as exc:
        say = f"the host {target.host} cannot be looked up: {exc}"
        raise NotInAllowlist(say, remedy="Check its name, or try again later.") from exc
    for address in found:
        allowed = check_address(address, target, hosts)
        if not allowed.allowed:
            raise NotInAllowlist(allowed.reason, remedy=_REMEDY)
    if not found:
        raise NotInAllowlist(f"the host {target.host} leads to no address", remedy=_REMEDY)
    return found


async def allowed_addresses_async(
    target: Target, hosts: Sequence[str], look: Lookup = lookup
) -> list[str]:
    """The same, without holding the event loop up.

    Raises:
        NotInAllowlist: as `allowed_addresses`, and where DNS takes too long.
    """
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await asyncio.to_thread(allowed_addresses, target, hosts, look)
    except TimeoutError:
        say = f"the host {target.host} was not looked up in {LOOKUP_SECONDS:g} s"
        raise NotInAllowlist(say, remedy="Try again later.") from None


async def url_error(url: str, hosts: Sequence[str], look: Lookup = lookup) -> str:
    """Why a URL that a tool is to be called with may not be; empty where it may."""
    target = parse_url(url)
    if isinstance(target, AllowlistResult):
        return target.reason
    try:
        await allowed_addresses_async(target, hosts, look)
    except NotInAllowlist as exc:
        return exc.message
    return ""


class AllowlistTransport(httpx.BaseTransport):
    """Sends requests to hosts that may be reached.

    Args:
        hosts: Which these are, as in a definition.
        look: How names are looked up.
        options: What httpx's own transport takes: `verify`, `cert`, `limits`.
    """

    def __init__(self, hosts: Sequence[str], look: Lookup = lookup, **options: Any) -> None:
        self._hosts = tuple(hosts)
        self._look = look
        self._options = options
        self._by_host: dict[str, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request to an address of its host that was checked."""
        target = _target(request)
        inner = self._by_host.get(target.host)
        if inner is None:
            inner = httpx.HTTPTransport(trust_env=False, **_trusting(self._options))
            self._by_host[target.host] = inner
        *others, last = allowed_addresses(target, self._hosts, self._look)
        for address in others:
            try:
                return inner.handle_request(_pinned(request, target, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue  # nothing was sent
        return inner.handle_request(_pinned(request, target, last))

    def close(self) -> None:
        """Closes all connections."""
        for inner in self._by_host.values():
            inner.close()


class AsyncAllowlistTransport(httpx.AsyncBaseTransport):
    """The same for coroutines."""

    def __init__(self, hosts: Sequence[str], look: Lookup = lookup, **options: Any) -> None:
        self._hosts = tuple(hosts)
        self._look = look
        self._options = options
        self._by_host: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request to an address of its host that was checked."""
        target = _target(request)
        inner = self._by_host.get(target.host)
        if inner is None:
            inner = httpx.AsyncHTTPTransport(trust_env=False, **_trusting(self._options))
            self._by_host[target.host] = inner
        *others, last = await allowed_addresses_async(target, self._hosts, self._look)
        for address in others:
            try:
                return await inner.handle_async_request(_pinned(request, target, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue  # nothing was sent
        return await inner.handle_async_request(_pinned(request, target, last))

    async def aclose(self) -> None:
        """Closes all connections."""
        for inner in self._by_host.values():
            await inner.aclose()


@contextmanager
def client(hosts: Sequence[str], look: Lookup = lookup, **options: Any) -> Generator[httpx.Client]:
    """A client that reaches `hosts` alone; it is closed with the block.

    Args:
        hosts: Which may be reached, as in a definition.
        look: How names are looked up.
        options: What `httpx.Client` takes, but for what would go around the guard.

    Raises:
        UsageError: for an option that would.
    """
    own, rest = _options(options)
    transport = AllowlistTransport(hosts, look, **own)
    with httpx.Client(transport=transport, trust_env=False, **rest) as made:
        yield made


@asynccontextmanager
async def async_client(
    hosts: Sequence[str], look: Lookup = lookup, **options: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    """The same for coroutines."""
    async with make_async_client(hosts, look, **options) as made:
        yield made


def make_async_client(
    hosts: Sequence[str], look: Lookup = lookup, **options: Any
) -> httpx.AsyncClient:
    """The same, for somebody else to close."""
    own, rest = _options(options)
    transport = AsyncAllowlistTransport(hosts, look, **own)
    return httpx.AsyncClient(transport=transport, trust_env=False, **rest)


@lru_cache(1)
def _context() -> ssl.SSLContext:
    """The trust in the usual authorities; to read them takes a tenth of a second."""
    return httpx.create_ssl_context(trust_env=False)


def _trusting(options: dict[str, Any]) -> dict[str, Any]:
    return options if {"verify", "cert"} & set(options) else {**options, "verify": _context()}


def _options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the transport, and those of the client."""
    if around := sorted(_OURS & set(options)):
        raise UsageError(
            f"the option {around[0]!r} would go around the check of hosts",
            remedy="Leave it out; what may be reached is the tool's 'hosts'.",
        )
    own = {key: value for key, value in options.items() if key in _OF_TRANSPORT}
    return own, {key: value for key, value in options.items() if key not in own}


def _target(request: httpx.Request) -> Target:
    """Where a request goes: what httpx made of its URL is what is connected to."""
    target = parse_url(str(request.url))
    if isinstance(target, AllowlistResult):
        raise NotInAllowlist(target.reason, remedy=_REMEDY)
    said = request.headers.get("host", "")
    if said.lower() != request.url.netloc.decode("ascii").lower():
        say = f"the request to {target.host} has the Host {said!r}: another one than its URL"
        raise NotInAllowlist(say, remedy="Leave the header out.")
    return target


def _pinned(request: httpx.Request, target: Target, address: str) -> httpx.Request:
    """The request to one address; its headers and its certificate are the host's."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address.partition("%")[0]),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": target.host},
    )
