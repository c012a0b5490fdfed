"""The robot API on ROS 2: nodes that provide it, and a `Robot` for programs that use it."""
