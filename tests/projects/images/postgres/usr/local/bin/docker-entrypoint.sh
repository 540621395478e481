#!/bin/sh
# Creates the database in an empty data folder, as the entry point of the real image does.
set -e
if [ -n "$POSTGRES_PASSWORD_FILE" ]; then
    POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ -z "$POSTGRES_PASSWORD" ]; then
        cat >&2 <<'END'
Error: Database is uninitialized and superuser password is not specified.
       You must specify POSTGRES_PASSWORD to a non-empty value for the
       superuser. For example, "-e POSTGRES_PASSWORD=password" on "docker run".
END
        exit 1
    fi
    mkdir -p "$PGDATA/tables"
    user=${POSTGRES_USER:-postgres}
    echo "$user" >"$PGDATA/user"
    echo "$POSTGRES_PASSWORD" >"$PGDATA/password"
    echo "${POSTGRES_DB:-$user}" >"$PGDATA/database"
    for script in /docker-entrypoint-initdb.d/*.sql; do
        [ -e "$script" ] || continue
        echo "/usr/local/bin/docker-entrypoint.sh: running $script"
        if ! answer=$(sql "$(cat "$script")"); then
            echo "psql:$script:$answer" >&2
            exit 3
        fi
    done
    echo 16 >"$PGDATA/PG_VERSION"
    echo "PostgreSQL init process complete; ready for start up."
fi
exec "$@"
