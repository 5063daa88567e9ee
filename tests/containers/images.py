"""Builds the stand-ins for the base images, and from them the images of ampcore.

There is no image registry on test machines. The stand-ins are made of Debian's packages and PyPI's,
and have the names that the Dockerfiles and docker-compose.yml use.
"""

import shutil
from pathlib import Path
from typing import Final

from tests.containers.podman import BUILD_TIMEOUT_S, Podman
from tests.machines import THIS_MACHINE

BASE_IMAGES: Final = Path(__file__).parent / "base_images"
DEBIAN: Final = "localhost/debian:bookworm"
STAND_INS: Final = {
    "docker.io/library/python:3.11.14-slim-bookworm": "python",
    "docker.io/library/node:24.19.0-bookworm-slim": "node",
    "docker.io/library/postgres:18-bookworm": "postgres",
    "docker.io/library/redis:8.2-alpine": "redis",
    "docker.io/library/caddy:2.11.4-alpine": "caddy",
    "docker.io/prom/prometheus:v2.42.0": "prometheus",
}
"""The name of each base image, and the file below `base_images` that describes its stand-in."""


def build_base_images(podman: Podman) -> None:
    """Build the stand-in of every base image, unless the storage has them."""
    if DEBIAN not in podman.run("images", "--format={{.Repository}}:{{.Tag}}").split():
        _import_debian(podman)
    for name, file in STAND_INS.items():
        podman.build(name, BASE_IMAGES / f"{file}.Dockerfile", BASE_IMAGES)


def _import_debian(podman: Podman) -> None:
    root = podman.folder / "debian"
    environment = podman.environment
    THIS_MACHINE.run(
        [
            "debootstrap",
            "--variant=minbase",
            "--include=python3,python3-venv,ca-certificates",
            "bookworm",
            str(root),
        ],
        environment,
        timeout_s=BUILD_TIMEOUT_S,
    )
    # The official images are without these, too.
    exclude = [
        f"--exclude=./{path}"
        for path in (
            "usr/share/doc",
            "usr/share/man",
            "usr/share/locale",
            "var/cache/apt/*",
            "var/lib/apt/lists/*",
            "var/log/*",
        )
    ]
    archive = root.with_suffix(".tar")
    THIS_MACHINE.run(["tar", f"--directory={root}", *exclude, f"--file={archive}", "--create", "."])
    podman.run("import", str(archive), DEBIAN, timeout_s=BUILD_TIMEOUT_S)
    archive.unlink()
    shutil.rmtree(root)
