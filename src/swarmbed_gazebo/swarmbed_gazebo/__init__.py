"""The world `gazebo`: world files, and the proxy of a simulator that runs in lock-step."""
