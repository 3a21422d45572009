"""What all groups of settings have in common."""

from typing import Any, Final

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX: Final = "PYOCO_"


class RuleBrokenError(ValueError):
    """Two settings that are fine alone do not go together; `variable` is the one to change."""

    def __init__(self, variable: str, what: str, example: str) -> None:
        super().__init__(what)
        self.variable = variable
        self.example = example


class PyocoSettings(BaseSettings):
    """Base of all groups. Building one takes defaults and arguments: only `load_settings` reads."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leave out the environment, which would otherwise be read behind the caller's back."""
        return (init_settings,)


def setting(default: Any, meaning: str, example: str, *, secret: bool = False) -> Any:
    """Return a field with its meaning and an example; a secret one is never shown."""
    return Field(default=default, description=meaning, examples=[example], repr=not secret)
