"""Publishes `/map`: a world's walls and obstacles as a latched nav_msgs/OccupancyGrid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nav_msgs.msg import OccupancyGrid
from swarmbed_core.floor_plan import floor_plan

from swarmbed_robot import qos
from swarmbed_robot.options import Option
from swarmbed_robot.templates import Template, message, stamped

if TYPE_CHECKING:
    from typing import Any

    from rclpy.node import Node
    from swarmbed_core.floor_plan import FloorPlan
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import TaskWorld

RESOLUTION = Option("map_resolution", 0.05, "cell size of /map, in metres", 0.01, 1.0)


def map_message(plan: FloorPlan) -> Any:
    """Return a floor plan as an OccupancyGrid message for a `Template`."""
    rows, columns = plan.cells.shape
    x, y = plan.origin
    corner = message("geometry_msgs/msg/Pose", position=message("geometry_msgs/msg/Point", x=x, y=y))
    info = message(
        "nav_msgs/msg/MapMetaData",
        resolution=plan.resolution,
        width=columns,
        height=rows,
        origin=corner,
    )
    return message(
        "nav_msgs/msg/OccupancyGrid", header=stamped("map"), info=info, data=plan.cells.reshape(-1)
    )


class MapServer:
    """The topic `/map` of a world."""

    def __init__(self, node: Node, resolution: float) -> None:
        """Create the topic.

        Args:
            node: the world's node.
            resolution: cell size, in metres.
        """
        self._map = node.create_publisher(OccupancyGrid, "/map", qos.LATCHED)
        self._resolution = resolution

    def begin(self, scene: Scene, world: TaskWorld) -> None:
        """Publish the map of a new world."""
        self._scene = scene
        self._world = world
        self._publish()

    def update(self) -> None:
        """Publish the map again if the obstacles have changed."""
        if self._world.obstacles != self._shown:
            self._publish()

    def _publish(self) -> None:
        scene, self._shown = self._scene, self._world.obstacles
        places = [robot.pose for robot in scene.robots]
        plan = floor_plan(scene.arena, self._shown, self._resolution, places)
        template = Template(map_message(plan))
        template.stamp(*divmod(round(self._world.time * 1e9), 1_000_000_000))
        self._map.publish(bytes(template.data))
