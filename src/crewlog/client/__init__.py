"""What programs use: connect, start crews, watch them, talk to them.

    client = await crewlog.connect()
    run = await client.start("release-notes", input="v2.1..HEAD")
    async for event in run.events():
        print(event)
    result = await run.result()

It speaks `crewlog.wire` to any worker and never imports a workflow.
"""

from crewlog.client.artifacts import ArtifactView
from crewlog.client.client import Client
from crewlog.client.connection import connect
from crewlog.client.graphs import Graph
from crewlog.client.rebuild import RebuildReport
from crewlog.client.run import Run
from crewlog.client.run_summary import RunSummary
from crewlog.client.session import Endpoints
from crewlog.client.tokens import TokenEvent
from crewlog.reporting.events.filters import EventFilter
from crewlog.reporting.events.view import Event

__all__ = [
    "ArtifactView",
    "Client",
    "Endpoints",
    "Event",
    "EventFilter",
    "Graph",
    "RebuildReport",
    "Run",
    "RunSummary",
    "TokenEvent",
    "connect",
]
