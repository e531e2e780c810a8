# The Drover image: the two static binaries and nothing else. `make image`
# builds them first. USER and HOME are there because an image FROM scratch has
# no list of users to look them up in, and the embedded Temporal server does.
FROM scratch
COPY bin/drover bin/drover-shim /bin/
ENV PATH=/bin USER=drover HOME=/
ENTRYPOINT ["/bin/drover"]
