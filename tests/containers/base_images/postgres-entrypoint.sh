#!/bin/sh
# Initialise the database at the first start, as the image of PostgreSQL does, and start the server.
# Started as root, it changes to the user postgres; started as that user, it needs no privilege.
set -eu
export PGDATA=/var/lib/postgresql/18/docker
mkdir -p /var/run/postgresql

if [ "$(id -u)" = 0 ]; then
    install --directory --owner=postgres --group=postgres --mode=700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    : "${POSTGRES_PASSWORD:?must be set}"
    mkdir -p -m 700 "$PGDATA"
    password=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" > "$password"
    initdb --username="$POSTGRES_USER" --pwfile="$password" --auth-host=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8
    rm "$password"
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    pg_ctl --wait --options="-c listen_addresses='' -k /var/run/postgresql" start
    createdb --host=/var/run/postgresql --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --wait --mode=fast stop
fi
exec "$@" -c "listen_addresses=*" -k /var/run/postgresql
