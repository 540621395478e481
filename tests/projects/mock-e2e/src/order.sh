#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
wget -q -O - "$PAYMENTS_URL/charges/$QUERY_STRING" 2>&1
