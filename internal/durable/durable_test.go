package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, text := range []string{"a long text", "short"} {
		if err := Replace(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left beside it: %v, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("rights %v, %v; want none for others", info.Mode(), err)
	}
}

// A failed write leaves the previous content.
func TestFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Replace(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".tmp", 0o750); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new"), 0o640); err == nil {
		t.Error("no error, though the file beside it cannot be written")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("%q, %v; want what was there", got, err)
	}
}

func TestSeal(t *testing.T) {
	body := []byte(`{"a":1}`)
	raw := Seal(body)
	for at := range raw {
		bad := bytes.Clone(raw)
		bad[at] ^= 4
		if _, err := Unseal(bad); !errors.Is(err, ErrSeal) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		if got, err := Body(bad); err == nil && json.Valid(got) {
			t.Errorf("byte %d changed: %q is a body", at, got)
		}
		if _, err := Unseal(raw[:at]); !errors.Is(err, ErrSeal) {
			t.Errorf("cut at %d: %v", at, err)
		}
		if got, err := Body(raw[:at]); err == nil && json.Valid(got) && !bytes.Equal(got, body) && !bytes.Equal(got, append(body, '\n')) {
			t.Errorf("cut at %d: %q is a body", at, got)
		}
	}
	if got, err := Unseal(raw); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Body(body); err != nil || !bytes.Equal(got, body) {
		t.Errorf("without a checksum: %q, %v", got, err)
	}
}
