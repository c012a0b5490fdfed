"""A behaviour tree as text, as a picture, and as a short list for recordings (DOTS paper, Figure 12)."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from py_trees import composites, decorators
from py_trees.common import Status
from swarmbed_core.errors import SwarmbedError

if TYPE_CHECKING:
    from pathlib import Path

    from py_trees.behaviour import Behaviour

WIDTH = 18
"""Characters per line in a box."""
GAP = 1.2
"""Gap between two boxes in a column, in line heights."""
COLOURS = {
    "composite": "#dbe7f5",
    "decorator": "#eee3f6",
    "leaf": "#f6f1de",
    Status.SUCCESS: "#b9e3b4",
    Status.FAILURE: "#f2b8b0",
    Status.RUNNING: "#a9cdf0",
}
"""Colours of boxes by kind, and by status for trees that have been ticked."""


class NodeStatus(NamedTuple):
    """One node of a snapshot."""

    name: str
    status: str
    depth: int


def snapshot(root: Behaviour) -> list[NodeStatus]:
    """Return name and status of all nodes, in drawing order; takes a few microseconds."""
    found: list[NodeStatus] = []
    _collect(root, 0, found)
    return found


def _collect(node: Behaviour, depth: int, found: list[NodeStatus]) -> None:
    found.append(NodeStatus(node.name, node.status.value, depth))
    for child in node.children:
        _collect(child, depth + 1, found)


def as_text(root: Behaviour, *, status: bool = False) -> str:
    """Return the tree as indented lines, one per node: its name, its kind and, with `status`, its status."""
    lines: list[str] = []
    _write(root, "", "", lines, status=status)
    return "\n".join(lines) + "\n"


def _write(node: Behaviour, first: str, rest: str, lines: list[str], *, status: bool) -> None:
    kind = kind_of(node)
    said = f"  [{node.status.value.lower()}]" if status else ""
    lines.append(f"{first}{node.name}{f' ({kind})' if kind else ''}{said}")
    for i, child in enumerate(node.children):
        last = i == len(node.children) - 1
        _write(
            child,
            rest + ("└─ " if last else "├─ "),
            rest + ("   " if last else "│  "),
            lines,
            status=status,
        )


def kind_of(node: Behaviour) -> str:
    """Return the kind of a node: sequence, selector and so on; empty for leaves."""
    if isinstance(node, composites.Sequence):
        return "sequence with memory" if node.memory else "sequence"
    if isinstance(node, composites.Selector):
        return "selector with memory" if node.memory else "selector"
    if isinstance(node, composites.Parallel):
        return "parallel"
    if isinstance(node, decorators.Decorator):
        return "".join(f" {c.lower()}" if c.isupper() else c for c in type(node).__name__).strip()
    return ""


class _Box(NamedTuple):
    """Layout of a node: `depth` is its column, `y` the centre of its box, counted downwards."""

    node: Behaviour
    depth: int
    y: float
    lines: tuple[str, ...]
    parent: int


def draw(root: Behaviour, file: Path, *, status: bool = False) -> None:
    """Draw the tree as a picture, from left to right.

    Args:
        root: root of the tree.
        file: file to write; its suffix selects the format, such as .png or .svg.
        status: whether to colour the boxes by the nodes' status.

    Raises:
        SwarmbedError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyBboxPatch
    except ImportError:
        message = "drawing a tree needs matplotlib, part of swarmbed_experiments: pip install matplotlib"
        raise SwarmbedError(message) from None

    boxes: list[_Box] = []
    height = _place(root, 0, 0.0, -1, boxes)
    column, line = 2.1, 0.17
    columns = 1 + max(box.depth for box in boxes)
    figure = Figure(figsize=(columns * column, height * line + 0.3), dpi=110)
    FigureCanvasAgg(figure)
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, columns * column)
    axes.set_ylim(height + 0.5, -0.5)
    axes.set_axis_off()
    for box in boxes:
        left, tall = box.depth * column + 0.1, len(box.lines) + 0.5
        leaf = not box.node.children
        kind = "leaf" if leaf else "decorator" if len(box.node.children) == 1 else "composite"
        colour = COLOURS.get(box.node.status if status else kind, "#ffffff")
        shape = FancyBboxPatch(
            (left, box.y - tall / 2),
            column - 0.45,
            tall,
            boxstyle="round,pad=0,rounding_size=0.08",
            mutation_aspect=1 / line,
            facecolor=colour,
            edgecolor="#555555",
            linewidth=0.8,
        )
        axes.add_patch(shape)
        axes.text(
            left + (column - 0.45) / 2,
            box.y,
            "\n".join(box.lines),
            ha="center",
            va="center",
            fontsize=8,
            linespacing=1.15,
        )
        if box.parent >= 0:
            above = boxes[box.parent]
            start, end = above.depth * column + column - 0.35, left
            middle = (start + end) / 2
            axes.plot([start, middle, middle, end], [above.y, above.y, box.y, box.y], color="#777777", lw=0.8)
    figure.savefig(file)


def _place(node: Behaviour, depth: int, top: float, parent: int, boxes: list[_Box]) -> float:
    """Place a node and its descendants, from `top` downwards; return where the next node may start.

    A parent is half-way between its first and its last child, so that boxes in a column never overlap.
    """
    kind = kind_of(node)
    lines = tuple(textwrap.wrap(node.name, WIDTH)) + tuple(textwrap.wrap(f"({kind})", WIDTH) if kind else ())
    own = len(lines) + GAP
    index = len(boxes)
    boxes.append(_Box(node, depth, 0.0, lines, parent))
    bottom = top
    for child in node.children:
        bottom = _place(child, depth + 1, bottom, index, boxes)
    if not node.children:
        boxes[index] = boxes[index]._replace(y=top + own / 2)
        return top + own
    middles = [box.y for box in boxes[index + 1 :] if box.parent == index]
    y = (middles[0] + middles[-1]) / 2
    # A box taller than all its children together shifts them and itself down.
    missing = max(top + own / 2 - y, 0.0)
    if missing > 0:
        for k in range(index + 1, len(boxes)):
            boxes[k] = boxes[k]._replace(y=boxes[k].y + missing)
    boxes[index] = boxes[index]._replace(y=y + missing)
    return max(bottom + missing, y + missing + own / 2)
