package storetest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"text/template"
)

// mimirConfig is a Mimir in one process, with all its state in a directory and its peers
// on the loopback. Of its limits those differ from the defaults that the suite reaches:
// samples that come late, and how far back it looks for them where they came to.
var mimirConfig = template.Must(template.New("").Parse(`target: all
multitenancy_enabled: true
usage_stats: {enabled: false}
activity_tracker: {filepath: ""}
server: {http_listen_address: 127.0.0.1, http_listen_port: {{.HTTP}}, grpc_listen_address: 127.0.0.1, grpc_listen_port: {{.GRPC}}, log_level: error}
memberlist: {bind_addr: [127.0.0.1], bind_port: {{.Gossip}}, advertise_addr: 127.0.0.1}
common: {storage: {backend: filesystem, filesystem: {dir: {{.Dir}}/common}}}
blocks_storage: {storage_prefix: blocks, tsdb: {dir: {{.Dir}}/tsdb}, bucket_store: {sync_dir: {{.Dir}}/sync}}
ruler_storage: {storage_prefix: ruler}
alertmanager_storage: {storage_prefix: alertmanager}
compactor: {data_dir: {{.Dir}}/compactor, sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
distributor: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
ingester: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}, replication_factor: 1, final_sleep: 0s, min_ready_duration: 0s}}
store_gateway: {sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}, replication_factor: 1}}
frontend: {address: 127.0.0.1}
ruler: {rule_path: {{.Dir}}/rules, ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
alertmanager: {data_dir: {{.Dir}}/alerts, sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
limits: {out_of_order_time_window: 1d, query_ingesters_within: 0s, native_histograms_ingestion_enabled: true}
`))

// MimirArgs start a Mimir. It keeps tenants apart by X-Scope-OrgID and lets nobody in without.
func MimirArgs(tb testing.TB) func(addr, dir string) []string {
	return func(addr, dir string) []string {
		port := func(addr string) string {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				tb.Fatal(err)
			}
			return port
		}
		var text bytes.Buffer
		err := mimirConfig.Execute(&text, map[string]string{"HTTP": port(addr), "GRPC": port(FreeAddress(tb)), "Gossip": port(FreeAddress(tb)), "Dir": dir})
		if err != nil {
			tb.Fatal(err)
		}
		file := filepath.Join(dir, "mimir.yaml")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			tb.Fatal(err)
		}
		return []string{"-config.file=" + file}
	}
}

// Mimir starts one and returns its address.
func Mimir(tb testing.TB) string { return Peer(tb, "mimir", "/ready", MimirArgs(tb)) }
