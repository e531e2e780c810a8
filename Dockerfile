# The Drover image: the static binaries, of which drover-agent is for the instances of
# fleets, the fleeting plugins of ours in the directory that fleet workers look in, the
# certificate authorities that programs on Linux trust, also plugins that are added, and
# nothing else. `make image` makes them first. USER and HOME are there because an image
# from scratch has no list of users to look them up in, and the embedded Temporal server
# does.
FROM scratch
COPY bin/drover bin/drover-agent bin/drover-shim /bin/
COPY bin/ca-certificates.crt /etc/ssl/certs/
COPY bin/fleeting-plugin-static bin/fleeting-plugin-docker bin/fleeting-plugin-process /usr/lib/drover/plugins/
ENV PATH=/bin USER=drover HOME=/
ENTRYPOINT ["/bin/drover"]
