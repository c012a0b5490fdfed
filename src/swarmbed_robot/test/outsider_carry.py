"""A controller as other people write them: rclpy, the contract's names, nothing of Swarmbed but one action.

In a robot's namespace it keeps the power on, waits until tags of a wall and of a carrier were there 0.1 s
ago, drives before the carrier and below it by what `tf` says of its tags, lifts it, carries it back, puts it
down, and prints what it has seen. Everything that it waits for is something that it is told.
"""

import math
import sys

import rclpy
from geometry_msgs.msg import Twist
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from std_msgs.msg import Bool, Float32, Int32MultiArray

from dots_interfaces.msg import TagArray
from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.msg import Waypoint
from tf2_msgs.msg import TFMessage

PAST = 0.1  # s before now of which frames are looked up, as DOTS controllers do


def seconds(stamp):
    return stamp.sec + 1e-9 * stamp.nanosec


def turned(q, v):
    """A vector turned by a quaternion."""
    x, y, z, w = q.x, q.y, q.z, q.w
    t = [2 * (y * v[2] - z * v[1]), 2 * (z * v[0] - x * v[2]), 2 * (x * v[1] - y * v[0])]
    return [
        v[0] + w * t[0] + y * t[2] - z * t[1],
        v[1] + w * t[1] + z * t[0] - x * t[2],
        v[2] + w * t[2] + x * t[1] - y * t[0],
    ]


class Carrier(Node):
    def __init__(self):
        super().__init__("controller")
        self.robot = self.get_namespace().strip("/")
        self.frames = {}
        self.tags = {}
        self.heading = None
        self.up = False
        self.arrived = -math.inf
        self.ticks = 0
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(TFMessage, "tf", self.on_tf, 100)
        self.create_subscription(TFMessage, "tf_static", self.on_tf, latched)
        self.create_subscription(Float32, "sensor/compass", self.on_compass, qos_profile_sensor_data)
        for k in range(5):
            self.create_subscription(TagArray, f"cam{k}_tags", lambda sent, k=k: self.on_tags(k, sent), 10)
        self.power = self.create_publisher(Bool, "power_en", 10)
        self.motors = self.create_publisher(Bool, "motor_en", 10)
        self.led = self.create_publisher(Int32MultiArray, "led", 10)
        self.lifter = self.create_publisher(Bool, "lifter", 10)
        self.cmd_vel = self.create_publisher(Twist, "cmd_vel", 10)
        self.path = ActionClient(self, FollowPath, "follow_path")
        self.create_timer(0.1, self.beat)

    def now(self):
        return self.get_clock().now().nanoseconds * 1e-9

    def on_tf(self, sent):
        for frame in sent.transforms:
            self.frames.setdefault(frame.child_frame_id, []).append(frame)

    def on_compass(self, sent):
        self.heading = sent.data

    def on_tags(self, camera, sent):
        self.tags[camera] = sent.data

    def beat(self):
        self.ticks += 1
        self.power.publish(Bool(data=True))
        self.motors.publish(Bool(data=True))
        self.lifter.publish(Bool(data=self.up))
        self.led.publish(Int32MultiArray(data=[0x00FF00 if self.ticks % 2 else 0] * 16))

    def lookup(self, name):
        """The newest frame that is not newer than the past, if there is a newer one as well."""
        past = self.now() - PAST
        known = self.frames.get(f"{self.robot}_{name}", ())
        before = [frame for frame in known if self.arrived < seconds(frame.header.stamp) <= past]
        after = [frame for frame in known if seconds(frame.header.stamp) > past]
        return before[-1] if before and after else None

    def place(self, camera, number):
        """Where a tag is for the robot and where it looks, x, y and a direction; None if it does not know."""
        name = f"{camera}_fid{number:03d}"
        frame, mount = self.lookup(name), self.frames.get(f"{self.robot}_{camera}_link")
        if frame is None or mount is None:
            return None
        t, m = frame.transform.translation, mount[-1].transform
        x, y, _ = turned(m.rotation, [t.x, t.y, t.z])
        out = turned(m.rotation, turned(frame.transform.rotation, [0.0, 0.0, 1.0]))
        return x + m.translation.x, y + m.translation.y, math.atan2(out[1], out[0])

    def carrier(self):
        """The side of a carrier that a camera ahead sees."""
        for k in (0, 3):
            for tag in self.tags.get(k, ()):
                found = self.place(f"cam{k}", tag.id) if 100 <= tag.id < 120 else None
                if found is not None:
                    return found
        return None

    def wall(self):
        """Any tag of a wall, with its frame."""
        for k in range(4):
            for tag in self.tags.get(k, ()):
                found = self.place(f"cam{k}", tag.id) if tag.id < 12 else None
                if found is not None:
                    return f"wall {tag.id} at {math.hypot(*found[:2]):.2f} m"
        return None

    def below(self):
        """Where the middle of the carrier above is."""
        tags = self.tags.get(4, ())
        if len(tags) != 1 or tags[0].id != 200:
            return None
        frame = self.lookup("cam4_fid200")
        if frame is None:
            return None
        # cam4 looks up along its x; its z is the robot's backwards.
        return -frame.transform.translation.z, frame.transform.translation.y

    def height(self):
        known = self.frames.get(f"{self.robot}_lifter_link")
        return known[-1].transform.translation.z if known else math.nan

    def until(self, condition, what):
        print(what, flush=True)  # noqa: T201 - it is a program
        while True:
            rclpy.spin_once(self)
            found = condition()
            if found:
                return found

    def drive(self, x, y, yaw, what):
        self.until(self.path.server_is_ready, "the action")
        goal = FollowPath.Goal(waypoints=[Waypoint(x=x, y=y, yaw=yaw)], max_speed=0.3)
        goal.header.frame_id = "base_link"
        sent = self.path.send_goal_async(goal)
        self.until(sent.done, what)
        result = sent.result().get_result_async()
        self.until(result.done, f"{what}: the end")
        if result.result().result.outcome != FollowPath.Result.SUCCEEDED:
            sys.exit(f"{what}: {result.result().result}")
        # What was seen on the way is elsewhere now.
        self.arrived = self.now()

    def work(self):
        self.until(lambda: self.heading is not None, "the compass")
        wall = self.until(self.wall, "a wall")
        x, y, facing = self.until(self.carrier, "a carrier")
        ahead = math.remainder(facing + math.pi, math.tau)
        self.drive(x + 0.35 * math.cos(facing), y + 0.35 * math.sin(facing), ahead, "before it")
        x, y, facing = self.until(self.carrier, "the carrier again")
        self.drive(x - 0.165 * math.cos(facing), y - 0.165 * math.sin(facing), 0.0, "below it")
        self.until(lambda: self.tags.get(4), "what is above")
        x, y = self.until(self.below, "the middle")
        self.drive(x, y, 0.0, "its middle")
        self.up = True
        self.until(lambda: self.height() > 0.19, "the lifter")
        self.drive(-0.4, 0.0, 0.0, "back")
        self.up = False
        self.until(lambda: self.height() < 0.15, "the floor")
        print(f"carried; heading {self.heading:.2f}, {wall}, off by {math.hypot(x, y):.3f} m")  # noqa: T201


def main():
    rclpy.init()
    Carrier().work()
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
