"""What a record says, and of which kind it is: other tools write run.json too, and people edit it."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError


class Start(BaseModel, extra="allow", strict=True):
    started: Annotated[str, AfterValidator(lambda text: datetime.fromisoformat(text) and text)]


class Content(BaseModel, extra="allow", strict=True):
    """What every record has, and what some have; that of a job which was refused says no more than the first three."""

    state: str
    overrides: list[str]
    metrics: dict[str, float | None]
    command: str = ""
    starts: Annotated[list[Start], Field(min_length=1)] = []
    best_checkpoint: str | None = None
    data: str | None = None
    seed: int | None = None
    seconds: float = 0
    packages: dict[str, str] = {}
    hardware: dict[str, Any] = {}
    git: dict[str, Any] | None = None
    rerun: dict[str, Any] = {}


def lacking(record: Any) -> list[str]:
    """Return the names of the values that are not there, or of another kind."""
    try:
        Content.model_validate(record if isinstance(record, dict) else {})
    except ValidationError as error:
        return list(dict.fromkeys(str(each["loc"][0]) for each in error.errors()))
    return []
