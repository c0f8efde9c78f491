# SPDX-License-Identifier: Apache-2.0
"""show: a pattern as a picture, in text and, in notebooks, as SVG. Which keys are seen is the library's answer."""

from __future__ import annotations

import ctypes
from typing import List, Optional, Tuple
from xml.sax.saxutils import escape

import numpy as np

from ._errors import ArgumentError
from ._library import check, lib
from ._problem import Plan, given_arrays

_SHADES = "·░▒▓█"
_MOST_COUNTS = 1 << 26  # above this many pairs, some of the queries stand for all
_SVG_CELLS, _SVG_SHADES, _PIXELS, _MARGIN, _CAPTION = 128, 9, 384, 16, 24
_STYLE = (
    "<style>svg{background:#fff;color:#1f3a5f}"
    "@media(prefers-color-scheme:dark){svg{background:#14181d;color:#9cc4f5}}"
    "path,text{fill:currentColor;shape-rendering:crispEdges}text{font:14px sans-serif}"
    ".frame{fill:none;stroke:currentColor}</style>"
)


class Picture:
    """Queries down, keys across, darker where more is seen. print() it, or end a notebook's cell with it."""

    def __init__(self, plan: Plan, title: str, length: int, kv_length: int, heads: int, width: int):
        self.title, self.length, self.kv_length, self.heads, self.width = title, length, kv_length, heads, width
        self._plan = plan

    def counts(self, head: int = 0, query: int = 0) -> np.ndarray:
        """How often a query of a head sees each key."""
        counts = np.zeros(self.kv_length, np.uint8)
        pointer = counts.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        check(lib.ra_plan_visible(self._plan.handle, head, query, 0, self.kv_length, pointer))
        return counts

    def _cells(self, head: int, rows: int, columns: int) -> np.ndarray:
        """What is seen of each cell, on average: [rows, columns]."""
        first_keys = np.arange(columns) * self.kv_length // columns
        keys = np.diff(np.append(first_keys, self.kv_length))
        most = max(1, _MOST_COUNTS // (self.heads * rows * self.kv_length))
        cells = np.zeros((rows, columns))
        for row in range(rows):
            first, end = row * self.length // rows, (row + 1) * self.length // rows
            queries = range(first, end)
            if len(queries) > most:
                # At even distances a dilated pattern would show one of its faces.
                queries = np.random.default_rng(row).choice(np.arange(first, end), most, replace=False).tolist()
            for query in queries:
                cells[row] += np.add.reduceat(self.counts(head, query).astype(np.int64), first_keys) / keys
            cells[row] /= len(queries)
        return cells

    def _groups(self, rows: int, columns: int) -> List[Tuple[List[int], np.ndarray]]:
        """Heads that look the same, with their picture."""
        groups: List[Tuple[List[int], np.ndarray]] = []
        for head in range(self.heads):
            cells = self._cells(head, rows, columns)
            for members, known in groups:
                if np.array_equal(known, cells):
                    members.append(head)
                    break
            else:
                groups.append(([head], cells))
        return groups

    def __str__(self) -> str:
        # A character is about twice as high as wide: two to a cell while they fit, else half as many rows as columns.
        wide = 2 if 2 * self.kv_length <= self.width else 1
        rows, columns = min(self.length, self.width), min(self.kv_length, self.width)
        rows = rows if wide == 2 else (rows + 1) // 2
        pictures = []
        for members, cells in self._groups(rows, columns):
            lines = [_caption(members)]
            lines += ["".join(_SHADES[shade] * wide for shade in row) for row in _shades(cells, len(_SHADES)).tolist()]
            pictures.append("\n".join(lines))
        return "\n\n".join(pictures)

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        """The picture for notebooks."""
        rows, columns = min(self.length, _SVG_CELLS), min(self.kv_length, _SVG_CELLS)
        groups = self._groups(rows, columns)
        width = _PIXELS + 2 * _MARGIN
        height = _MARGIN + len(groups) * (_PIXELS + _CAPTION + _MARGIN)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">',
            f"<title>{escape(self.title)}</title>",
            _STYLE,
        ]
        for number, (members, cells) in enumerate(groups):
            top = _MARGIN + _CAPTION + number * (_PIXELS + _CAPTION + _MARGIN)
            parts.append(
                f'<text x="{_MARGIN}" y="{top - 8}">{_caption(members)}: queries down, keys across</text>'
                f'<g transform="translate({_MARGIN} {top}) scale({_PIXELS / columns:.6g} {_PIXELS / rows:.6g})">'
            )
            parts += _paths(_shades(cells, _SVG_SHADES))
            parts.append(
                f'</g><rect class="frame" x="{_MARGIN}" y="{top}" width="{_PIXELS}" height="{_PIXELS}"/>'
            )
        return "\n".join(parts) + "\n</svg>\n"


def _caption(members: List[int]) -> str:
    return ("head " if len(members) == 1 else "heads ") + ", ".join(str(head) for head in members)


def _shades(cells: np.ndarray, levels: int) -> np.ndarray:
    return np.where(cells > 0, np.minimum(1 + (cells * (levels - 2)).astype(int), levels - 1), 0)


def _paths(shades: np.ndarray) -> List[str]:
    """A path of horizontal runs for each shade."""
    runs: dict = {}
    for row, line in enumerate(shades.tolist()):
        column = 0
        while column < len(line):
            end = column
            while end < len(line) and line[end] == line[column]:
                end += 1
            if line[column]:
                runs.setdefault(line[column], []).append(f"M{column} {row}h{end - column}v1H{column}z")
            column = end
    return [
        f'<path fill-opacity="{shade / (_SVG_SHADES - 1):.3g}" d="{"".join(found)}"/>'
        for shade, found in sorted(runs.items())
    ]


def show(
    pattern: str = "full",
    length: int = 32,
    *,
    kv_length: Optional[int] = None,
    heads: int = 1,
    query_position: Optional[int] = None,
    key_position: int = 0,
    mask=None,
    lengths=None,
    documents=None,
    width: int = 80,
) -> Picture:
    """A picture of which keys each query sees. Heads that look the same share one. Of a batch it is the first element.

    >>> import ringattn
    >>> print(ringattn.show("causal+window:2,0", 6))
    head 0
    ██··········
    ████········
    ██████······
    ··██████····
    ····██████··
    ······██████
    """
    if length < 1 or (kv_length is not None and kv_length < 1) or width < 2:
        raise ArgumentError(f"length {length}, kv_length {kv_length}, width {width}: expected at least 1, 1 and 2")
    keys = length if kv_length is None else kv_length
    arrays = given_arrays(mask, None, None, None, None, lengths, documents)
    batch = len(lengths) if lengths is not None else 1
    plan = Plan((batch, length, keys, heads, heads, 1, 1), pattern, None, None, query_position, key_position, 1, None,
                None, arrays)
    return Picture(plan, f"{pattern}, length {length}", length, keys, heads, width)
