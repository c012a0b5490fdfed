"""The world gazebo: world files, and the proxy of a gzserver that runs in lock-step."""
