package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestHints: a hint reaches the server that printed it, also beside a server that has the machine's socket.
func TestHints(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "reckon", "api.sock")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const here, elsewhere = "http://127.0.0.1:9870", "http://127.0.0.1:9999"
	for _, c := range []struct{ program, url, socket, server, want string }{
		{"/opt/reckon", here, path, "", "/opt/reckon"},
		{"reckon", elsewhere, path, "", "reckon"},
		{"./bin/reckon", here, "", "", "./bin/reckon --server " + here},
		{"reckon", elsewhere, "", elsewhere, "reckon"},
		{"reckon", here, path, elsewhere, "reckon --server " + here},
	} {
		g := &globals{deps: deps{getenv: func(name string) string {
			return map[string]string{"RECKON_SERVER": c.server, "XDG_RUNTIME_DIR": dir}[name]
		}}}
		if got := g.commandLine(c.program, c.url, c.socket); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
