FROM alpine:3.20
COPY api /srv/cgi-bin
EXPOSE 8000
CMD ["httpd", "-f", "-p", "8000", "-h", "/srv"]
