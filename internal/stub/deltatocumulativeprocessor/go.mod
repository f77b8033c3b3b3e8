module github.com/open-telemetry/opentelemetry-collector-contrib/processor/deltatocumulativeprocessor

go 1.26.0

require go.opentelemetry.io/collector/processor v1.66.0
