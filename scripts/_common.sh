# Functions and paths shared by setup, env.sh and the other scripts. For bash; to be sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
ready=$venv/.ready # written last by setup; its first line is the ROS prefix, or "wheels"

# Prints the header comment of the calling script.
usage() { sed -n '2,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//;p}' "$0"; }

# say TEXT: prints a line to file descriptor 3, with the calling script's name and the time since $started (in µs).
say() {
  local ms=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))
  printf '[%s %3d.%d s] %s\n' "${0##*/}" $((ms / 1000)) $((ms % 1000 / 100)) "$*" >&3
}

# Succeeds if a gz-sim 8 is available: in SWARMBED_HARMONIC, in ROS, or in the system.
has_harmonic() {
  [ -n "${SWARMBED_HARMONIC-}" ] || [ -d "${SWARMBED_ROS_PREFIX:-/opt/ros/jazzy}/opt/gz_sim_vendor" ] ||
    { command -v gz >/dev/null && gz sim --versions 2>/dev/null | grep -q '^8'; }
}

# go_on NAME [ARGUMENT...]: sets the workspace up if needed and executes `swarmbed NAME`. Installs Gazebo 11 if
# an argument requires it, or requires any Gazebo and there is no gz-sim 8.
go_on() {
  local with=()
  case " $* " in
    *" --world gazebo11 "* | *" --world=gazebo11 "* | *" --gazebo "*) with=(--gazebo) ;;
    *" --world gazebo "* | *" --world=gazebo "*) has_harmonic || with=(--gazebo) ;;
  esac
  "$root/scripts/setup" --quiet "${with[@]}"
  . "$root/scripts/env.sh"
  exec swarmbed "$@"
}

# Prints the prefix of a full ROS 2 Jazzy, or "wheels" if there is none.
find_ros() {
  local opt=${SWARMBED_ROS_PREFIX:-/opt/ros/jazzy} ros2
  if [ "${ROS_DISTRO-}" = jazzy ] && ros2=$(command -v ros2); then
    dirname "$(dirname "$ros2")"
  elif [ -f "$opt/setup.bash" ]; then
    echo "$opt"
  else
    echo wheels
  fi
}

# prepend NAME DIRECTORY...: prepends directories to a path variable, without duplicates.
prepend() {
  local name=$1 path=${!1-} i
  for ((i = $#; i > 1; i--)); do
    path=":$path:"
    path=${path//":${!i}:"/":"}
    path=${path#:}
    path="${!i}:${path%:}"
  done
  export "$name=${path%:}"
}

# Enters the underlay, without the workspace's own packages; $1 is the result of find_ros.
enter_underlay() {
  export VIRTUAL_ENV=$venv
  # ROS stays on this machine unless the user sets it otherwise.
  export ROS_AUTOMATIC_DISCOVERY_RANGE=${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}
  local site
  site=$(echo "$venv"/lib/python3*/site-packages)
  if [ "$1" = wheels ]; then
    export ROS_DISTRO=jazzy ROS_VERSION=2 ROS_PYTHON_VERSION=3
    # Without this, the wheels start every Python twice to set the library path.
    export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
    prepend LD_LIBRARY_PATH "$venv/lib" "$site"/ros_*.libs
    prepend AMENT_PREFIX_PATH "$venv"
    prepend CMAKE_PREFIX_PATH "$venv"
    prepend PYTHONPATH "$site"
  else
    # A ROS 2 built from source with isolated packages has no setup.bash here; the user's shell has already entered it.
    if [ -f "$1/setup.bash" ]; then . "$1/setup.bash"; fi
    # `ros2 launch` runs in the system's Python and must find our dependencies too; ROS's own take precedence.
    case ":${PYTHONPATH-}:" in *":$site:"*) ;; *) export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$site ;; esac
  fi
  prepend PATH "$venv/bin"
}

# Makes uv use the package index and certificates of the pip of Python $1.
use_pips_index() {
  local settings value
  # `pip config list` reads all files and the environment; `get` reads only the user's file.
  settings=$("$1" -m pip config list 2>/dev/null) || settings=
  if [ -z "${UV_DEFAULT_INDEX-}${UV_INDEX_URL-}" ] && value=$(_pip_says index-url); then export UV_DEFAULT_INDEX=$value; fi
  if [ -z "${UV_INDEX-}${UV_EXTRA_INDEX_URL-}" ] && value=$(_pip_says extra-index-url); then export UV_INDEX=$value; fi
  if [ -z "${SSL_CERT_FILE-}${SSL_CERT_DIR-}" ]; then
    value=$(_pip_says cert) || value=${REQUESTS_CA_BUNDLE:-${CURL_CA_BUNDLE-}}
    if [ -d "$value" ]; then export SSL_CERT_DIR=$value; elif [ -n "$value" ]; then export SSL_CERT_FILE=$value; fi
  fi
}

# Prints the pip setting $1 from $settings, lines such as global.cert='/a/file'; fails if it is not set.
_pip_says() {
  local section value
  for section in :env: install global; do
    value=$(sed -n "s/^$section\.$1=.\(.*\).$/\1/p" <<<"$settings" | sed 's/\\n/ /g; s/^ *//')
    if [ -n "$value" ]; then
      printf '%s\n' "$value"
      return
    fi
  done
  return 1
}
