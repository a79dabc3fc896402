"""The address of a definition: equal definitions have equal addresses, however they are written."""

from __future__ import annotations

from crewlog.canonical_json import hash_json
from crewlog.definition.model import CrewDefinition
from crewlog.ids import ContentHash


def definition_hash(definition: CrewDefinition) -> ContentHash:
    """The content address of a definition: of its data without defaults, as `to_json` gives it.

    Comments, layout, the order of keys, and values that equal their default do not count. The
    order of agents has no meaning of its own: a definition without a flow gets one when it is read.
    """
    return hash_json(definition.to_json())
