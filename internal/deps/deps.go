//go:build deps

// Package deps keeps modules in go.mod until the packages that use them land.
package deps

import (
	_ "github.com/NVIDIA/go-nvml/pkg/nvml"
	_ "github.com/charmbracelet/bubbletea"
	_ "github.com/charmbracelet/lipgloss"
	_ "github.com/charmbracelet/lipgloss/table"
	_ "github.com/cilium/ebpf/link"
	_ "github.com/cilium/ebpf/ringbuf"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/jedib0t/go-pretty/v6/table"
	_ "github.com/klauspost/compress/s2"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/parquet-go/parquet-go"
	_ "github.com/prometheus/exporter-toolkit/web"
	_ "github.com/prometheus/procfs/blockdevice"
	_ "github.com/prometheus/prometheus/notifier"
	_ "github.com/prometheus/prometheus/promql"
	_ "github.com/prometheus/prometheus/rules"
	_ "github.com/prometheus/prometheus/scrape"
	_ "github.com/prometheus/prometheus/storage/remote"
	_ "github.com/prometheus/prometheus/tsdb"
	_ "github.com/prometheus/prometheus/web/api/v1"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/perf/benchfmt"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/mat"
	_ "gonum.org/v1/gonum/optimize"
	_ "gonum.org/v1/gonum/stat"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)
