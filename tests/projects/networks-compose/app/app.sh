#!/bin/sh
set -eu
url=postgres://postgres:$(cat "$DB_PASSWORD_FILE")@$DB_HOST:5432/postgres
psql "$url" -c "CREATE TABLE IF NOT EXISTS visits (at text);"
mkdir -p /www
echo "Ticket desk" >/www/index.html
exec httpd -f -p 3000 -h /www
