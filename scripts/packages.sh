# Sourced by scripts that build: installs what is missing from the distribution.
# The names are the same in Debian 12, Debian 13 and Ubuntu 24.04.

build_packages=(
  g++ cmake ninja-build pkg-config
  libavformat-dev libavcodec-dev libavutil-dev libswscale-dev  # decoding (lib/video)
  libopencv-core-dev libopencv-imgproc-dev                     # pictures (lib/vision)
  libsentencepiece-dev libpcre2-dev                            # tokenizer (lib/text)
  libhunspell-dev hunspell-ko libutf8proc-dev                  # Korean scores (lib/eval)
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev
  libssl-dev libxxhash-dev                                     # SHA-256, checksums (lib/base)
  doctest-dev
)
test_packages=(python3)  # scripts/check_layers.py
long_test_packages=(clang python3-numpy)  # fuzz targets; scripts/cuda/ptx_check.py
package_packages=(dpkg-dev file)  # scripts/package: the libraries that a binary needs, as packages

# install_packages PACKAGE...: asks for root only when something is missing, and says why.
install_packages() {
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || {
    echo "These packages are missing, and this is no Debian or Ubuntu: ${missing[*]}" >&2
    echo "Install their equivalents and run this again." >&2
    exit 2
  }
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "Missing packages; as root, run: apt-get install ${missing[*]}" >&2
      exit 2
    }
    as_root=(sudo)
    echo "Root is needed once, to install from the distribution: ${missing[*]}" >&2
  else
    echo "Installing from the distribution: ${missing[*]}" >&2
  fi
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" \
      apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "apt-get could not install the packages above." >&2
    exit 2
  fi
  rm -f "$log"
}

# build PRESET TARGET...: configures once, then builds; prints only when there is work or an error.
build() {
  local preset=$1 folder=build/$1 log
  shift
  mkdir -p "$folder"
  log=$folder/build.log
  if [[ ! -f $folder/build.ninja ]]; then
    echo "Configuring $folder" >&2
    # A warning of a compiler that nobody here has met must not keep a user from building.
    cmake --preset "$preset" ${CI:+-DCAPTION_WERROR=ON} >"$log" 2>&1 || { cat "$log" >&2; exit 2; }
    grep -E '^-- CUDA' "$log" >&2 || true
  fi
  # A build that has nothing to do says nothing.
  cmake --build "$folder" --target "$@" 2>&1 | while IFS= read -r line; do
    if [[ $line =~ (Building|Linking) && ! ${said:-} ]]; then
      said=1
      echo "Building $folder" >&2
    fi
    printf '%s\n' "$line"
  done >"$log" || { tail -n 60 "$log" >&2; exit 2; }
}
