#!/bin/sh
# Creates the Temporal server's two databases, or brings their schema up to date. Run as often as
# you like: what is there already is left as it is.
set -eu

SCHEMA_DIR=${SCHEMA_DIR:-/etc/temporal/schema/postgresql/v12}

sql() {
  temporal-sql-tool --plugin postgres12 \
    --endpoint "$POSTGRES_SEEDS" --port "$DB_PORT" \
    --user "$POSTGRES_USER" --password "$POSTGRES_PWD" "$@"
}

for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%%:*}
  schema=${pair##*:}
  sql --database "$database" create-database
  sql --database "$database" setup-schema --version 0.0
  sql --database "$database" update-schema --schema-dir "$SCHEMA_DIR/$schema/versioned"
done
