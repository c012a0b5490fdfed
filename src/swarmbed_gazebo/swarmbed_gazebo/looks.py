"""Printed codes on walls and carriers in Gazebo worlds: sheets and their pictures.

`swarmbed_sim.looks` defines the appearance of a scene; this module writes it in Gazebo's formats. A sheet is
a box whose face points along its x axis, with the picture's right along y and its top along z, because this
is how both Gazebos map textures to boxes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cv2
from swarmbed_core.codes import MODULES
from swarmbed_sim.looks import MARGIN, SHEET, code_picture, printed, underside_picture

from swarmbed_gazebo.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from swarmbed_core.markers import CarrierMarkers
    from swarmbed_core.scene import CarrierPlacement, Scene
    from swarmbed_sim.looks import ByteArray

FOLDER: Final = "textures"
"""Directory of the pictures, next to the world file."""
MATERIALS: Final = "swarmbed.material"
"""File in it with their OGRE materials."""
FRAME: Final = (8 + 2 * MARGIN) / MODULES
"""Ratio of a sheet's side to that of its code."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The locations of pictures in a world file.

    Attributes:
        scripts: directory of the OGRE materials, for Gazebo 11; empty to omit them. gzserver resolves a
            relative path from its working directory, gz-sim, which requires it to exist, from the world file.
        folder: directory of the pictures for gz-sim, relative to the world file; empty to omit it.
    """

    scripts: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One picture and its pose.

    Attributes:
        name: of this sheet, within its body.
        picture: name of its picture.
        size: height and width in metres.
        pose: x, y, z, roll, pitch, yaw of the centre of its face, in its body's frame.
    """

    name: str
    picture: str
    size: tuple[float, float]
    pose: tuple[float, float, float, float, float, float]

    @property
    def middle(self) -> tuple[float, float, float, float, float, float]:
        """Return the pose of the box's centre, which is half its thickness behind the face."""
        x, y, z, roll, pitch, yaw = self.pose
        back = SHEET / 2
        x -= back * math.cos(yaw) * math.cos(pitch)
        y -= back * math.sin(yaw) * math.cos(pitch)
        return x, y, z + back * math.sin(pitch), roll, pitch, yaw


def wall_sheets(scene: Scene) -> Iterator[Sheet]:
    """Return the sheets on the arena's walls, in `map`."""
    walls = scene.arena.markers()
    for marker in () if walls is None else walls.markers:
        edge = marker.size * FRAME
        pose = (*marker.position, marker.roll, -marker.pitch, marker.yaw)
        yield Sheet(f"marker{marker.id}", code_name(marker.id), (edge, edge), pose)


def carrier_sheets(
    placement: CarrierPlacement, markers: CarrierMarkers, x: float, y: float
) -> Iterator[Sheet]:
    """Return the sheets of a carrier whose centre is at x, y in its body's frame."""
    name, carrier, sides = placement.name, placement.carrier, markers.sides
    edge = sides.size * FRAME
    high = carrier.clearance + sides.rise
    for k in range(4):
        half = (carrier.length if k % 2 == 0 else carrier.width) / 2
        ahead, left = ((1, 0), (0, 1), (-1, 0), (0, -1))[k]
        pose = (x + ahead * half, y + left * half, high, 0.0, 0.0, k * math.pi / 2)
        yield Sheet(f"{name}_side{k}", code_name(placement.marker), (edge, edge), pose)
    # Seen from below, its front is at the picture's top and its left on the picture's right.
    pose = (x, y, carrier.clearance, 0.0, math.pi / 2, 0.0)
    under = under_name(markers, carrier.length, carrier.width)
    yield Sheet(f"{name}_under", under, (carrier.length, carrier.width), pose)


def code_name(number: int) -> str:
    """Return the name of a code's picture."""
    return f"code{number}"


def under_name(markers: CarrierMarkers, length: float, width: float) -> str:
    """Return the name of an underside's picture, which contains all parameters that determine it."""
    under = markers.underside
    tray, code = f"{1e3 * length:g}x{1e3 * width:g}", f"{1e3 * under.size:g}-{1e3 * under.pitch:g}"
    return f"under{tray}-{under.first_id}-{under.rows}x{under.columns}-{code}"


def pictures(scene: Scene) -> dict[str, ByteArray]:
    """Return the pictures of a scene by name."""
    found = {}
    walls = scene.arena.markers()
    for number in () if walls is None else walls.ids.tolist():
        found[code_name(number)] = printed(code_picture(number))
    for placement in scene.carriers:
        size = placement.carrier.length, placement.carrier.width
        found[code_name(placement.marker)] = printed(code_picture(placement.marker))
        name = under_name(scene.markers, *size)
        if name not in found:
            found[name] = printed(underside_picture(scene.markers, *size))
    return found


def write_pictures(scene: Scene, folder: Path) -> None:
    """Write the pictures of a scene, and the OGRE materials of all pictures in the folder.

    Raises:
        OutputError: a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures(scene).items():
            file = folder / f"{name}.png"
            file.write_bytes(cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 9])[1].tobytes())
        names = sorted(file.stem for file in folder.glob("*.png"))
        (folder / MATERIALS).write_text(materials_text(names), encoding="utf-8")
    except OSError as error:
        message = f"{folder}: the pictures of the markers cannot be written ({error.strerror or error})"
        raise OutputError(message) from None


def material_name(picture: str) -> str:
    """Return the name of a picture's OGRE material."""
    return f"swarmbed/{picture}"


def materials_text(names: list[str]) -> str:
    """Return OGRE materials that show pictures with their own brightness, independent of the light."""
    return "\n".join(
        f"""material {material_name(name)}
{{
  technique
  {{
    pass
    {{
      lighting off
      texture_unit
      {{
        texture {name}.png
        tex_address_mode clamp
        filtering anisotropic
        max_anisotropy 16
      }}
    }}
  }}
}}
"""
        for name in names
    )
