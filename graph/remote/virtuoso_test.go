package remote_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/graph"
	"reckon/graph/graphtest"
	"reckon/graph/remote"
	"reckon/store/storetest"
)

// TestVirtuoso runs the suite on an OpenLink Virtuoso of its own (Debian's virtuoso-opensource-7-bin), which writes
// with the rights of its user SPARQL, and sends a query to its SPARQL endpoint. It skips where virtuoso-t and isql-vt
// are not installed.
func TestVirtuoso(t *testing.T) {
	address := startVirtuoso(t)
	s := open(t, remote.Options{Store: address + "/sparql-graph-crud", Query: address + "/sparql"})
	graphtest.Store(t, s)
	p := graph.Put{Quads: []graph.Quad{{S: graph.Node("urn:a"), P: graph.Node("urn:p"), O: graph.InLanguage("hé", "fr")}}, IfVersion: graph.AnyVersion}
	if _, _, err := s.Put(t.Context(), "urn:asked", p); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Forward(w, httptest.NewRequest(http.MethodGet, "/sparql?format=text%2Fcsv&query="+url.QueryEscape("SELECT ?o { GRAPH <urn:asked> { ?s <urn:p> ?o } }"), nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "hé") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// startVirtuoso returns the address of a server that runs until the test ends.
func startVirtuoso(t *testing.T) string {
	t.Helper()
	program, err1 := exec.LookPath("virtuoso-t")
	client, err2 := exec.LookPath("isql-vt")
	if err1 != nil || err2 != nil {
		t.Skip("virtuoso-t and isql-vt are not installed")
	}
	dir, sql, web := t.TempDir(), storetest.FreeAddress(t), storetest.FreeAddress(t)
	file := filepath.Join(dir, "virtuoso.ini")
	config := fmt.Sprintf("[Database]\nDatabaseFile = %[1]s/v.db\nErrorLogFile = %[1]s/v.log\nLockFile = %[1]s/v.lck\nTransactionFile = %[1]s/v.trx\n[Parameters]\nServerPort = %[2]s\nNumberOfBuffers = 2000\nMaxDirtyBuffers = 1200\n[HTTPServer]\nServerPort = %[3]s\n", dir, sql, web)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server := exec.Command(program, "+foreground", "+configfile", file)
	server.Dir, server.Stdout, server.Stderr = dir, &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	deadline := time.After(time.Minute)
	for {
		out, err := exec.Command(client, sql, "dba", "dba", `exec=GRANT SPARQL_UPDATE TO "SPARQL"; DB.DBA.RDF_DEFAULT_USER_PERMS_SET ('nobody', 7);`).CombinedOutput()
		if err == nil && !bytes.Contains(out, []byte("Error")) {
			return "http://" + web
		}
		select {
		case <-deadline:
			t.Fatalf("Virtuoso does not answer: %v %s %s", err, out, log.String())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
