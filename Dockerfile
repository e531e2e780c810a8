# The Drover image: the two static binaries and nothing else. `make image`
# builds them first.
FROM scratch
COPY bin/drover bin/drover-shim /bin/
ENV PATH=/bin
ENTRYPOINT ["/bin/drover"]
