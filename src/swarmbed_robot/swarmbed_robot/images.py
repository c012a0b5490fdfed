"""Publishes the images of one robot's cameras: raw, as JPEG, and with the detected tags drawn in.

A camera takes images only while one of its image topics has subscribers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.camera import CX, CY, FX, FY, K1, K3, cameras_of
from swarmbed_core.detector import Detector
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.pictures import coloured, jpeg, with_tags

from swarmbed_robot.options import Option
from swarmbed_robot.templates import Template, message, packed_image, stamped

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.camera import CameraModel
    from swarmbed_core.device import ImageReading, ImagesPart, ImageWatcher
    from swarmbed_core.spec import Camera

    from swarmbed_robot.api import RobotApi

ENCODINGS = {"mono8": 1, "rgb8": 3, "bgr8": 3}
"""Bytes per pixel."""
IMAGE_ENCODING = Option(
    "image_encoding",
    "rgb8",
    "encoding of <camera>/image; rgb8, as on the real robots, repeats the grey level three times",
    choices=("rgb8", "mono8"),
)


class Images:
    """The image topics of one robot's cameras."""

    def __init__(self, api: RobotApi, part: ImagesPart, encoding: str) -> None:
        """Create the topics.

        Args:
            api: the robot's API.
            part: the robot's cameras.
            encoding: value of `IMAGE_ENCODING`.
        """
        spec = api.onboard.device.spec
        models = cameras_of(spec, api.onboard.device.calibrations)
        self._api = api
        self._watcher: ImageWatcher | None = part.watcher()
        self._watched: frozenset[str] = frozenset()
        self._topics = {
            camera.name: _Topics(api, camera, models[camera.name], encoding) for camera in spec.cameras
        }

    def watch(self) -> None:
        """Enable exactly the cameras whose images have subscribers."""
        watched = frozenset(name for name, topics in self._topics.items() if topics.watched)
        if self._watcher is None or watched == self._watched:
            return
        self._watched = watched
        try:
            self._watcher.watch(watched)
        except SwarmbedError as error:
            # The next attempt would fail too.
            self._watcher = None
            self._api.refuse("images", str(error))
            self._api.node.get_logger().error(f"{self._api.name}: {error}")

    def cycle(self, now: float) -> None:
        """Publish the images that have arrived, and `camera_info` where it is due."""
        if self._watched and self._watcher is not None:
            for reading in self._watcher.read():
                self._topics[reading.camera].show(reading)
        for name, topics in self._topics.items():
            if self._watcher is None or name not in self._watched:
                topics.tell(now)

    def leave(self) -> None:
        """Stop the cameras."""
        if self._watcher is not None:
            self._watcher.close()


class _Topics:
    """The topics of one camera."""

    def __init__(self, api: RobotApi, camera: Camera, model: CameraModel, encoding: str) -> None:
        name, frame = camera.name, f"{api.name}_{camera.name}_optical_frame"
        self._api = api
        self._frame = frame
        self._image = api.output(f"{name}/image")
        self._packed = api.output(f"{name}/image/compressed")
        self._tagged = api.output(f"{name}/image_tags")
        self._tagged_packed = api.output(f"{name}/image_tags/compressed")
        # At 1 Hz while the images have no subscribers; otherwise each image comes with one.
        self._info = api.output(f"{name}/camera_info")
        self._info_bytes = Template(info_of(frame, camera, model))
        self._camera = camera
        self._encoding = encoding
        self._templates: dict[str, Template] = {}
        self._detector = Detector(camera.width, camera.height, api.onboard.health, name)

    @property
    def watched(self) -> bool:
        """Return whether one of the image topics has subscribers."""
        return self._image.wanted or self._packed.wanted or self._tagged.wanted or self._tagged_packed.wanted

    def show(self, reading: ImageReading) -> None:
        """Publish an image on the topics with subscribers."""
        when = self._api.epoch + reading.stamp
        if self._info.wanted:
            self._info.send(filled(self._info_bytes, when))
        if self._image.wanted:
            image = reading.image if self._encoding == "mono8" else coloured(reading.image)
            self._image.send(filled(self._raw(self._encoding), when, image))
        if self._packed.wanted:
            self._packed.send(filled(Template(packed_image(self._frame, jpeg(reading.image))), when))
        if self._tagged.wanted or self._tagged_packed.wanted:
            picture = with_tags(reading.image, self._detector.detect(reading.image))
            if self._tagged.wanted:
                self._tagged.send(filled(self._raw("bgr8"), when, picture))
            if self._tagged_packed.wanted:
                self._tagged_packed.send(filled(Template(packed_image(self._frame, jpeg(picture))), when))

    def _raw(self, encoding: str) -> Template:
        """Return the template of raw images; it takes megabytes, so it is created on first use."""
        if encoding not in self._templates:
            self._templates[encoding] = Template(image_of(self._frame, self._camera, encoding))
        return self._templates[encoding]

    def tell(self, now: float) -> None:
        """Publish `camera_info` at its own rate, for subscribers without images."""
        if self._info.due(now):
            self._info.send(filled(self._info_bytes, self._api.epoch + now))


def info_of(frame: str, camera: Camera, model: CameraModel) -> Any:
    """Return a camera's intrinsics as a CameraInfo message for a `Template`."""
    fx, fy, cx, cy = model.numbers[[FX, FY, CX, CY]].tolist()
    return message(
        "sensor_msgs/msg/CameraInfo",
        header=stamped(frame),
        height=camera.height,
        width=camera.width,
        distortion_model="plumb_bob",
        d=model.numbers[K1 : K3 + 1],
        k=np.array([fx, 0, cx, 0, fy, cy, 0, 0, 1], dtype=np.float64),
        r=np.eye(3).ravel(),
        p=np.array([fx, 0, cx, 0, 0, fy, cy, 0, 0, 0, 1, 0], dtype=np.float64),
    )


def image_of(frame: str, camera: Camera, encoding: str) -> Any:
    """Return a black Image message for a `Template`; the pixels are its last bytes.

    Args:
        frame: name of the optical frame.
        camera: the camera, for the size.
        encoding: one of `ENCODINGS`.
    """
    step = camera.width * ENCODINGS[encoding]
    return message(
        "sensor_msgs/msg/Image",
        header=stamped(frame),
        height=camera.height,
        width=camera.width,
        encoding=encoding,
        step=step,
        data=np.zeros(camera.height * step, np.uint8),
    )


def filled(template: Template, seconds: float, image: NDArray[np.uint8] | None = None) -> bytes:
    """Return a template's message as bytes.

    Args:
        template: the message; it is changed.
        seconds: stamp, in seconds of the ROS clock.
        image: pixels to fill in; None for a message without pixels.
    """
    template.stamp(*divmod(max(round(seconds * 1e9), 0), 1_000_000_000))
    if image is not None:
        template.data[-image.size :] = image.tobytes()
    return bytes(template.data)
