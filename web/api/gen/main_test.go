package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGenerated fails if a comment of package client or figure/wire changed and go generate ./web/api was not run.
func TestGenerated(t *testing.T) {
	want, err := descriptionFile("../../client", "../../../figure/wire")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../described.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("web/api/described.go is stale: run go generate ./web/api (%v)", err)
	}
	if want, err = aliasFile("../../../figure/wire"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../client/wire.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("web/client/wire.go is stale: run go generate ./web/api (%v)", err)
	}
}
