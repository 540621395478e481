#!/bin/sh
set -eu
wget -q -O /dev/null "$PAYMENTS_URL/status"
echo "Checkout" >/srv/index.html
exec httpd -f -p 8080 -h /srv
