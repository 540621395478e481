#!/bin/sh
set -eu
mkdir -p "$2"
echo "$1" >"$2/version"
cp src/page.html "$2/index.html"
