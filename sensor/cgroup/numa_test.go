package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"reckon/sensor"
)

// TestNodes: memory by node in the forms of Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
func TestNodes(t *testing.T) {
	page := uint64(os.Getpagesize())
	for name, c := range map[string]struct {
		parse func([]byte, *sensor.Cgroup)
		text  string
		want  [3]uint64
		has   bool
	}{
		"version 2":         {parseNodes, "anon N0=100 N1=200\nfile N0=10 N1=0\nkernel_stack N0=5 N1=5\nshmem N0=1 N1=1\n", [3]uint64{110, 200}, true},
		"a gap":             {parseNodes, "anon N0=100 N2=200\nfile N0=10 N2=0\n", [3]uint64{110, 0, 200}, true},
		"without files":     {parseNodes, "anon N0=100 N1=200\n", [3]uint64{100, 200}, false},
		"no nodes":          {parseNodes, "anon\nfile\n", [3]uint64{}, false},
		"too many":          {parseNodes, "anon N16=100\nfile N0=10\n", [3]uint64{10}, false},
		"version 1":         {parseLegacyNodes, "total=1 N0=1 N1=0\nhierarchical_total=5 N0=2 N1=3\nhierarchical_file=1 N0=1 N1=0\n", [3]uint64{2 * page, 3 * page}, true},
		"version 1 before":  {parseLegacyNodes, "total=1 N0=1 N1=0\n", [3]uint64{}, false},
		"version 1, a word": {parseLegacyNodes, "hierarchical_total=5 N0=x\n", [3]uint64{}, false},
	} {
		var got sensor.Cgroup
		c.parse([]byte(c.text), &got)
		if got.NodeBytes == nil {
			got.NodeBytes = new([sensor.MaxNodes]uint64)
		}
		if [3]uint64(got.NodeBytes[:3]) != c.want || (got.Have == sensor.CgroupNodes) != c.has {
			t.Errorf("%s: %v, %v; want %v, %v", name, got.NodeBytes, got.Have, c.want, c.has)
		}
	}
}

// TestNodesOfMachines: memory by node is read now and then, kept in between, and not read where there is one node.
func TestNodesOfMachines(t *testing.T) {
	for online, has := range map[string]bool{"0-1": true, "0": false, "": false, "0-16": false} {
		_, root := machine(t, "slurm-v2.txtar")
		if online != "" {
			write(t, filepath.Join(root, "sys/devices/system/node/online"), online+"\n")
		}
		const group = "/user.slice/user-20821.slice"
		file := filepath.Join(root, "sys/fs/cgroup", group, "memory.numa_stat")
		write(t, file, "anon N0=1 N1=2\nfile N0=3 N1=4\n")
		h := open(t, reader(t, root), sensor.CgroupPath{Path: group})
		var c sensor.Cgroup
		if err := h.Read(&c); err != nil {
			t.Fatal(err)
		}
		if got := c.Have&sensor.CgroupNodes != 0; got != has || has && [2]uint64(c.NodeBytes[:2]) != [2]uint64{4, 6} {
			t.Errorf("nodes %q: %v %v", online, got, c.NodeBytes)
		}
		if !has {
			continue
		}
		write(t, file, "anon N0=9 N1=2\nfile N0=3 N1=4\n")
		for i := 1; i <= rareInterval; i++ {
			var c sensor.Cgroup
			if err := h.Read(&c); err != nil {
				t.Fatal(err)
			}
			if fresh := i == rareInterval; (c.NodeBytes[0] == 12) != fresh || !fresh && c.NodeBytes[0] != 4 || c.Have&sensor.CgroupNodes == 0 {
				t.Errorf("reading %d: %v", i, c.NodeBytes)
			}
		}
	}
}

func FuzzNodes(f *testing.F) {
	f.Add([]byte("anon N0=100 N1=200\nfile N0=10 N1=0\n"))
	f.Add([]byte("hierarchical_total=5 N0=2 N1=3\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		var c sensor.Cgroup
		parseNodes(text, &c)
		parseLegacyNodes(text, &c)
	})
}
