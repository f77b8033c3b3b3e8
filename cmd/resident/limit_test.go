package resident

import (
	"os"
	"path/filepath"
	"testing"

	"reckon/internal/cgpath"
)

func TestGroupLimit(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"v2/memory.max":                                   "max\n",
		"v2/system.slice/memory.max":                      "2147483648\n",
		"v2/system.slice/reckon.service/memory.max":       "3221225472\n",
		"v2/free/memory.max":                              "max\n",
		"v1/memory.limit_in_bytes":                        "9223372036854771712\n",
		"v1/docker/c1/memory.limit_in_bytes":              "1073741824\n",
		"cpu/docker/c1/memory.limit_in_bytes":             "5\n",
		"container/memory.limit_in_bytes":                 "536870912\n",
		"v2/system.slice/reckon.service/unread/unrelated": "1\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v2 := cgpath.Mount{V2: true, Root: "/", Point: filepath.Join(dir, "v2")}
	v1 := cgpath.Mount{Controllers: []string{"memory"}, Root: "/", Point: filepath.Join(dir, "v1")}
	cpu := cgpath.Mount{Controllers: []string{"cpu"}, Root: "/", Point: filepath.Join(dir, "cpu")}
	inside := cgpath.Mount{Controllers: []string{"memory"}, Root: "/docker/c2", Point: filepath.Join(dir, "container")}
	for _, c := range []struct {
		name   string
		mounts []cgpath.Mount
		own    string
		want   int64
	}{
		{"the group above has less", []cgpath.Mount{v2}, "0::/system.slice/reckon.service\n", 2 << 30},
		{"no limit", []cgpath.Mount{v2}, "0::/free\n", 0},
		{"a group without the file", []cgpath.Mount{v2}, "0::/system.slice/reckon.service/unread\n", 2 << 30},
		{"version 1", []cgpath.Mount{v2, cpu, v1}, "9:cpu:/docker/c1\n5:memory:/docker/c1\n0::/free\n", 1 << 30},
		{"version 1 without a limit", []cgpath.Mount{v1}, "5:memory:/\n", 0},
		{"the mount of a container", []cgpath.Mount{inside}, "5:memory:/docker/c2\n", 512 << 20},
		{"a path of another namespace", []cgpath.Mount{inside}, "5:memory:/elsewhere\n", 512 << 20},
		{"nothing mounted", nil, "0::/\n", 0},
	} {
		if got := groupLimit(c.mounts, []byte(c.own)); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
