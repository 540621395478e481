#!/bin/sh
set -eu
count=$(psql "$DATABASE_URL" -c "SELECT count(*) FROM products;")
mkdir -p /www
echo "Welcome to our shop: $count products" >/www/index.html
echo "listening on port 8080"
exec httpd -f -p 8080 -h /www
