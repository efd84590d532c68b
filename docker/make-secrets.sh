#!/bin/sh
# Writes the passwords that docker-compose.yml needs, each random and its own, into docker/secrets. Those that are there
# stay. ClickHouse writes the administrator's password into XML, so they are hexadecimal digits.
set -eu
umask 077
cd "$(dirname "$0")/secrets"
chmod 700 .
for name in clickhouse_admin clickhouse_writer clickhouse_rules clickhouse_reader grafana_admin collector_salt; do
    if [ ! -s "$name" ]; then
        od -An -N24 -tx1 /dev/urandom | tr -d ' \n' > "$name"
        echo "made docker/secrets/$name"
    fi
    # The containers' own users read them; the directory keeps everybody else out.
    chmod 444 "$name"
done
