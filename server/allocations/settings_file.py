"""Reads the file with the settings of a scheduler, and names what is wrong in it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ampspec.documents.problems import SpecValidationError, from_pydantic
from ampspec.documents.yaml_document import parse_yaml
from infra.settings import SettingsInvalid

Settings = TypeVar("Settings", bound=BaseModel)


def read_settings_file(
    file: Path, model: type[Settings], complete: Callable[[Settings], Settings]
) -> Settings:
    """Read the settings.

    Args:
        file: A YAML file.
        model: What it describes.
        complete: Checks what the model cannot, and adds what follows; may raise SettingsInvalid.

    Returns:
        The settings.

    Raises:
        SettingsInvalid: It cannot be read, or names each setting that cannot be used.
    """
    try:
        return complete(model.model_validate(parse_yaml(file.read_text())))
    except OSError as error:
        lines = [f"{error.strerror}."]
    except ValidationError as error:
        lines = [str(problem) for problem in from_pydantic(error, model)]
    except SpecValidationError as error:
        lines = [problem.detail for problem in error.problems]
    except UnicodeDecodeError:
        lines = ["expected text in UTF-8."]
    except SettingsInvalid as error:
        lines = [str(error)]
    raise SettingsInvalid("\n".join(f"{file}: {line}" for line in lines))
