"""Reads the tables and the runnable code blocks of a Markdown document."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MARKER: Final = re.compile(r"^<!--\s*(run|background|file|expect):\s*(.*?)\s*-->$")
_CELL: Final = re.compile(r"(?<!\\)\|")
_CODE: Final = re.compile(r"^`([^`]*)`$")


def tables_in(document: Path) -> dict[str, list[dict[str, str]]]:
    """Return the first table under each heading, as rows by column name.

    Backticks around a whole cell are removed.
    """
    tables: dict[str, list[dict[str, str]]] = {}
    heading, rows = "", list[list[str]]()
    for line in [*document.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append(_cells(line))
            continue
        if rows and heading not in tables:
            header, _, *body = rows
            tables[heading] = [dict(zip(header, row, strict=True)) for row in body]
        rows = []
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
    return tables


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    cells = (cell.strip().replace("\\|", "|") for cell in _CELL.split(inner))
    return [_CODE.sub(r"\1", cell) for cell in cells]


@dataclass(frozen=True, slots=True)
class Block:
    """A code block with a marker above it, which a test runs or writes to a file.

    `kind` is `run` (runs to its end), `background` (runs until the last block has ended) or `file`
    (its text is written to the path `name`). Its output must contain each text in `expected`.
    """

    kind: str
    name: str
    language: str
    text: str
    line: int
    expected: tuple[str, ...] = ()


def blocks_in(document: Path) -> list[Block]:
    """Return the marked blocks of a document, in order.

    The line above a block is `<!-- run: NAME -->`, `<!-- background: NAME -->` or
    `<!-- file: PATH -->`. Any number of `<!-- expect: TEXT -->` lines follow the block.
    """
    blocks: list[Block] = []
    marker: tuple[str, str] | None = None
    lines = enumerate(document.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        if found := _MARKER.match(line):
            kind, value = found.groups()
            if kind == "expect":
                last = blocks.pop()
                blocks.append(_with_expectation(last, value))
            else:
                marker = (kind, value)
        elif line.startswith("```"):
            language, text = line.removeprefix("```").strip(), "\n".join(_until_fence(lines))
            if marker is not None:
                blocks.append(Block(marker[0], marker[1], language, f"{text}\n", number))
            marker = None
        elif marker is not None:
            raise ValueError(f"{document.name}:{number}: no code block follows the marker")
    return blocks


def _with_expectation(block: Block, text: str) -> Block:
    return Block(
        block.kind, block.name, block.language, block.text, block.line, (*block.expected, text)
    )


def _until_fence(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    for _, line in lines:
        if line.startswith("```"):
            return
        yield line
