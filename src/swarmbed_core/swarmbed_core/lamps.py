"""Lamps and light sensors: equation (2) of "Design and analysis of an E-Puck2 robot plug-in for ARGoS"."""

from __future__ import annotations

from swarmbed_core.kernel import kernel

GAMMA = 0.075
"""Coefficient of equation (2)."""
FAR = 0.50
"""Range of the light sensors, in metres."""


@kernel
def dimming_k(intensity: float, distance: float) -> float:
    """Return the brightness of one light source, as a share of what blinds a sensor: equation (2)."""
    if distance > FAR:
        return 0.0
    bright = GAMMA * intensity / max(distance, 1e-9)
    return bright * bright
