"""The model of a scene: every thing where the scene has it, with the dimensions of the files."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import legs_of, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.mujoco_model import SUBSTEP, compile_scene
from swarmbed_sim.solid import StandingBox, middle, yaw_inertia

OBSTACLES = (
    {"shape": "box", "size": [0.4, 0.2], "pose": [1.0, 1.0, 0.3], "height": 0.02},
    {"shape": "cylinder", "radius": 0.1, "pose": [1.0, -1.0, 0.0]},
)


def scene(kind="dots", carriers=(), arena="dots_arena", obstacles=()):
    return make_scene(
        Scenario.model_validate(
            {
                "version": 1,
                "title": "model",
                "time_limit": 1,
                "arena": arena,
                "robots": [{"kind": kind, "place": {"poses": [(0, 0, 0), (-1, 0.5, 1)]}}],
                "carriers": carriers,
                "obstacles": obstacles,
                "controller": {"name": "none"},
            }
        )
    )


def carrier(x, y, yaw, **more):
    return {"place": {"poses": [(x, y, yaw)]}, **more}


def body_mass(model, name):
    return model.body_subtreemass[model.body(name).id]


@pytest.mark.parametrize("kind", ["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_robots_weigh_what_their_file_says(kind):
    spec = RobotSpec.load(kind)
    found = compile_scene(scene(kind))
    for name, row in zip(found.names[:2], found.robots, strict=True):
        assert body_mass(found.model, name) == pytest.approx(spec.body.mass)
        assert found.model.jnt_dofadr[found.model.joint(f"{name} x").id] == row
        assert found.model.dof_M0[row + 2] == pytest.approx(yaw_inertia(spec), rel=1e-3)
    assert (found.lifters >= 0).all() == (spec.lifter is not None)


def test_inertia_of_discs_and_boxes():
    assert yaw_inertia(RobotSpec.load("dots")) == pytest.approx(0.5 * 3.0 * 0.125**2)
    pioneer = RobotSpec.load("pioneer3dx")
    assert yaw_inertia(pioneer) == pytest.approx(9.0 * (0.485**2 + 0.381**2) / 12)


def test_a_carrier_weighs_what_it_and_its_payload_do_and_stands_on_its_legs():
    spec = RobotSpec.load("dots").carrier
    found = compile_scene(scene(carriers=[carrier(1.0, 0.5, 0.4, payload=1.8)]))
    assert body_mass(found.model, "carriers0") == pytest.approx(spec.mass + 1.8)
    data = mujoco.MjData(found.model)
    mujoco.mj_forward(found.model, data)
    turn = np.array([[math.cos(0.4), -math.sin(0.4)], [math.sin(0.4), math.cos(0.4)]])
    for i, leg in enumerate(legs_of(spec)):
        at = data.geom(f"carrier1 leg{i}").xpos
        assert at[:2] == pytest.approx(turn @ leg + (1.0, 0.5))
        half, radius = found.model.geom(f"carrier1 leg{i}").size[1], spec.leg_radius
        assert at[2] - half - radius == pytest.approx(0.0)
        assert at[2] + half == pytest.approx(spec.clearance)
    tray = found.model.geom("carrier1 tray").size
    assert data.geom("carrier1 tray").xpos[2] - tray[2] == pytest.approx(spec.clearance)
    assert tray[:2] == pytest.approx((spec.length / 2, spec.width / 2))


def test_joined_carriers_are_one_body():
    placed = scene(carriers=[carrier(1.2, 0.0, 0.7, joined=[(0, 0), (1, 0), (0, 1)]), carrier(-1.2, -1, 0.0)])
    found = compile_scene(placed)
    assert found.body_of.tolist() == [0, 0, 0, 1]
    assert found.names[2:6] == ("carrier1", "carrier2", "carrier3", "carrier4")
    data = mujoco.MjData(found.model)
    mujoco.mj_forward(found.model, data)
    for placement in placed.carriers:
        assert data.geom(f"{placement.name} tray").xpos[:2] == pytest.approx(placement.pose[:2])
        assert found.thing_of[found.model.geom(f"{placement.name} leg3").id] == found.names.index(
            placement.name
        )
    assert body_mass(found.model, "carriers0") == pytest.approx(0.6)
    assert found.offsets[3] == pytest.approx((0.0, 0.0))
    x, y, yaw = middle(placed.carriers[:3])
    assert (x, y, yaw) == pytest.approx((1.2, 0.0, 0.7))


def test_walls_are_where_robots_meet_them():
    found = compile_scene(scene(obstacles=OBSTACLES), [StandingBox("crate", (-1, -1, 0.0), (0.3, 0.2))])
    model, data = found.model, mujoco.MjData(found.model)
    mujoco.mj_forward(model, data)
    assert data.geom("wall x1").xpos[0] - model.geom("wall x1").size[0] == pytest.approx(2.5)
    assert data.geom("wall y-1").xpos[1] + model.geom("wall y-1").size[1] == pytest.approx(-2.5)
    assert found.names[-4:] == ("wall", "obstacle1", "obstacle2", "crate")
    touch = data.geom("dots1 body").xpos[2]
    for name in ("obstacle1", "obstacle2", "box crate", "wall x1"):
        geom = model.geom(name)
        half = geom.size[1] if geom.type == mujoco.mjtGeom.mjGEOM_CYLINDER else geom.size[2]
        assert data.geom(name).xpos[2] - half == pytest.approx(0.0)
        assert data.geom(name).xpos[2] + half > touch
    assert model.geom("box crate").size[:2] == pytest.approx((0.15, 0.1))


def test_a_low_obstacle_passes_under_a_tray():
    found = compile_scene(scene(obstacles=OBSTACLES, carriers=[carrier(1.0, 0, 0)]))
    data = mujoco.MjData(found.model)
    mujoco.mj_forward(found.model, data)
    top = data.geom("obstacle1").xpos[2] + found.model.geom("obstacle1").size[2]
    assert top < RobotSpec.load("dots").carrier.clearance


def test_an_arena_without_walls_has_none():
    found = compile_scene(scene(arena="empty"))
    assert not any("wall" in found.model.geom(i).name for i in range(found.model.ngeom))
    assert found.model.opt.timestep == SUBSTEP


def test_only_what_does_not_fit_under_a_tray_touches_it():
    for kind, tall in (("dots", False), ("pioneer3dx", True)):
        found = compile_scene(scene(kind, carriers=[carrier(1.5, 1.5, 0)]))
        model = found.model
        tray = model.geom("carrier1 tray")
        touching = {
            model.geom(i).name.split(" ")[1]
            for i in range(model.ngeom)
            if model.geom(i).name.startswith(f"{kind}1 ")
            and (model.geom_contype[i] & tray.conaffinity[0] or model.geom_conaffinity[i] & tray.contype[0])
        }
        assert ("top" in touching) == tall
        assert "body" not in touching
