# What setup, env.sh and the other scripts share. For bash; sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
ready=$venv/.ready # written last by setup; its first line says what the environment stands on

# Puts the header comment of the calling script on the screen.
usage() { sed -n '2,/^[^#]/{/^[^#]/d;s/^# \{0,1\}//;p}' "$0"; }

# say TEXT: one line on file 3, with the calling script's name and the time since $started, in microseconds.
say() {
  local ms=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))
  printf '[%s %3d.%d s] %s\n' "${0##*/}" $((ms / 1000)) $((ms % 1000 / 100)) "$*" >&3
}

# Succeeds where a gz-sim 8 is at hand: named, ROS's, or installed.
has_harmonic() {
  [ -n "${SWARMBED_HARMONIC-}" ] || [ -d "${SWARMBED_ROS_PREFIX:-/opt/ros/jazzy}/opt/gz_sim_vendor" ] ||
    { command -v gz >/dev/null && gz sim --versions 2>/dev/null | grep -q '^8'; }
}

# go_on NAME [ARGUMENT...]: sets the workspace up if it is not, with Gazebo 11 if an argument asks for it, or
# for any Gazebo where there is none, and goes on as `swarmbed NAME`.
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

# Prints the prefix of a full ROS 2 Jazzy, or "wheels" where there is none.
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

# prepend NAME DIRECTORY...: puts directories in front of a path variable, each once.
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

# Enters what the workspace stands on, $1 as from find_ros, without the workspace's own packages.
enter_underlay() {
  export VIRTUAL_ENV=$venv
  # Nothing leaves this machine unless the user says so.
  export ROS_AUTOMATIC_DISCOVERY_RANGE=${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}
  local site
  site=$(echo "$venv"/lib/python3*/site-packages)
  if [ "$1" = wheels ]; then
    export ROS_DISTRO=jazzy ROS_VERSION=2 ROS_PYTHON_VERSION=3
    # The wheels would set the library path by starting every Python twice; this says that it is done.
    export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
    prepend LD_LIBRARY_PATH "$venv/lib" "$site"/ros_*.libs
    prepend AMENT_PREFIX_PATH "$venv"
    prepend CMAKE_PREFIX_PATH "$venv"
    prepend PYTHONPATH "$site"
  else
    # A ROS 2 built from source, package by package, has none; there the user's shell has entered it.
    if [ -f "$1/setup.bash" ]; then . "$1/setup.bash"; fi
    # `ros2 launch` runs with the system's Python and has to find our dependencies too; ROS's own come first.
    case ":${PYTHONPATH-}:" in *":$site:"*) ;; *) export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$site ;; esac
  fi
  prepend PATH "$venv/bin"
}

# Lets uv download from where the pip of the Python $1 does, and trust what it trusts.
use_pips_index() {
  local settings value
  # Of `pip config` only `list` reads all files and the environment; `get` reads the user's file alone.
  settings=$("$1" -m pip config list 2>/dev/null) || settings=
  if [ -z "${UV_DEFAULT_INDEX-}${UV_INDEX_URL-}" ] && value=$(_pip_says index-url); then export UV_DEFAULT_INDEX=$value; fi
  if [ -z "${UV_INDEX-}${UV_EXTRA_INDEX_URL-}" ] && value=$(_pip_says extra-index-url); then export UV_INDEX=$value; fi
  if [ -z "${SSL_CERT_FILE-}${SSL_CERT_DIR-}" ]; then
    value=$(_pip_says cert) || value=${REQUESTS_CA_BUNDLE:-${CURL_CA_BUNDLE-}}
    if [ -d "$value" ]; then export SSL_CERT_DIR=$value; elif [ -n "$value" ]; then export SSL_CERT_FILE=$value; fi
  fi
}

# Prints a setting of pip for installing from $settings, lines such as global.cert='/a/file'; fails if there is none.
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
