#!/bin/sh
set -eu
redis-cli -u "$QUEUE_URL" PING >/dev/null
echo "waiting for jobs"
while job=$(redis-cli -u "$QUEUE_URL" LPOP jobs); do
    if [ -n "$job" ]; then echo "$GREETING $job"; fi
    sleep 1
done
exit 1
