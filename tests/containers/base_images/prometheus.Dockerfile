# Stand-in for prom/prometheus: Debian's Prometheus 2.42.
FROM localhost/debian:bookworm
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus \
    && rm -rf /var/lib/apt/lists/* /var/lib/prometheus/*
USER prometheus
EXPOSE 9090
ENTRYPOINT ["prometheus", "--storage.tsdb.path=/tmp/prometheus"]
