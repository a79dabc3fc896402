"""The base of every model that crosses a boundary: frozen, closed, documented field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeGuard

from pydantic import BaseModel, ConfigDict
from typing_extensions import override

Json = Any
"""A JSON value. `Any`, because a recursive alias slows pydantic down."""


def is_object(value: Json) -> TypeGuard[dict[str, Json]]:
    """Whether a JSON value is an object."""
    return type(value) is dict


class Model(BaseModel):
    """A frozen pydantic model that refuses unknown keys; its field docstrings reach the schema."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        populate_by_name=True,
        serialize_by_alias=True,
        # What is sent has every field: the converter writes defaults, too.
        json_schema_serialization_defaults_required=True,
    )

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, without validation, as in pydantic.

        A fold makes a copy for every entry; this is faster than pydantic's method.
        """
        if deep or self.__pydantic_private__ is not None:
            return super().model_copy(update=update, deep=deep)
        copied = object.__new__(type(self))
        values, fields_set = self.__dict__, self.__pydantic_fields_set__
        object.__setattr__(copied, "__dict__", {**values, **update} if update else {**values})
        object.__setattr__(copied, "__pydantic_fields_set__", {*fields_set, *(update or ())})
        object.__setattr__(copied, "__pydantic_extra__", None)
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied

    @override
    def __eq__(self, other: object) -> bool:
        """Whether both are of one class and have equal fields.

        `to_json` compares each field with its default; this is faster than pydantic's method.
        """
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        if self.__pydantic_private__ is not None:
            return super().__eq__(other)
        return vars(self) == vars(other)

    def to_json(self) -> dict[str, Json]:
        """The model as plain JSON data, without fields that have their default."""
        return self.model_dump(mode="json", exclude_defaults=True, by_alias=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """The model with the data of `to_json`."""
        return cls.model_validate(data)
