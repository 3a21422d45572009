"""Finds the lines of a YAML or JSON text that the problems of a document are about."""

import re
from typing import Final

import yaml

_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def lines_of(text: str) -> "DocumentLines | None":
    """Return the lines of a document; None for a text that is not YAML."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    return None if root is None else DocumentLines(root)


class DocumentLines:
    """The lines of the values of a document."""

    def __init__(self, root: yaml.Node) -> None:
        self._root = root

    def line_of(self, where: str) -> int | None:
        """Return the line of a path such as `nodes[3].retry`, counted from 1.

        For a value that is missing, it is the line of the innermost value around it. A path to
        nothing in the document has no line.
        """
        node, found = self._root, None
        for index, name in _STEP.findall(where):
            child = _item(node, int(index)) if index else _value(node, name)
            if child is None:
                break
            node, found = child[1], child[0].start_mark.line + 1
        return found


# The node that a reader looks for, and the node to continue in.
_Child = tuple[yaml.Node, yaml.Node]


def _item(node: yaml.Node, index: int) -> _Child | None:
    if not isinstance(node, yaml.SequenceNode) or index >= len(node.value):
        return None
    return node.value[index], node.value[index]


def _value(node: yaml.Node, name: str) -> _Child | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key, value
    return None
