# The image of a worker, with TensorFlow. EXTRA: worker-cpu, or worker-gpu (includes CUDA).
FROM python:3.11.14-slim-bookworm AS build
ARG EXTRA=worker-cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/ampcore
ENV PATH=/opt/ampcore/bin:$PATH
WORKDIR /src
# Libraries change rarely and have their own layer. Wheels only: nothing is compiled.
COPY requirements/${EXTRA}.lock requirements/
RUN pip install --require-hashes --only-binary :all: -r requirements/${EXTRA}.lock
COPY pyproject.toml README.md LICENSE ./
COPY ampcore ampcore
COPY service service
COPY store store
COPY server server
COPY worker worker
COPY ampclient ampclient
COPY migrations migrations
RUN pip install --no-deps --no-build-isolation .

FROM python:3.11.14-slim-bookworm
# A new named volume gets the owner of the folder that it is mounted on.
RUN groupadd --gid 10001 ampcore \
    && useradd --uid 10001 --gid ampcore --create-home ampcore \
    && install --directory --owner=ampcore --group=ampcore /data /data/datasets
COPY --from=build /opt/ampcore /opt/ampcore
ENV PATH=/opt/ampcore/bin:$PATH PYTHONUNBUFFERED=1 AMPCORE_DATA_DIR=/data
WORKDIR /home/ampcore
USER 10001:10001
CMD ["ampserver", "worker"]
