#!/bin/sh
# Install the libraries of a lock into a virtual environment: with uv, or with pip where uv fails.
# Usage: sh requirements/install.sh ENVIRONMENT LOCK [OPTIONS of pip install]
set -eu
environment=$1 lock=$2
shift 2
python=$environment/bin/python
pip="$python -m pip --quiet --disable-pip-version-check"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

# uv reads no configuration of pip; where that names folders with packages, uv needs them too.
export UV_FIND_LINKS="${UV_FIND_LINKS-${PIP_FIND_LINKS-}}"
if $pip install --target "$tools" --require-hashes --only-binary :all: -r requirements/uv.lock \
    && "$tools/bin/uv" pip install --quiet --python "$python" -r "$lock" "$@"; then
    exit
fi
echo "uv cannot install $lock here; pip does, which takes ten times as long." >&2
$pip install -r "$lock" "$@"
