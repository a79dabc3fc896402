"""What a tool may touch: hostile paths and URLs, each refused for its own reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from crewlog.authority.allowlist import (
    AllowlistResult,
    Target,
    check_address,
    check_path,
    check_url,
)
from crewlog.definition.reaching import parse_host

HERE = Path(__file__).parent
PATHS: Any = yaml.safe_load((HERE / "paths.yaml").read_text("utf-8"))
URLS: Any = yaml.safe_load((HERE / "urls.yaml").read_text("utf-8"))
FOLDERS = ("notes/",)
HOSTS = (
    "api.example.org",
    "*.docs.example.org",
    "http://plain.example.org:8080",
    "https://10.1.2.3",
    "http://localhost:9999",
    "[2606:4700::1111]:8443",
    "10.9.0.0/16",
)
LONG = {
    "LONG_NAME": f"notes/{'a' * 256}",
    "LONG_PATH": "notes/" + "a/" * 600,
    "LONG_UNICODE": f"notes/{'日' * 90}",
    "LONG": f"https://api.example.org/{'a' * 8000}",
}


def vectors(data: Any) -> list[Any]:
    return [
        pytest.param(LONG.get(text, text), fault, id=f"{fault}-{n}")
        for fault, texts in data["refused"].items()
        for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize(("path", "fault"), vectors(PATHS))
def test_paths_that_are_refused(path: str, fault: str) -> None:
    found = check_path(path, FOLDERS)
    assert (found.allowed, found.fault) == (False, fault), found.reason
    assert found.reason
    assert found.reason.isprintable()


@pytest.mark.parametrize("path", PATHS["allowed"])
def test_paths_that_pass(path: str) -> None:
    assert check_path(path, FOLDERS) == AllowlistResult(allowed=True, reason="it is allowed")


@pytest.mark.parametrize(("url", "fault"), vectors(URLS))
def test_urls_that_are_refused(url: str, fault: str) -> None:
    url = url.replace("LONGLABEL", "a" * 64).replace("LONGHOST", ".".join(["abcdefgh"] * 30))
    found = check_url(url, HOSTS)
    assert (found.allowed, found.fault) == (False, fault), found.reason
    assert found.reason.replace("…", "").isascii()
    assert found.reason.isprintable()


@pytest.mark.parametrize("url", URLS["allowed"])
def test_urls_that_pass(url: str) -> None:
    assert check_url(url, HOSTS).allowed, check_url(url, HOSTS).reason


def test_there_are_enough_of_them() -> None:
    assert len(vectors(PATHS)) + len(vectors(URLS)) >= 200
    assert len(PATHS["allowed"]) + len(URLS["allowed"]) >= 40


@pytest.mark.parametrize("url", [u for u in URLS["refused"]["undeclared"] if "localhost" not in u])
def test_a_star_is_every_public_host(url: str) -> None:
    assert check_url(url, ("*", "http://*", "*:8443", "http://*:8443", "*:80")).allowed == (
        ":8081" not in url and ":8080" not in url and ":443/" not in url
    )


@pytest.mark.parametrize("url", URLS["refused"]["private"])
def test_a_star_is_no_private_address(url: str) -> None:
    assert check_url(url, ("*", "http://*", "http://*:9999")).fault == "private"


STARS = ("*", "http://*", "http://*:9999", "*.localhost")


@pytest.mark.parametrize(
    "url", ["https://localhost/", "http://LocalHost/x", "http://localhost:9999/"]
)
def test_a_star_is_not_this_machine(url: str) -> None:
    assert check_url(url, STARS).fault == "private"
    named = (*STARS, "http://localhost:9999")
    assert check_url(url, named).allowed is url.endswith(":9999/")


@pytest.mark.parametrize(
    "host",
    ["168.63.129.16", "169.254.169.254", "100.100.100.200", "192.0.0.192", "[fd00:ec2::254]",
     "[::ffff:168.63.129.16]", "metadata.google.internal", "metadata.goog", "metadata",
     "instance-data", "x.local", "x.home.arpa"],
)  # fmt: skip
def test_a_star_is_no_inner_host(host: str) -> None:
    url = f"http://{host}/latest/"
    assert check_url(url, ("*", "http://*")).fault == "private"
    assert check_url(url, ("*", f"http://{host}")).allowed


PUBLIC = Target("https", "api.example.org", 443)


@pytest.mark.parametrize(
    ("address", "target", "hosts", "allowed"),
    [
        ("93.184.216.34", PUBLIC, HOSTS, True),
        ("2606:4700::1111", PUBLIC, HOSTS, True),
        ("127.0.0.1", PUBLIC, HOSTS, False),
        ("::1", PUBLIC, HOSTS, False),
        ("::ffff:10.0.0.1", PUBLIC, HOSTS, False),
        ("169.254.169.254", PUBLIC, HOSTS, False),
        ("168.63.129.16", PUBLIC, HOSTS, False),
        ("fd20:ce::254", PUBLIC, HOSTS, False),
        ("fe80::1%eth0", PUBLIC, HOSTS, False),
        ("10.9.0.1", PUBLIC, HOSTS, True),  # the network is declared, for whatever leads to it
        ("10.1.2.3", PUBLIC, HOSTS, True),
        ("10.1.2.3", Target("http", "plain.example.org", 8080), HOSTS, False),
        ("127.0.0.1", Target("http", "localhost", 9999), HOSTS, True),
        ("::1", Target("http", "localhost", 9999), HOSTS, True),
        ("10.0.0.1", Target("http", "localhost", 9999), HOSTS, False),
        ("127.0.0.1", Target("http", "localhost", 9998), HOSTS, False),
        ("127.0.0.1", Target("https", "localhost", 9999), HOSTS, False),
        ("127.0.0.1", Target("https", "localhost", 443), STARS, False),
        ("::1", Target("http", "localhost", 9999), STARS, False),
        ("127.0.0.1", Target("http", "foo.localhost", 9999), STARS, False),
        ("nonsense", PUBLIC, HOSTS, False),
    ],
)
def test_addresses_that_names_lead_to(
    address: str, target: Target, hosts: tuple[str, ...], allowed: bool
) -> None:
    assert check_address(address, target, hosts).allowed is allowed


@pytest.mark.parametrize(
    "entry",
    ["", "a b", "ftp://x.org", "x.org/", "x.org:0", "x.org:99999", "127.1", "0x7f.1", "*.*.org",
     "a*.org", "0.0.0.0/0", "10.0.0.0/4", "::/0", "user@x.org", "ex\u00e4mple.org", "x..org",
     "x.org.", "[::1", "10.0.0.0/33", "https://", "*.", "-"],
)  # fmt: skip
def test_entries_that_are_none(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_host(entry)
