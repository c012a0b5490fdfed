"""Detect the tags in a robot's images: turns `<camera>/image`, or JPEGs, into `<camera>_tags` and frames.

It serves robots whose cameras only send images, on any machine with free cores. Images are processed in
parallel; if a camera sends too many, the older ones are dropped. Frames need the camera's lens model: they
start after `<camera>/camera_info` has been received.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Float32
from swarmbed_core.arena import Arena
from swarmbed_core.camera import CameraCalibration
from swarmbed_core.detector import Detector
from swarmbed_core.device import CornerReading
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.health import Health
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.spec import RobotSpec

from dots_interfaces.msg import TagArray
from swarmbed_robot import qos
from swarmbed_robot.errors import RobotError
from swarmbed_robot.eyes import TAG_STAMP, Sights, stamped_frames
from swarmbed_robot.nodes import Spinner, check_name, run
from swarmbed_robot.options import Option
from tf2_msgs.msg import TFMessage

if TYPE_CHECKING:
    from geometry_msgs.msg import TransformStamped
    from numpy.typing import NDArray
    from rclpy.node import Node
    from swarmbed_core.detector import Detection
    from swarmbed_core.spec import Camera

    from dots_interfaces.msg import Tag

OPTIONS = (
    Option("robot", "dots1", "name of the robot", positional=True),
    Option("kind", "dots", "kind of robot, with its cameras, from config/robots, or such a file"),
    Option("cameras", [], "cameras whose images are processed; none: all"),
    Option("compressed", False, "read the JPEGs of <camera>/image/compressed"),
    Option("arena", "dots_arena", "arena whose wall markers get frames"),
    Option("carriers", "dots_carrier", "markers on carriers, from config/markermaps, or such a file"),
    Option("workers", 0, "images processed in parallel; 0: one per core", 0, 64),
    TAG_STAMP,
)

TELL = 1.0
"""Seconds between diagnostics messages."""
CHANNELS = {"mono8": 1, "8UC1": 1, "bgr8": 3, "8UC3": 3, "rgb8": 3, "bgra8": 4, "rgba8": 4}


def pixels_of(sent: Image, size: tuple[int, int], health: Health, name: str) -> NDArray[np.uint8] | None:
    """Return a message's pixels, as grey or BGR; None for another size or encoding, which is counted."""
    channels = CHANNELS.get(sent.encoding)
    if channels is None:
        health.refuse("image.encoding", f"{name}: '{sent.encoding}'; expected one of {', '.join(CHANNELS)}")
        return None
    data = np.frombuffer(sent.data, np.uint8)
    height, width, step = sent.height, sent.width, sent.step
    if (height, width) != size or step < width * channels or len(data) != height * step:
        what = f"{len(data)} bytes for {width}x{height} of {sent.encoding}"
        health.refuse("image.size", f"{name}: {what}; expected {size[1]}x{size[0]}")
        return None
    rows = data.reshape(height, step)[:, : width * channels]
    if channels == 1:
        return rows
    colours = rows.reshape(height, width, channels)[..., :3]
    return colours[..., ::-1] if sent.encoding.startswith("rgb") else colours


class SharedHealth(Health):
    """A `Health` that is safe to use from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()

    def refuse(self, reason: str, explanation: str) -> None:
        """Count a rejected input, under the lock."""
        with self.lock:
            super().refuse(reason, explanation)


class Watcher:
    """Detects tags in the images of one robot."""

    def __init__(self, node: Node, options: dict[str, Any]) -> None:
        """Subscribe to the cameras.

        Raises:
            SwarmbedError: the kind, a camera, the arena or the carrier is unknown.
        """
        check_name(options["robot"])
        self.node = node
        self.robot = options["robot"]
        self.spec = RobotSpec.load(options["kind"])
        there = {camera.name: camera for camera in self.spec.cameras}
        wanted = options["cameras"] or list(there)
        strangers = [name for name in wanted if name not in there]
        if strangers or not wanted:
            problem = f"no camera '{strangers[0]}'" if strangers else "no cameras"
            message = f"{self.spec.kind} has {problem}; available: {', '.join(there) or 'none'}"
            raise RobotError(message)
        self._carriers = CarrierMarkers.load(options["carriers"]) if self.spec.carrier else None
        self._walls = Arena.load(options["arena"]).markers()
        self.under = set() if self._carriers is None else set(self._carriers.underside_ids)
        self.when_found = options["tag_stamp"] == "arrival"
        self.health = SharedHealth()
        self.lock = Lock()
        workers = options["workers"] or os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="detector")
        self._height = None if self.spec.lifter is None else self.spec.lifter.lowered
        self._calibrations: dict[str, CameraCalibration] = {}
        self._sights = Sights(self.robot, self.spec, {}, self._carriers, self._walls, self.health)
        self.frames = node.create_publisher(TFMessage, f"/{self.robot}/tf", qos.TF)
        self._diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", qos.OUTPUT)
        self._told = time.monotonic()
        self._cameras = [_Camera(self, there[name], packed=options["compressed"]) for name in wanted]
        if self.spec.lifter is not None:
            node.create_subscription(Float32, f"/{self.robot}/lifter_height", self._lifted, qos.INPUT)
        self.timer = node.create_timer(TELL, self._tell)

    def calibrated(self, camera: str, sent: CameraInfo) -> None:
        """Set a camera's lens model; an unusable one is counted and ignored."""
        five = [*sent.d, 0.0, 0.0, 0.0, 0.0, 0.0][:5]
        problem = None
        if not (sent.k[0] > 0 and sent.k[4] > 0):
            problem = f"focal lengths {sent.k[0]:g} and {sent.k[4]:g}: the camera is not calibrated"
        elif sent.distortion_model not in {"", "plumb_bob"} or any(sent.d[5:]):
            problem = f"lens model '{sent.distortion_model}'; expected plumb_bob with up to five numbers"
        if problem is not None:
            self.health.refuse("camera_info", f"{camera}: {problem}")
            return
        try:
            found = CameraCalibration(
                version=1,
                width=sent.width,
                height=sent.height,
                fx=sent.k[0],
                fy=sent.k[4],
                cx=sent.k[2],
                cy=sent.k[5],
                distortion=(five[0], five[1], five[2], five[3], five[4]),
            )
            if self._calibrations.get(camera) == found:
                return
            known = self._calibrations | {camera: found}
            sights = Sights(self.robot, self.spec, known, self._carriers, self._walls, self.health)
        except (SwarmbedError, ValueError) as error:
            self.health.refuse("camera_info", f"{camera}: {error}")
            return
        with self.lock:
            self._calibrations, self._sights = known, sights
        self.node.get_logger().info(f"{camera}: lens model received, publishing frames")

    def seen(self, reading: CornerReading) -> tuple[list[Tag], list[TransformStamped]]:
        """Return the tags in an image, and their frames if the camera's lens is known."""
        with self.lock:
            tags, frames = self._sights.seen(reading, self._height, None, alone=True)
            return tags, frames if reading.camera in self._calibrations else []

    def _lifted(self, sent: Float32) -> None:
        self._height = sent.data

    def _tell(self) -> None:
        """Publish the rates of processed images, the dropped images, and the rejected ones with reasons."""
        now = time.monotonic()
        past, self._told = max(now - self._told, 1e-3), now
        values = {}
        for camera in self._cameras:
            came, lost, camera.looked, camera.lost = camera.looked, camera.lost, 0, 0
            values[camera.name] = f"{came / past:.1f} images/s, {lost} dropped"
        with self.health.lock:
            counts, latest = dict(self.health.counts), dict(self.health.latest)
        refused = {reason: f"{n} times; last: {latest[reason]}" for reason, n in counts.items()}
        made = DiagnosticArray()
        made.header.stamp = self.node.get_clock().now().to_msg()
        for what, told, bad in (("images", values, False), ("refused images", refused, bool(refused))):
            made.status.append(
                DiagnosticStatus(
                    level=DiagnosticStatus.WARN if bad else DiagnosticStatus.OK,
                    name=f"{self.robot}: {what}",
                    message=f"{sum(counts.values())} rejected since the start",
                    hardware_id=self.robot,
                    values=[KeyValue(key=key, value=value) for key, value in told.items()],
                )
            )
        self._diagnostics.publish(made)

    def close(self) -> None:
        """Finish the images in progress and drop the waiting ones."""
        self.pool.shutdown(cancel_futures=True)


class _Camera:
    """The images of one camera: one is processed at a time, and the newest one waits.

    Attributes:
        looked: number of images processed since the last diagnostics.
        lost: number of images replaced by newer ones since the last diagnostics.
    """

    def __init__(self, watcher: Watcher, camera: Camera, *, packed: bool) -> None:
        self.name = camera.name
        self.looked = self.lost = 0
        self._watcher = watcher
        self._lifted = camera.on_lifter
        self._detector = Detector(camera.width, camera.height, watcher.health, camera.name)
        self._lock = Lock()
        self._busy = False
        self._waiting: Any = None
        node, base = watcher.node, f"/{watcher.robot}/{camera.name}"
        self._tags = node.create_publisher(TagArray, f"{base}_tags", qos.OUTPUT)
        kind, topic = (CompressedImage, "image/compressed") if packed else (Image, "image")
        node.create_subscription(kind, f"{base}/{topic}", self._take, qos.INPUT)
        node.create_subscription(
            CameraInfo, f"{base}/camera_info", lambda sent: watcher.calibrated(camera.name, sent), qos.INPUT
        )

    def _take(self, sent: Any) -> None:
        """Process an image, now or after the current one."""
        with self._lock:
            if self._busy:
                self.lost += self._waiting is not None
                self._waiting = sent
                return
            self._busy = True
        self._watcher.pool.submit(self._work, sent)

    def _work(self, sent: Any) -> None:
        """Process an image, and queue the one that arrived meanwhile behind those of other cameras."""
        try:
            self._look(sent)
        except Exception as error:  # noqa: BLE001 - no image may end the worker
            self._watcher.health.refuse("image", f"{self.name}: {type(error).__name__}: {error}")
        with self._lock:
            self.looked += 1
            sent, self._waiting = self._waiting, None
            self._busy = sent is not None
        if sent is not None:
            # The pool rejects it once the node ends.
            with contextlib.suppress(RuntimeError):
                self._watcher.pool.submit(self._work, sent)

    def _look(self, sent: Any) -> None:
        """Publish the content of one image: frames first, because subscribers of a tag look up its frame."""
        watcher, found = self._watcher, self._found(sent)
        if found is None:
            return
        under = np.array([number in watcher.under for number in found.ids.tolist()], dtype=np.bool_)
        kept = under if self._lifted else ~under
        stamp = sent.header.stamp
        seconds = stamp.sec + 1e-9 * stamp.nanosec
        reading = CornerReading(seconds, self.name, found.ids[kept], found.corners[kept])
        tags, frames = watcher.seen(reading)
        if frames:
            told = watcher.node.get_clock().now().to_msg() if watcher.when_found else stamp
            watcher.frames.publish(stamped_frames(frames, told))
        self._tags.publish(TagArray(data=tags))

    def _found(self, sent: Any) -> Detection | None:
        """Return the codes in a message's image; None if the image is invalid."""
        if isinstance(sent, CompressedImage):
            image = self._detector.unpack(bytes(sent.data))
        else:
            image = pixels_of(sent, self._detector.size, self._watcher.health, self.name)
        return None if image is None else self._detector.detect(image)


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> None:
    """Process images until the process is asked to end."""
    watcher = Watcher(node, options)
    try:
        spinner.spin()
    finally:
        watcher.close()


def main() -> int:
    """Run the node."""
    return run("detector", __doc__, OPTIONS, start)


if __name__ == "__main__":
    sys.exit(main())
