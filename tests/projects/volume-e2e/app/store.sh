#!/bin/sh
set -eu
dd if=/dev/zero of=/dev/null bs="${CACHE_MB}M" count=1 2>/dev/null
mkdir -p /www
echo "$TITLE" >/www/index.html
touch /tmp/ready
exec httpd -f -p 8080 -h /www
