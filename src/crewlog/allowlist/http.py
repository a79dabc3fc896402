"""HTTP clients for tools: every request and every redirect must be within the allowlist.

A host name is resolved once, and the connection goes to the checked address, so a later DNS answer
has no effect. TLS verifies the certificate of the host name. Connections are pooled by host name,
since two hosts with one address have different certificates.
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
"""The timeout of DNS in coroutines."""
_RESERVED_OPTIONS = frozenset({"transport", "mounts", "proxy", "trust_env", "app"})
_TRANSPORT_OPTIONS = frozenset({"verify", "cert", "http1", "http2", "limits"})
_REMEDY = "Use a host that the tool may reach."
Lookup = Callable[[str, int], list[str]]
"""Returns the addresses of a host name."""


def lookup(host: str, port: int) -> list[str]:
    """The addresses of a host name, from the system.

    Raises:
        OSError: it has none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def allowed_addresses(target: Target, hosts: Sequence[str], resolve: Lookup = lookup) -> list[str]:
    """The addresses of a target, all of which must be allowed.

    Raises:
        NotInAllowlist: one is not, or there is none.
    """
    result = check_target(target, hosts)
    if not result.allowed:
        raise NotInAllowlist(result.reason, remedy=_REMEDY)
    try:
        addresses = resolve(target.host, target.port)
    except (OSError, UnicodeError) as exc:
        message = f"the host {target.host} cannot be resolved: {exc}"
        raise NotInAllowlist(message, remedy="Check its name, or try again later.") from exc
    for address in addresses:
        result = check_address(address, target, hosts)
        if not result.allowed:
            raise NotInAllowlist(result.reason, remedy=_REMEDY)
    if not addresses:
        raise NotInAllowlist(f"the host {target.host} has no address", remedy=_REMEDY)
    return addresses


async def allowed_addresses_async(
    target: Target, hosts: Sequence[str], resolve: Lookup = lookup
) -> list[str]:
    """The same for coroutines.

    Raises:
        NotInAllowlist: as `allowed_addresses`, or DNS takes too long.
    """
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await asyncio.to_thread(allowed_addresses, target, hosts, resolve)
    except TimeoutError:
        message = f"the host {target.host} was not resolved in {LOOKUP_SECONDS:g} s"
        raise NotInAllowlist(message, remedy="Try again later.") from None


async def url_error(url: str, hosts: Sequence[str], resolve: Lookup = lookup) -> str:
    """Why a URL in the arguments of a tool is not allowed; empty if it is."""
    target = parse_url(url)
    if isinstance(target, AllowlistResult):
        return target.reason
    try:
        await allowed_addresses_async(target, hosts, resolve)
    except NotInAllowlist as exc:
        return exc.message
    return ""


class AllowlistTransport(httpx.BaseTransport):
    """Sends requests to allowed hosts only.

    Args:
        hosts: The allowed hosts, as in a definition.
        resolve: Resolves host names.
        options: Options of httpx's transport: `verify`, `cert`, `limits`.
    """

    def __init__(self, hosts: Sequence[str], resolve: Lookup = lookup, **options: Any) -> None:
        self._hosts = tuple(hosts)
        self._resolve = resolve
        self._options = options
        self._by_host: dict[str, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request to a checked address of its host."""
        target = _target(request)
        inner = self._by_host.get(target.host)
        if inner is None:
            inner = httpx.HTTPTransport(trust_env=False, **_with_trust(self._options))
            self._by_host[target.host] = inner
        *others, last = allowed_addresses(target, self._hosts, self._resolve)
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

    def __init__(self, hosts: Sequence[str], resolve: Lookup = lookup, **options: Any) -> None:
        self._hosts = tuple(hosts)
        self._resolve = resolve
        self._options = options
        self._by_host: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request to a checked address of its host."""
        target = _target(request)
        inner = self._by_host.get(target.host)
        if inner is None:
            inner = httpx.AsyncHTTPTransport(trust_env=False, **_with_trust(self._options))
            self._by_host[target.host] = inner
        *others, last = await allowed_addresses_async(target, self._hosts, self._resolve)
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
def client(
    hosts: Sequence[str], resolve: Lookup = lookup, **options: Any
) -> Generator[httpx.Client]:
    """A client for allowed hosts, closed with the block.

    Args:
        hosts: The allowed hosts, as in a definition.
        resolve: Resolves host names.
        options: Options of `httpx.Client`, except those that would bypass the check.

    Raises:
        UsageError: an option would bypass the check.
    """
    transport_options, client_options = _split_options(options)
    transport = AllowlistTransport(hosts, resolve, **transport_options)
    with httpx.Client(transport=transport, trust_env=False, **client_options) as made:
        yield made


@asynccontextmanager
async def async_client(
    hosts: Sequence[str], resolve: Lookup = lookup, **options: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    """The same for coroutines."""
    async with make_async_client(hosts, resolve, **options) as made:
        yield made


def make_async_client(
    hosts: Sequence[str], resolve: Lookup = lookup, **options: Any
) -> httpx.AsyncClient:
    """The same; the caller closes it."""
    transport_options, client_options = _split_options(options)
    transport = AsyncAllowlistTransport(hosts, resolve, **transport_options)
    return httpx.AsyncClient(transport=transport, trust_env=False, **client_options)


@lru_cache(1)
def _context() -> ssl.SSLContext:
    """The usual certificate authorities; loading them takes a tenth of a second."""
    return httpx.create_ssl_context(trust_env=False)


def _with_trust(options: dict[str, Any]) -> dict[str, Any]:
    return options if {"verify", "cert"} & set(options) else {**options, "verify": _context()}


def _split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the transport, and those of the client."""
    if reserved := sorted(_RESERVED_OPTIONS & set(options)):
        raise UsageError(
            f"the option {reserved[0]!r} would bypass the check of hosts",
            remedy="Remove it; the tool's 'hosts' are the allowed hosts.",
        )
    of_transport = {key: value for key, value in options.items() if key in _TRANSPORT_OPTIONS}
    return of_transport, {key: value for key, value in options.items() if key not in of_transport}


def _target(request: httpx.Request) -> Target:
    """The target of a request, by the URL that httpx connects to."""
    target = parse_url(str(request.url))
    if isinstance(target, AllowlistResult):
        raise NotInAllowlist(target.reason, remedy=_REMEDY)
    header = request.headers.get("host", "")
    if header.lower() != request.url.netloc.decode("ascii").lower():
        message = f"the request to {target.host} has another Host header: {header!r}"
        raise NotInAllowlist(message, remedy="Remove the header.")
    return target


def _pinned(request: httpx.Request, target: Target, address: str) -> httpx.Request:
    """The request to one address, with the headers and the certificate name of the host."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address.partition("%")[0]),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": target.host},
    )
