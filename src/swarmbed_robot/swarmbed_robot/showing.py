"""Publishes a whole world for rviz: arena, carriers, map, and the frames of all robots in one tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.geometry import compose, invert
from swarmbed_core.scene import RobotPlacement
from visualization_msgs.msg import MarkerArray

from swarmbed_robot import qos
from swarmbed_robot.api import Output
from swarmbed_robot.map_server import MapServer
from swarmbed_robot.place import flat_pose
from swarmbed_robot.scenery import Carriers, scene_markers
from swarmbed_robot.templates import Template, transforms
from tf2_msgs.msg import TFMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.node import Node
    from swarmbed_core.observing import Source
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import TaskWorld

    from swarmbed_robot.api import RobotApi


class Showing:
    """The topics that show a world; an onlooker.

    Attributes:
        tf: the topic of the moving frames.
    """

    rate = TICK_RATE

    def __init__(self, node: Node, rate: float, *, truth: bool, map_resolution: float) -> None:
        """Create the topics.

        Args:
            node: the world's node.
            rate: rate of the frames, in Hz.
            truth: whether robots that are not localised are shown at their true pose.
            map_resolution: cell size of `/map`, in metres.
        """
        self._truth = truth
        self._shown: tuple[object, ...] = ()
        self._scenery = node.create_publisher(MarkerArray, "/scene", qos.LATCHED)
        self._carriers = node.create_publisher(MarkerArray, "/carriers", qos.LATCHED)
        self._static = node.create_publisher(TFMessage, "/tf_static", qos.LATCHED)
        self.tf = Output(node.create_publisher(TFMessage, "/tf", qos.TF), rate)
        self._map = MapServer(node, map_resolution)

    def open(self, scene: Scene, world: TaskWorld) -> None:
        """Publish a new world."""
        self._scene = scene
        self._world = world
        self._map.begin(scene, world)
        self._moving = Carriers(scene) if scene.carriers else None
        self.show_carriers()

    def look(self, source: Source) -> None:  # noqa: ARG002 - it compares the world with what it shows
        """Publish carriers and scene, if they have changed."""
        self.show_carriers()
        self.show_scene()

    def show_scene(self) -> None:
        """Publish the scene if a robot or an obstacle was added or removed."""
        stands = (tuple(self._apis), self._world.obstacles)
        if stands == self._shown:
            return
        again, self._shown = bool(self._shown), stands
        # The poses do not matter: the markers follow the robots' frames.
        robots = [
            RobotPlacement(name, api.onboard.device.spec, (0.0, 0.0, 0.0)) for name, api in self._apis.items()
        ]
        scene = replace(self._scene, robots=tuple(robots), obstacles=self._world.obstacles)
        self._scenery.publish(bytes(Template(scene_markers(scene, again=again)).data))

    def show_carriers(self) -> None:
        """Publish the carriers if one has moved, and the map if the obstacles have changed."""
        self._map.update()
        if self._moving is not None and self._moving.moved(self._world.carriers()):
            self._carriers.publish(bytes(self._moving.template.data))

    def take(self, apis: Mapping[str, RobotApi]) -> None:
        """Set the robots of the world, and publish the scene and the static frames."""
        self._apis = apis
        self.show_scene()
        fixed = [transform for api in apis.values() for transform in api.place.fixed_frames]
        self._static.publish(TFMessage(transforms=fixed))
        frames = []
        for name, api in apis.items():
            frames += [("map", f"{name}_odom"), (f"{name}_odom", f"{name}_base_link")]
            frames += [api.place.slide] if api.place.slide is not None else []
        self._bytes = Template(transforms(frames, flat=False))
        self._values = np.zeros((len(frames), 7))
        self._values[:, 6] = 1.0

    def show_frames(self, now: float) -> None:
        """Publish the poses of all robots in `map`, if they are due.

        These are the robots' estimates, or their true poses if they are not localised.
        """
        if not self.tf.due(now):
            return
        world, values = self._world, self._values
        truth = dict(zip(world.names, world.truth(), strict=True)) if self._truth else {}
        row = 0
        for name, api in self._apis.items():
            belief, odom = api.onboard.filter, values[row]
            x, y, yaw, *_ = belief.odometry.numbers()
            flat_pose(values[row + 1], (x, y, yaw))
            row += 2
            if api.place.slide is not None:
                api.place.place_platform(values[row])
                row += 1
            if belief.localised:
                flat_pose(odom, compose(belief.pose, invert((x, y, yaw))).tolist())
            elif name in truth:
                flat_pose(odom, compose(truth[name][:3], invert((x, y, yaw))).tolist())
        self._bytes.fill(values)
        seconds, rest = divmod(round(now * 1e9), 1_000_000_000)
        self._bytes.stamp(seconds, rest)
        self.tf.send(bytes(self._bytes.data))
