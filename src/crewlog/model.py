"""The base of every model that crosses a boundary: frozen, closed, documented field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

Json = Any
"""A JSON value. `Any`, because a recursive alias costs pydantic more than it tells a reader."""


class Model(BaseModel):
    """A frozen pydantic model that refuses unknown keys; its field docstrings reach the schema."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        populate_by_name=True,
        serialize_by_alias=True,
    )

    def to_json(self) -> dict[str, Json]:
        """The model as plain JSON data, without fields that have their default."""
        return self.model_dump(mode="json", exclude_defaults=True, by_alias=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """The model that `to_json` made `data` from."""
        return cls.model_validate(data)
