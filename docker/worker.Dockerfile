# The image of a worker, with TensorFlow. EXTRA: worker-cpu, or worker-gpu (includes CUDA).
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
# The program that writes the list of the image's libraries has its own environment.
COPY requirements/install.sh requirements/uv.lock requirements/sbom.lock requirements/
RUN python -m venv /opt/sbom \
    && sh requirements/install.sh /opt/sbom requirements/sbom.lock --require-hashes --only-binary :all:
ARG EXTRA=worker-cpu
RUN python -m venv /opt/ampcore
ENV PATH=/opt/ampcore/bin:$PATH
# Libraries change rarely and have their own layer. Wheels only: nothing is compiled.
COPY requirements/${EXTRA}.lock requirements/
RUN sh requirements/install.sh /opt/ampcore requirements/${EXTRA}.lock --require-hashes --only-binary :all:
COPY pyproject.toml README.md LICENSE ./
COPY ampspec ampspec
COPY ampdata ampdata
COPY ampcore ampcore
COPY infra infra
COPY store store
COPY server server
COPY worker worker
COPY ampclient ampclient
COPY migrations migrations
RUN pip install --no-deps --no-build-isolation .
COPY docker/slim.py docker/
# Not in /src, where the packages' sources would be imported.
WORKDIR /opt
RUN python /src/docker/slim.py /opt/ampcore \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible \
        --output-file /opt/ampcore/sbom.cdx.json /opt/ampcore/bin/python

FROM python:3.11.14-slim-bookworm
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ampcore worker" \
    org.opencontainers.image.description="Trains jobs of ampcore with TensorFlow" \
    org.opencontainers.image.version="0.6.0" \
    org.opencontainers.image.revision=$REVISION \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.base.name="docker.io/library/python:3.11.14-slim-bookworm" \
    org.cyclonedx.sbom="/opt/ampcore/sbom.cdx.json"
# The sandbox for code of users, where the container may make user namespaces.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap \
    && rm --recursive /var/lib/apt/lists/* /var/cache/apt/*
# A new named volume gets the owner of the folder that it is mounted on.
RUN groupadd --gid 10001 ampcore \
    && useradd --uid 10001 --gid ampcore --create-home ampcore \
    && install --directory --owner=ampcore --group=ampcore /data /data/datasets
COPY --from=build /opt/ampcore /opt/ampcore
ENV PATH=/opt/ampcore/bin:$PATH PYTHONUNBUFFERED=1 AMPCORE_DATA_DIR=/data
WORKDIR /home/ampcore
USER 10001:10001
CMD ["ampserver", "worker"]
