# A static binary on an empty base: no shell, no package manager, not root.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build && mkdir -p /out && cp bin/llm_prober bin/probetool /out/

FROM gcr.io/distroless/static-debian13:nonroot
COPY --from=build /out/llm_prober /out/probetool /bin/
EXPOSE 9877
USER 65532:65532
ENTRYPOINT ["/bin/llm_prober"]
CMD ["--config.file=/etc/llm_prober/llm_prober.yml"]
