#!/bin/sh
set -eu
for file in /migrations/*.sql; do
    echo "applying $file"
    psql "$DATABASE_URL" -f "$file"
done
