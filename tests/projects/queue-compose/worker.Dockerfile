FROM alpine:3.20
COPY worker/worker.sh /usr/local/bin/worker
CMD ["worker"]
