"""Reads YAML with the scalars of a workflow file."""

import re
from typing import Any, Final

import yaml

from pyoco_protocol.workflows.scalars import Scalar, ScalarError, plain_scalar

_PLAIN: Final = "!plain"
_MERGE: Final = "tag:yaml.org,2002:merge"


class YamlSyntaxError(ValueError):
    """The text is not YAML; says where and why."""


class _Loader(yaml.SafeLoader):
    """The safe loader of the library, without its scalars of YAML 1.1."""

    yaml_implicit_resolvers = {"<": [(_MERGE, re.compile("<<$"))]}  # noqa: RUF012 - as in the base class


def _scalar(loader: _Loader, node: yaml.ScalarNode) -> Scalar:
    try:
        return plain_scalar(loader.construct_scalar(node))
    except ScalarError as error:
        mark = node.start_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}"
        raise ValueError(f"{node.value} at {place} {error}") from None


_Loader.add_implicit_resolver(_PLAIN, re.compile(""), None)
_Loader.add_constructor(_PLAIN, _scalar)


def yaml_value(text: str) -> Any:
    """Return the value of a YAML text; raise ValueError if it has none that JSON has too."""
    try:
        return _Loader(text).get_single_data()
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except yaml.YAMLError as error:
        raise YamlSyntaxError(f"is not YAML: {error}") from error
