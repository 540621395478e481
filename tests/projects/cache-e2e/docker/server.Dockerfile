FROM alpine:3.20 AS dependencies
WORKDIR /src
COPY vendor.txt .
RUN --mount=type=cache,target=/var/cache/vendor cp vendor.txt /var/cache/vendor/ && sleep 1

FROM dependencies AS build
ARG VERSION
COPY src src
RUN sh src/build.sh "$VERSION" /out

FROM build AS test
RUN test -s /out/index.html

FROM alpine:3.20 AS runtime
COPY --from=build /out /www
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
