"""Base class of all groups of settings."""

from typing import Any, Final

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX: Final = "PYOCO_"


class SettingRuleError(ValueError):
    """A setting violates a rule or conflicts with another one. `variable` is the one to change."""

    def __init__(self, variable: str, what: str, example: str) -> None:
        super().__init__(what)
        self.variable = variable
        self.example = example


class PyocoSettings(BaseSettings):
    """Base of all groups. The constructor does not read the environment; `load_settings` does."""

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
        """Use constructor arguments only; pydantic would read the environment by default."""
        return (init_settings,)


def setting(default: Any, meaning: str, example: str, *, secret: bool = False) -> Any:
    """Return a field with its description and an example. A secret value is never shown."""
    return Field(default=default, description=meaning, examples=[example], repr=not secret)
