#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
psql "$DATABASE_URL" -c "SELECT * FROM accounts;"
