"""HTTP requests of tools, against a real server: each redirect is checked, too."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crewlog.allowlist.http import async_client, client, lookup, url_error
from crewlog.errors import NotInAllowlist, UsageError


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        served: list[tuple[str, str]] = self.server.served  # type: ignore[attr-defined]
        served.append((self.headers["Host"], self.path))
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.served: list[tuple[str, str]] = []
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, *_: Any) -> None: ...


def serving(server: Server) -> Generator[Server]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server() -> Generator[Server]:
    yield from serving(Server())


def test_a_declared_host(server: Server) -> None:
    with client([f"http://127.0.0.1:{server.port}"]) as made:
        assert made.get(f"http://127.0.0.1:{server.port}/a?b=c").text == "ok"
    assert server.served == [(f"127.0.0.1:{server.port}", "/a?b=c")]


async def test_a_declared_host_for_coroutines(server: Server) -> None:
    async with async_client([f"http://localhost:{server.port}"]) as made:
        assert (await made.get(f"http://localhost:{server.port}/")).text == "ok"
    assert server.served == [(f"localhost:{server.port}", "/")]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://0.0.0.0:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://user@api.example.org/",
        "http://api.example.org./",
        "http://api.example.org:{port}/",
        "http://xn--1ca.example.org/",
    ],
)
async def test_nothing_is_sent_elsewhere(server: Server, url: str) -> None:
    hosts = ["http://api.example.org", "http://*"]
    with client(hosts) as made, pytest.raises(NotInAllowlist):
        made.get(url.format(port=server.port))
    async with async_client(hosts) as made_async:
        with pytest.raises(NotInAllowlist):
            await made_async.get(url.format(port=server.port))
    assert server.served == []


LOCATIONS = [
    ("http://127.0.0.1:{other}/", "undeclared"),
    ("http://localhost:{port}/", "localhost"),
    ("http://169.254.169.254/latest/", "metadata"),
    ("//169.254.169.254/latest/", "metadata"),
    ("http://user:pass@127.0.0.1:{port}/", "user"),
    ("http://[::1]:{port}/", "loopback"),
    ("http://2130706433:{port}/", "spelling"),
    ("http://0x7f.1:{port}/", "spelling"),
    ("https://127.0.0.1:{port}/", "loopback"),
    ("http://127.0.0.1.:{port}/", "dot"),
]


@pytest.mark.parametrize(("location", "why"), LOCATIONS)
async def test_every_hop_is_checked(server: Server, location: str, why: str) -> None:
    to = location.format(port=server.port, other=server.port + 1)
    start = f"http://127.0.0.1:{server.port}/to?{to}"
    hosts = [f"http://127.0.0.1:{server.port}"]
    with client(hosts, follow_redirects=True) as made, pytest.raises(NotInAllowlist) as told:
        made.get(start)
    assert why in told.value.message or why == "undeclared"
    async with async_client(hosts, follow_redirects=True) as made_async:
        with pytest.raises(NotInAllowlist):
            await made_async.get(start)
    assert [path for _, path in server.served] == [f"/to?{to}"] * 2


def test_a_redirect_to_where_it_may_go(server: Server) -> None:
    base = f"http://127.0.0.1:{server.port}"
    with client([base], follow_redirects=True) as made:
        assert made.get(f"{base}/to?{base}/b").text == "ok"
        assert made.get(f"{base}/to?/c").text == "ok"
        with pytest.raises(NotInAllowlist, match="neither http nor https"):
            made.get(f"{base}/to?file:///etc/passwd")


def test_redirects_are_not_followed_unasked(server: Server) -> None:
    base = f"http://127.0.0.1:{server.port}"
    with client([base]) as made:
        assert made.get(f"{base}/to?{base}/b").status_code == 302


def test_a_second_answer_of_dns_changes_nothing(server: Server) -> None:
    asked: list[str] = []

    def look(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    hosts = [f"http://api.test:{server.port}", "127.0.0.0/8"]
    with client(hosts, look) as made:
        assert made.get(f"http://api.test:{server.port}/").text == "ok"
        assert asked == ["api.test"]  # once, and the connection went there
        assert server.served == [(f"api.test:{server.port}", "/")]
        with pytest.raises(
            NotInAllowlist, match=r"api\.test resolves to 10\.0\.0\.1, a private address"
        ):
            made.get(f"http://api.test:{server.port}/")


@pytest.mark.parametrize(
    "answer",
    [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::1"], ["::ffff:10.0.0.1"], ["fe80::1%lo"],
     ["169.254.169.254"], ["64:ff9b::7f00:1"], ["2002:7f00:1::"], ["0.0.0.1"], []],
)  # fmt: skip
async def test_a_name_that_leads_inside(answer: list[str]) -> None:
    with client(["http://*"], lambda *_: answer) as made, pytest.raises(NotInAllowlist):
        made.get("http://api.example.org/")
    assert await url_error("http://api.example.org/", ["http://*"], lambda *_: answer)


async def test_another_address_where_one_does_not_answer(server: Server) -> None:
    hosts = [f"http://api.test:{server.port}", "127.0.0.0/8"]
    answer = ["127.0.0.2", "127.0.0.1"]  # nobody listens at the first
    with client(hosts, lambda *_: answer) as made:
        assert made.get(f"http://api.test:{server.port}/").text == "ok"
    async with async_client(hosts, lambda *_: answer) as made_async:
        assert (await made_async.get(f"http://api.test:{server.port}/")).text == "ok"


def test_a_host_header_of_another_host(server: Server) -> None:
    base = f"http://127.0.0.1:{server.port}"
    with client([base]) as made, pytest.raises(NotInAllowlist, match="another Host header"):
        made.get(base, headers={"Host": "internal.example.org"})
    assert server.served == []


@pytest.mark.parametrize("option", ["transport", "mounts", "proxy", "trust_env"])
def test_no_option_goes_around(option: str) -> None:
    with pytest.raises(UsageError, match=option), client([], **{option: None}):
        pass


def test_proxies_of_the_environment_are_not_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with client([f"http://127.0.0.1:{server.port}"]) as made:
        assert made.get(f"http://127.0.0.1:{server.port}/").text == "ok"


async def test_a_name_that_is_none() -> None:
    def look(_host: str, _port: int) -> list[str]:
        raise OSError("Name or service not known")

    told = await url_error("https://nowhere.example.org/", ["*"], look)
    assert told == "the host nowhere.example.org cannot be resolved: Name or service not known"
    assert lookup("127.0.0.1", 80) == ["127.0.0.1"]


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def test_the_certificate_is_the_hosts_own(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "api.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    for server in serving(Server(context)):
        hosts = [f"api.test:{server.port}", f"other.test:{server.port}", "127.0.0.0/8"]
        with client(hosts, lambda *_: ["127.0.0.1"], verify=trusting) as made:
            assert made.get(f"https://api.test:{server.port}/").text == "ok"
            # The address is the same, and the connection is there: it is not other.test's.
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                made.get(f"https://other.test:{server.port}/")
        assert [host for host, _ in server.served] == [f"api.test:{server.port}"]
