"""Makes the recorded images that `test_recorded_images.py` looks at again: `python record_images.py`.

Images of walls, carriers and the map under one, through different lenses, some blurred by motion, as JPEG;
and which codes were found in each when it was made, with their true corners.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import cv2
import numpy as np
from swarmbed_core.camera import cameras_of
from swarmbed_core.detector import Detector
from swarmbed_core.geometry import compose
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.render import Renderer

HERE = Path(__file__).with_name("recorded")
COUNT = 16
QUALITY = 80
NEAR = 1.5
"""Pixels within which what was found is what is there."""
SCENARIO = {
    "version": 1,
    "title": "images",
    "time_limit": 10,
    "seed": 5,
    "robots": [{"place": {"poses": [[0.0, 0.0, 0.0]]}, "localised": True}],
    "carriers": [{"place": {"poses": [[0.9, 0.5, 0.4], [-1.0, 0.9, 2.0], [0.3, -1.1, 1.0]]}}],
    "controller": {"name": "random_walk"},
}


class Still:
    """Where everything stands."""

    def __init__(self, scene):
        self.poses = np.array([robot.pose for robot in scene.robots])
        self.heights = np.array([0.145])
        self.carrier_poses = np.array([carrier.pose for carrier in scene.carriers])
        self.carrier_lifts = np.zeros(len(scene.carriers))


def moved(corners, pose):
    """Points that somebody at a pose has in his frame, in the frame in which his pose is."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return corners @ turn.T + [pose[0], pose[1], 0.0]


def places_of(scene):
    """All codes there are: ids and corners in `map`."""
    walls = scene.arena.markers()
    found = list(zip(walls.ids.tolist(), walls.corners(), strict=True))
    for item in scene.carriers:
        clearance, half = item.carrier.clearance, item.carrier.length / 2
        side = scene.markers.side_corners(clearance)
        for k in range(4):
            out = item.pose[2] + k * math.pi / 2
            middle = compose((*item.pose[:2], out), (half, 0.0, 0.0))
            found.append((item.marker, moved(side, middle)))
        under = scene.markers.underside_map(clearance)
        corners = (moved(quad, item.pose) for quad in under.corners())
        found += zip(under.ids.tolist(), corners, strict=True)
    return found


def main():
    scene = make_scene(Scenario.model_validate(SCENARIO))
    still, rng = Still(scene), np.random.default_rng(5)
    imaging = Imaging.load("dots")
    places, spec = places_of(scene), scene.robots[0].spec
    told = {}
    HERE.mkdir(exist_ok=True)
    for old in HERE.glob("*.jpg"):
        old.unlink()
    for k in range(COUNT):
        exposure = 0.01 if k % 4 == 3 else 0.0
        stage = MujocoStage(scene)
        drawn = Renderer(stage, imaging.model_copy(update={"exposure": exposure}), np.random.SeedSequence(k))
        lenses = {camera.name: imaging.lenses.draw(camera, rng) for camera in spec.cameras}
        below = k % 8 == 6
        camera = cameras_of(spec, lenses)["cam4" if below else f"cam{k % 4}"]
        middle, spread = (still.carrier_poses[1, :2], 0.08) if below else (np.zeros(2), 1.5)
        pose = np.array([*(middle + rng.uniform(-spread, spread, 2)), rng.uniform(-math.pi, math.pi)])
        still.poses[0] = pose
        stage.place(still)
        image = drawn.draw(camera, pose, np.array([0.3, 0.0, 0.5]))
        drawn.close()
        _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        found = Detector(640, 480, Health()).decode(bytes(data))
        codes = []
        for number, quad in zip(found.ids.tolist(), found.corners, strict=True):
            c, s = math.cos(pose[2]), math.sin(pose[2])
            turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
            for other, corners in places:
                true, _ = camera.project((corners - [pose[0], pose[1], 0.0]) @ turn)
                if other == number and np.abs(true - quad).max() < NEAR:
                    codes.append({"id": number, "corners": np.round(true, 2).tolist()})
        name = f"{k:02d}.jpg"
        (HERE / name).write_bytes(bytes(data))
        told[name] = codes
    lines = [f" {json.dumps(name)}: {json.dumps(codes)}" for name, codes in told.items()]
    (HERE / "codes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print({name: [code["id"] for code in codes] for name, codes in told.items()})  # noqa: T201


if __name__ == "__main__":
    main()
