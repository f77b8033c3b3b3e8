//go:build e2e_k8s

package k8s

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// podGroups watches the control groups of the pods of a node of this kernel. The group of a pod outlives the groups of its containers and
// counts what they used, so that it still has the CPU time of a container when the container and its own group are gone.
type podGroups struct {
	root string // folder of the pods' groups, of version 1 or 2
	mu   sync.Mutex
	seen map[string]*podGroup // by UID
}

// podGroup is the reading of a pod, CPU seconds.
type podGroup struct {
	total    float64
	children map[string]float64 // by id of the container
	alone    float64            // total, when one container was left of several
	rest     string             // id of that container
}

// watchPods reads the control groups of a node until the end of the test.
func (b *bed) watchPods(t *testing.T) *podGroups {
	pid, err := os.ReadFile(filepath.Join(b.state, b.node, "init.pid"))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("/proc", strings.TrimSpace(string(pid)), "root/sys/fs/cgroup")
	w := &podGroups{seen: map[string]*podGroup{}, root: filepath.Join(root, "cpuacct/kubepods")}
	if _, err := os.Stat(w.root); err != nil {
		w.root = filepath.Join(root, "kubepods")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	t.Cleanup(tick.Stop)
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
				w.read()
			}
		}
	}()
	return w
}

func (w *podGroups) read() {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirs, _ := filepath.Glob(filepath.Join(w.root, "*/pod*"))
	more, _ := filepath.Glob(filepath.Join(w.root, "pod*"))
	for _, dir := range append(dirs, more...) {
		uid := strings.TrimPrefix(filepath.Base(dir), "pod")
		g := w.seen[uid]
		if g == nil {
			g = &podGroup{children: map[string]float64{}}
			w.seen[uid] = g
		}
		g.read(dir)
	}
}

func (g *podGroup) read(dir string) {
	left := map[string]float64{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if v, ok := groupSeconds(filepath.Join(dir, e.Name())); ok && e.IsDir() {
			left[e.Name()] = v
		}
	}
	total, ok := groupSeconds(dir) // after its children, which it includes
	if !ok {
		return
	}
	g.total = total
	maps.Copy(g.children, left)
	if len(left) == 1 && len(g.children) > 1 && g.rest == "" {
		for id := range left {
			g.rest, g.alone = id, total
		}
	}
}

// groupSeconds is the CPU time of a control group.
func groupSeconds(dir string) (float64, bool) {
	if raw, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage")); err == nil {
		v, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
		return v / 1e9, err == nil
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, false
	}
	return usageSeconds(string(raw))
}

// usageSeconds reads cpu.stat of version 2.
func usageSeconds(stat string) (float64, bool) {
	text, ok := strings.CutPrefix(stat, "usage_usec ")
	text, _, _ = strings.Cut(text, "\n")
	v, err := strconv.ParseFloat(text, 64)
	return v / 1e6, ok && err == nil
}

// container is the use of the one container of a pod until its end, beside the sandbox; false if its end was not seen.
func (w *podGroups) container(uid string) (float64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.seen[uid]
	if g == nil || g.rest == "" {
		return 0, false
	}
	return g.alone - g.children[g.rest], true
}

// total is the use of a pod until now, with its sandbox.
func (w *podGroups) total(uid string) float64 {
	w.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.seen[uid]; g != nil {
		return g.total
	}
	return 0
}
