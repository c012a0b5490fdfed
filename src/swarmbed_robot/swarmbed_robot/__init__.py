"""The robot API on ROS 2, from both sides: nodes that offer it, and a `Robot` that uses it."""
