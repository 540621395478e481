#!/bin/sh
# Writes the program and its page.
set -eu
mkdir -p "$1/www" /root/.cache
date >>/root/.cache/builds
cp page.html "$1/www/index.html"
printf '#!/bin/sh\nexec httpd -f -p 18410 -h /app/www\n' >"$1/server"
chmod 755 "$1/server"
