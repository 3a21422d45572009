"""Describes faults of a graph document in words of JSON and YAML instead of Python."""

from typing import Final

from pydantic_core import ErrorDetails

# By the type of the fault that pydantic found, with the names of its context.
_WORDS: Final = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "enum": "must be {expected}",
    "extra_forbidden": "is not a field here; check the spelling and the type of the node",
    "finite_number": "must be a number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_type": "must be an integer",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is required",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be text",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


def fault_words(fault: ErrorDetails) -> str:
    """Return what is wrong with a field."""
    words = _WORDS.get(fault["type"])
    if words is None:
        return fault["msg"]
    return words.format(**{name: _shown(value) for name, value in fault.get("ctx", {}).items()})


def _shown(value: object) -> object:
    """Return 31536000 for 31536000.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
