"""Lists and draws the arenas: their contents, and the scenarios that use them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.transforms import Affine2D
from rich.table import Column, Table
from rich.text import Text
from swarmbed_core.arena import Arena
from swarmbed_core.config import names
from swarmbed_core.scenario import Scenario

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.pictures.drawing import drawn, save
from swarmbed_experiments.pictures.plots import draw_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

OPEN = 2.0
"""Metres to each side of the origin that are drawn of a floor without walls."""
PANEL = 4.2
"""Side in inches of one arena's picture."""
IN_A_ROW = 4
NAMED = 3
"""Number of scenarios that the list of all arenas names for each arena."""


def load_arenas(wanted: Sequence[str]) -> dict[str, Arena]:
    """Return the wanted arenas by name; with none given, all in worlds/.

    Raises:
        ConfigError: an arena does not exist or is invalid.
    """
    return {name: Arena.load(name) for name in wanted or names(Arena.FOLDER)}


def arena_table(arenas: Mapping[str, Arena], *, most: int | None = None) -> Table:
    """Return a table of arenas: their contents, and the scenarios in config/scenarios that use them.

    Args:
        arenas: arenas by name or file.
        most: number of scenarios to name for each arena; None for all.
    """
    users: dict[str, list[str]] = {}
    for name in names(Scenario.FOLDER):
        users.setdefault(Scenario.load(name).arena, []).append(name)
    used = Column(
        "used by", min_width=max((len(name) for known in users.values() for name in known), default=0)
    )
    table = Table(Column("arena", overflow="fold"), "what it is", used, show_lines=True)
    for name, arena in arenas.items():
        known = users.get(name, [])
        more = "" if most is None or len(known) <= most else f"\nand {len(known) - most} more"
        size = "open floor" if arena.size is None else f"{arena.size[0]:g} x {arena.size[1]:g} m"
        has = ", ".join(part for part in (size, *_contents(arena)) if part)
        table.add_row(Text(name), Text(f"{arena.title}\n{has}"), "\n".join(known[:most]) + more)
    return table


def _contents(arena: Arena) -> list[str]:
    """Return what an arena has besides its outer walls."""
    walls, markers = len(arena.walls), arena.markers()
    return [
        "" if not walls else f"{walls} inner wall{'s' if walls > 1 else ''}",
        "" if arena.zones is None else "search and drop zones",
        "" if markers is None else f"{len(markers.ids)} markers",
        "" if not arena.floor.patches else "painted floor",
    ]


def draw(arenas: Mapping[str, Arena], where: Path) -> list[Path]:
    """Draw arenas from above, side by side in one file, or one file each in a directory; return the files.

    Args:
        arenas: arenas by name or file.
        where: picture file, such as arenas.png or arena.svg; without a suffix, a directory.

    Raises:
        RunError: a picture cannot be written.
    """
    if where.suffix:
        with drawn(formats=[where.suffix[1:]]):
            _draw(arenas, where)
        return [where]
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{where}: cannot be made ({error.strerror}); choose another --picture"
        raise RunError(message) from None
    made = []
    for name, arena in arenas.items():
        made.append(where / f"{Path(name).stem}.png")
        _draw({name: arena}, made[-1])
    return made


def _draw(arenas: Mapping[str, Arena], file: Path) -> None:
    """Draw arenas side by side."""
    columns = min(len(arenas), IN_A_ROW)
    rows = math.ceil(len(arenas) / columns)
    figure = Figure(figsize=(PANEL * columns, PANEL * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    handles: dict[str, Artist] = {}
    for axes, (name, arena) in zip(panels, arenas.items(), strict=False):
        handles |= {str(handle.get_label()): handle for handle in _draw_arena(axes, arena)}
        axes.set_title(f"{Path(name).stem}\n{arena.title}", fontsize="medium", parse_math=False)
        axes.set_xlabel("x (m)")
        axes.set_ylabel("y (m)")
    for axes in panels[len(arenas) :]:
        axes.set_axis_off()
    if handles:
        figure.legend(
            handles=list(handles.values()), loc="outside lower center", ncols=len(handles), frameon=False
        )
    save(figure, file)


def _draw_arena(axes: Axes, arena: Arena) -> list[Artist]:
    """Draw floor, zones, walls and markers; return the legend's entries."""
    half = (OPEN, OPEN) if arena.size is None else (arena.size[0] / 2, arena.size[1] / 2)
    if arena.size is not None:
        floor = Rectangle((-half[0], -half[1]), 2 * half[0], 2 * half[1], linewidth=0, zorder=-2)
        floor.set_facecolor(str(arena.floor.grey))
        axes.add_patch(floor)
    for patch in arena.floor.patches:
        x, y, yaw = patch.pose
        shape: Circle | Rectangle
        if patch.radius is not None:
            shape = Circle((x, y), patch.radius)
        else:
            length, width = patch.size or (0.0, 0.0)
            shape = Rectangle((x - length / 2, y - width / 2), length, width)
            shape.set_transform(Affine2D().rotate_around(x, y, yaw) + axes.transData)
        shape.set(facecolor=str(patch.grey), linewidth=0, zorder=1)
        axes.add_patch(shape)
    handles = draw_place(axes, arena, tinted=True)
    markers = arena.markers()
    if markers is not None:
        places = [marker.position for marker in markers.markers]
        xs, ys = [place[0] for place in places], [place[1] for place in places]
        handles += axes.plot(xs, ys, "s", color="#CC79A7", markersize=6, zorder=5, label="marker")
    margin = 0.04 * max(half)
    axes.set_xlim(-half[0] - margin, half[0] + margin)
    axes.set_ylim(-half[1] - margin, half[1] + margin)
    axes.set_aspect("equal")
    return handles
