package storetest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"text/template"
)

// mimirConfig configures a Mimir in a single process, with its state in one directory and its peers on the loopback
// interface. It changes only defaults that the tests would exceed: the out-of-order window, and the time for which
// ingesters are queried.
var mimirConfig = template.Must(template.New("").Parse(`target: all
multitenancy_enabled: true
usage_stats: {enabled: false}
activity_tracker: {filepath: ""}
server: {http_listen_address: 127.0.0.1, http_listen_port: {{.HTTP}}, grpc_listen_address: 127.0.0.1, grpc_listen_port: {{.GRPC}}, log_level: error}
memberlist: {bind_addr: [127.0.0.1], bind_port: {{.Gossip}}, advertise_addr: 127.0.0.1, advertise_port: {{.Gossip}}, node_name: {{.Name}}, join_members: [{{.Join}}]}
common: {storage: {backend: filesystem, filesystem: {dir: {{.Shared}}/common}}}
blocks_storage: {storage_prefix: blocks, tsdb: {dir: {{.Dir}}/tsdb}, bucket_store: {sync_dir: {{.Dir}}/sync}}
ruler_storage: {storage_prefix: ruler}
alertmanager_storage: {storage_prefix: alertmanager}
compactor: {data_dir: {{.Dir}}/compactor, sharding_ring: {instance_id: {{.Name}}, instance_addr: 127.0.0.1, kvstore: {store: {{.Ring}}}}}
distributor: {ring: {instance_id: {{.Name}}, instance_addr: 127.0.0.1, kvstore: {store: {{.Ring}}}}}
ingester: {ring: {instance_id: {{.Name}}, instance_addr: 127.0.0.1, kvstore: {store: {{.Ring}}}, replication_factor: {{.Copies}}, final_sleep: 0s, min_ready_duration: 0s}}
store_gateway: {sharding_ring: {instance_id: {{.Name}}, instance_addr: 127.0.0.1, kvstore: {store: {{.Ring}}}, replication_factor: 1}}
frontend: {address: 127.0.0.1}
ruler: {rule_path: {{.Dir}}/rules, ring: {instance_id: {{.Name}}, instance_addr: 127.0.0.1, kvstore: {store: {{.Ring}}}}}
alertmanager: {data_dir: {{.Dir}}/alerts, sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
limits: {out_of_order_time_window: 1d, query_ingesters_within: 0s, native_histograms_ingestion_enabled: true}
`))

// mimirSettings fill mimirConfig.
type mimirSettings struct {
	HTTP, GRPC, Gossip string // ports
	Name, Join         string // of the members of a ring, separated by commas
	Dir, Shared        string // Shared is the folder of all members
	Ring               string // location of the ring
	Copies             int    // replicas of each series
}

// MimirArgs returns the arguments for a Mimir that separates tenants by X-Scope-OrgID and rejects requests without it.
func MimirArgs(tb testing.TB) func(addr, dir string) []string {
	return mimirArgsWith(tb, mimirSettings{Name: "alone", Gossip: portOf(tb, FreeAddress(tb)), Ring: "inmemory", Copies: 1})
}

func mimirArgsWith(tb testing.TB, s mimirSettings) func(addr, dir string) []string {
	return func(addr, dir string) []string {
		s.HTTP, s.GRPC, s.Dir = portOf(tb, addr), portOf(tb, FreeAddress(tb)), dir
		if s.Shared == "" {
			s.Shared = dir
		}
		var text bytes.Buffer
		if err := mimirConfig.Execute(&text, s); err != nil {
			tb.Fatal(err)
		}
		file := filepath.Join(dir, "mimir.yaml")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			tb.Fatal(err)
		}
		return []string{"-config.file=" + file}
	}
}

func portOf(tb testing.TB, addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Mimir starts a server and returns its address.
func Mimir(tb testing.TB) string { return Peer(tb, "mimir", "/ready", MimirArgs(tb)) }

// MimirMember is one of several Mimir servers that share a ring.
type MimirMember struct {
	Address string
	Process *os.Process
}

// MimirRing starts three Mimirs that form a ring by gossip. All three have each series, and two of them suffice to read
// and write.
func MimirRing(tb testing.TB) (out []MimirMember) {
	tb.Helper()
	shared, join := tb.TempDir(), ""
	var gossip []string
	for i := range 3 {
		addr := FreeAddress(tb)
		gossip = append(gossip, portOf(tb, addr))
		if i > 0 {
			join += ", "
		}
		join += addr
	}
	for i := range 3 {
		addr := FreeAddress(tb)
		p, _ := PeerProcess(tb, addr, tb.TempDir(), "mimir", "/ready",
			mimirArgsWith(tb, mimirSettings{Name: fmt.Sprintf("m%d", i), Gossip: gossip[i], Join: join, Shared: shared, Ring: "memberlist",
				Copies: 3}))
		out = append(out, MimirMember{addr, p})
	}
	return out
}
