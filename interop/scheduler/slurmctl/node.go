package slurmctl

import (
	"encoding/json"
	"io"
	"strings"

	"reckon/internal/hostlist"
	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
)

type nodeRecord struct {
	Name            text
	State           stringList
	Flags           stringList `json:"state_flags"`
	Features        stringList // a list in 23.02
	Active          stringList `json:"active_features"`
	Gres            text
	GresUsed        text `json:"gres_used"`
	CPUs            number
	Held            number `json:"alloc_cpus"`
	Memory          number `json:"real_memory"` // MiB
	AllocatedMemory number `json:"alloc_memory"`
	Partitions      stringList
	Reason          text
}

// readNodes parses nodes as in sinfo --json (up to 23.02), scontrol show nodes --json and GET /slurm/*/nodes.
func readNodes(r io.Reader) (nodes []scheduler.Node, got scheduler.Read, err error) {
	err = eachElement(r, "nodes", func(raw json.RawMessage) {
		got.Records++
		var n nodeRecord
		if _, ok := decodeRecord(raw, &n); !ok || n.Name == "" || len(n.State) == 0 {
			got.Reject("a node without name or state: %.80s", raw)
			return
		}
		out := scheduler.Node{
			Name: string(n.Name), Reason: string(n.Reason), Partitions: n.Partitions,
			Cores: n.CPUs.valueOr(0), AllocatedCores: n.Held.valueOr(0),
			MemoryBytes: n.Memory.valueOr(0) * (1 << 20), AllocatedMemory: n.AllocatedMemory.valueOr(0) * (1 << 20),
			GPUs: slurmtext.GPUs(string(n.Gres)),
		}
		if n.GresUsed != "" || n.Gres == "" {
			gpus := slurmtext.GPUs(string(n.GresUsed))
			out.AllocatedGPUs = &gpus
		}
		if out.Features = strings.Join(n.Active, ","); out.Features == "" {
			out.Features = strings.Join(n.Features, ",")
		}
		out.State, out.Flags = slurmtext.NodeState(append(append(stringList{}, n.State...), n.Flags...))
		nodes = append(nodes, out)
	})
	return nodes, got, err
}

type partitionRecord struct {
	Name      text
	Maximums  struct{ Time number } // minutes
	Partition struct{ State stringList }
	Default   stringList `json:"flags"`
	OldState  stringList `json:"state"`
	OldLimit  number     `json:"max_time_limit"`
}

// readPartitions parses partitions as in scontrol show partitions --json and GET /slurm/*/partitions.
func readPartitions(r io.Reader) (parts []scheduler.Partition, got scheduler.Read, err error) {
	err = eachElement(r, "partitions", func(raw json.RawMessage) {
		got.Records++
		var p partitionRecord
		if _, ok := decodeRecord(raw, &p); !ok || p.Name == "" {
			got.Reject("a partition without a name: %.80s", raw)
			return
		}
		out := scheduler.Partition{Name: string(p.Name), State: parseState(append(p.Partition.State, p.OldState...))}
		if t := p.Maximums.Time; t.ok && t.v < 4294967294 {
			out.Seconds = 60 * t.v
		} else if t := p.OldLimit; t.ok && t.v < 4294967294 {
			out.Seconds = 60 * t.v
		}
		for _, f := range p.Default {
			out.Default = out.Default || strings.EqualFold(f, "default")
		}
		parts = append(parts, out)
	})
	return parts, got, err
}

// nodeFields are the fields of sinfo -N -o: one line per node and partition.
var nodeFields = []string{"%N", "%P", "%T", "%C", "%m", "%f", "%G", "%l", "%a", "%E"}

// readNodesText parses the output of sinfo with nodeFields.
func readNodesText(r io.Reader, m mark) (nodes []scheduler.Node, parts []scheduler.Partition, got scheduler.Read, err error) {
	at, known := map[string]int{}, map[string]bool{}
	err = m.splitRecords(r, len(nodeFields), func(f []string) {
		got.Records++
		if len(f) != len(nodeFields) || f[0] == "" || f[2] == "" {
			got.Reject("a line of sinfo with %d of %d fields", len(f), len(nodeFields))
			return
		}
		names, err := hostlist.Expand(f[0])
		if err != nil {
			got.Reject("%v", err)
			return
		}
		partition := scheduler.Partition{Name: strings.TrimSuffix(f[1], "*"), Default: strings.HasSuffix(f[1], "*"),
			State: strings.ToLower(f[8])}
		partition.Seconds = parseSpan(f[7])
		if partition.Name != "" && !known[partition.Name] {
			known[partition.Name] = true
			parts = append(parts, partition)
		}
		for _, name := range names {
			i, ok := at[name]
			if !ok {
				i, at[name] = len(nodes), len(nodes)
				nodes = append(nodes, toNode(name, f))
			}
			nodes[i].Partitions = append(nodes[i].Partitions, partition.Name)
		}
	})
	return nodes, parts, got, err
}

func toNode(name string, f []string) scheduler.Node {
	n := scheduler.Node{Name: name, Features: slurmtext.Word(f[5]), Reason: slurmtext.Word(f[9]), GPUs: slurmtext.GPUs(f[6]),
		MemoryBytes: parseAmount(strings.TrimSuffix(f[4], "+"), 1<<20)}
	if p := strings.Split(f[3], "/"); len(p) == 4 { // allocated/idle/other/total
		n.AllocatedCores, n.Cores = amountOrZero(p[0]), amountOrZero(p[3])
	}
	n.State, n.Flags = slurmtext.NodeState(stringList{f[2]})
	return n
}
