module go.opentelemetry.io/contrib/instrumentation/net/http/httptrace/otelhttptrace

go 1.26.0
