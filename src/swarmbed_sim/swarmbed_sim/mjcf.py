"""Writes MJCF, MuJoCo's XML format."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray


def add(parent: ET.Element, tag: str, **attributes: str | float | Sequence[float] | FloatArray) -> ET.Element:
    """Add an element; numbers are written with full precision."""
    written = {
        name: value
        if isinstance(value, str)
        else " ".join(repr(float(number)) for number in np.atleast_1d(np.asarray(value)))
        for name, value in attributes.items()
    }
    return ET.SubElement(parent, tag, written)
