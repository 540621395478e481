#!/bin/sh
# Passes the request on, as `proxy_pass` does.
if page=$(wget -q -O - "$UPSTREAM/" 2>/dev/null); then
    printf 'Content-Type: text/html\r\n\r\n%s\n' "$page"
else
    printf 'Status: 502 Bad Gateway\r\n\r\n'
fi
