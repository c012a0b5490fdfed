# Enters the workspace: `source scripts/env.sh`, in bash. Afterwards `swarmbed`, `python` and, if installed,
# `ros2` find the packages of this workspace and their dependencies. ROS 2 stays on this machine's loopback; to
# reach other machines, first set ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET.

_swarmbed_enter() {
  local root venv ready base nounset=${-//[^u]/}
  . "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
  if ! read -r base 2>/dev/null <"$ready"; then
    echo "Swarmbed is not set up here; run $root/scripts/setup" >&2
    return 1
  fi
  # ROS's and colcon's scripts read unset variables.
  set +u
  enter_underlay "$base"
  . "$root/install/setup.bash"
  prepend PATH "$root/install/swarmbed_experiments/lib/swarmbed_experiments"
  if [ -n "$nounset" ]; then set -u; fi
}
_swarmbed_enter
_swarmbed_entered=$?
unset -f usage say has_harmonic go_on find_ros prepend enter_underlay use_pips_index _pip_says _swarmbed_enter
return $_swarmbed_entered
