"""A controller as other people write them: rclpy, the contract's names, and nothing of Swarmbed.

Drives the robot in whose namespace it is started half a metre by its odometry, around what its ToF ring sees
nearer than 0.2 m, blinks, raises the lifter, and prints what it has seen.
"""

import contextlib
import math
import struct

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data, qos_profile_system_default
from sensor_msgs.msg import BatteryState, Imu, PointCloud2
from std_msgs.msg import Bool, Float32, Float64, Int32MultiArray


class Outsider(Node):
    def __init__(self):
        super().__init__("controller")
        self.odom = self.heading = self.ranges = self.imu = self.battery = self.echo = None
        self.start = None
        self.ticks = 0
        self.create_subscription(Odometry, "odom", self.on_odom, qos_profile_system_default)
        self.create_subscription(PointCloud2, "sensor/scan", self.on_scan, qos_profile_sensor_data)
        self.create_subscription(Imu, "sensor/imu", self.on_imu, qos_profile_sensor_data)
        self.create_subscription(Float32, "sensor/compass", self.on_compass, qos_profile_sensor_data)
        self.create_subscription(BatteryState, "battery_state", self.on_battery, qos_profile_sensor_data)
        self.create_subscription(Float64, "reflect_out", self.on_echo, 10)
        self.cmd_vel = self.create_publisher(Twist, "cmd_vel", qos_profile_system_default)
        self.lifter = self.create_publisher(Bool, "lifter", 10)
        self.led = self.create_publisher(Int32MultiArray, "led", 10)
        self.reflect = self.create_publisher(Float64, "reflect_in", 10)
        self.create_timer(0.1, self.tick)

    def on_odom(self, msg):
        self.odom = msg

    def on_imu(self, msg):
        self.imu = msg

    def on_compass(self, msg):
        self.heading = msg.data

    def on_battery(self, msg):
        self.battery = msg

    def on_echo(self, msg):
        self.echo = msg.data

    def on_scan(self, msg):
        data = [2.0] * 16
        for i in range(msg.width):
            x, y, _ = struct.unpack("fff", bytes(msg.data[i * msg.point_step : i * msg.point_step + 12]))
            angle = math.atan2(y, x)
            if angle < 0.0:
                angle += 2 * math.pi
            data[round(angle / (math.pi / 8))] = math.hypot(x, y)
        self.ranges = data

    def tick(self):
        if None in (self.odom, self.heading, self.ranges, self.imu):
            return
        place = self.odom.pose.pose.position
        if self.start is None:
            self.start = (place.x, place.y)
        self.ticks += 1
        gone = math.hypot(place.x - self.start[0], place.y - self.start[1])
        twist = Twist()
        if gone < 0.5:
            direction = 0.0
            nearest = min(range(16), key=lambda i: self.ranges[i])
            if self.ranges[nearest] < 0.2:
                direction = nearest * math.pi / 8 + math.pi
            twist.linear.x, twist.linear.y = 0.3 * math.cos(direction), 0.3 * math.sin(direction)
        self.cmd_vel.publish(twist)
        self.lifter.publish(Bool(data=gone >= 0.5))
        self.led.publish(Int32MultiArray(data=[0x00FF00 if self.ticks % 2 else 0] * 16))
        self.reflect.publish(Float64(data=float(self.ticks)))
        if gone >= 0.5 and self.battery is not None and self.echo is not None:
            said = f"arrived after {gone:.2f} m, heading {self.heading:.2f}, {self.battery.voltage:.1f} V"
            print(said)  # noqa: T201 - it is a program
            raise SystemExit


def main():
    rclpy.init()
    with contextlib.suppress(SystemExit):
        rclpy.spin(Outsider())
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
