"""Base class of all tables: naming of constraints, column types, ids."""

import secrets
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, MetaData
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase

from store.clock import UtcDateTime

JsonColumn = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class Base(DeclarativeBase):
    """Base of all tables: naming convention for constraints, column types by annotation."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime(),
        dict[str, Any]: JsonColumn,
        dict[str, str]: JsonColumn,
        list[str]: JsonColumn,
        list[Any]: JsonColumn,
    }


def new_id() -> str:
    """12 random hexadecimal digits: short, and unlikely to collide."""
    return secrets.token_hex(6)
