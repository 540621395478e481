#!/bin/sh
set -eu
: "${APP_MODE:?is required, such as production}"
echo "mode: $APP_MODE"
exec "$@"
