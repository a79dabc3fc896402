"""What the cluster is, as data: its services, their ports and environment, and its state file.

Each process of the server gets its configuration as the containers of deploy/compose.yaml do: by
the environment that the server's own configuration template reads. So both describe one thing, and
tests/deploy compares them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import platformdirs
from pydantic import BaseModel, ConfigDict, Field

from crewlog.dev.processes import ProcessRecord

DEPLOY = Path(__file__).resolve().parents[1]
REPOSITORY = DEPLOY.parent
DYNAMIC_CONFIG = DEPLOY / "dynamicconfig.yaml"
HOST = "127.0.0.1"
POSTGRES = "postgres"
ROLES = ("frontend", "history", "matching", "worker")
"""The parts of Temporal's server, each a process."""
SERVICES = (POSTGRES, *ROLES)
"""All of the cluster's processes, in the order of their start."""
SHARDS = 128
"""Parts of the history service; fixed for the life of the database, the same as in compose."""
TEMPORAL_USER = "temporal"
STORE_USER = "crewlog"
STORE_DATABASE = "crewlog"
NAMESPACE = "default"
PORTS = range(20_000, 32_000)
"""Below those that the system gives to outgoing connections, which could take the port of a
service between its end and its next start."""
PORT_NAMES = (
    POSTGRES,
    "frontend_http",
    *(f"{role}_grpc" for role in ROLES),
    *(f"{role}_membership" for role in ROLES),
)


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """`CREWLOG_CACHE`, else the user's cache directory: what is built once for all checkouts."""
    env = os.environ if environ is None else environ
    chosen = env.get("CREWLOG_CACHE")
    path = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("crewlog"))
    return path.expanduser().resolve()


class State(BaseModel):
    """`state.json`: what was chosen once, and which processes were started.

    It has the database's passwords, so its owner alone may read it.
    """

    model_config = ConfigDict(frozen=True)

    ports: dict[str, int]
    """By the names of `PORT_NAMES`."""
    passwords: dict[str, str]
    """Of the database's users."""
    prepared: bool = False
    """Whether schema, databases and namespace are there."""
    processes: dict[str, ProcessRecord] = Field(default_factory=dict[str, ProcessRecord])
    """The services' processes, alive or not."""

    @property
    def address(self) -> str:
        """`TEMPORAL_ADDRESS`."""
        return f"{HOST}:{self.ports['frontend_grpc']}"

    @property
    def database_url(self) -> str:
        """`DATABASE_URL`: the crew store's."""
        return self.url(STORE_USER, STORE_DATABASE)

    def url(self, user: str, database: str) -> str:
        """The URL of a database, with the user's password."""
        password = quote(self.passwords[user], safe="")
        return f"postgresql://{user}:{password}@{HOST}:{self.ports[POSTGRES]}/{database}"


def choose_ports(is_free: Callable[[int], bool], start: int) -> dict[str, int]:
    """A free port for each of `PORT_NAMES`, all different.

    Args:
        is_free: Whether a port is free.
        start: Where in `PORTS` to begin to look. Chance, for clusters that start at the same time.

    Raises:
        OSError: There are not so many free ports.
    """
    candidates = (PORTS[(start + offset) % len(PORTS)] for offset in range(len(PORTS)))
    chosen = dict(zip(PORT_NAMES, filter(is_free, candidates), strict=False))
    if len(chosen) < len(PORT_NAMES):
        raise OSError(f"there are no {len(PORT_NAMES)} free ports in {PORTS}")
    return chosen


def database_environ(state: State) -> dict[str, str]:
    """Where Temporal's databases are: what the server and the schema script read."""
    return {
        "DB": "postgres12",
        "DB_PORT": str(state.ports[POSTGRES]),
        "POSTGRES_SEEDS": HOST,
        "POSTGRES_USER": TEMPORAL_USER,
        "POSTGRES_PWD": state.passwords[TEMPORAL_USER],
    }


def server_environ(state: State, role: str) -> dict[str, str]:
    """The configuration of one process of the server."""
    ports: dict[str, str] = {"FRONTEND_HTTP_PORT": str(state.ports["frontend_http"])}
    for each in ROLES:
        ports[f"{each.upper()}_GRPC_PORT"] = str(state.ports[f"{each}_grpc"])
        ports[f"{each.upper()}_MEMBERSHIP_PORT"] = str(state.ports[f"{each}_membership"])
    return {
        **database_environ(state),
        "TEMPORAL_SERVICES": role,
        "TEMPORAL_ALLOW_NO_AUTH": "true",
        "NUM_HISTORY_SHARDS": str(SHARDS),
        "BIND_ON_IP": HOST,
        "TEMPORAL_BROADCAST_ADDRESS": HOST,
        "PUBLIC_FRONTEND_ADDRESS": state.address,
        "DYNAMIC_CONFIG_FILE_PATH": str(DYNAMIC_CONFIG),
        "LOG_LEVEL": "warn",
        **ports,
    }


def answers(port: int) -> bool:
    """Whether something listens on the port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
