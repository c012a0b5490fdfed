"""The detector on recorded images: what was found once is found again, where it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health

HERE = Path(__file__).with_name("recorded")
CODES = json.loads((HERE / "codes.json").read_text(encoding="utf-8"))


def found_in(name):
    health = Health()
    found = Detector(640, 480, health).decode((HERE / name).read_bytes())
    assert not health.total
    return found


@pytest.mark.parametrize("name", CODES)
def test_what_was_found_is_found_again_and_nothing_else(name):
    found = found_in(name)
    left = list(zip(found.ids.tolist(), found.corners, strict=True))
    for code in CODES[name]:
        near = [
            k
            for k, (number, quad) in enumerate(left)
            if number == code["id"] and np.abs(quad - code["corners"]).max() < 1.5
        ]
        assert near, f"{code['id']} is not found"
        left.pop(near[0])
    assert not left


def test_corners_are_where_they_are():
    off = []
    for name, codes in CODES.items():
        found = found_in(name)
        for code in codes:
            quads = found.corners[found.ids == code["id"]]
            errors = np.abs(quads - code["corners"]).max(axis=(1, 2))
            if len(errors) and errors.min() < 1.5:
                off.append(quads[errors.argmin()] - code["corners"])
    assert len(off) > 40
    assert np.sqrt(np.mean(np.square(off))) < 0.2


def test_there_is_something_of_everything():
    ids = {code["id"] for codes in CODES.values() for code in codes}
    assert len(ids & set(range(12))) > 8
    assert len(ids & set(range(100, 120))) >= 2
    assert len(ids & set(range(200, 249))) >= 2
