module go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp

go 1.26.0

require go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.46.0
