package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func archive(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"catalogue.db": "rows", "series/01/index": strings.Repeat("x", 100_000), "series/01/chunks/000001": "y", "empty": ""} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var b bytes.Buffer
	must(t, Write(t.Context(), &b, dir, Manifest{Version: "1.2", Time: time.Unix(1e9, 0).UTC(), LeftOut: []string{"series elsewhere"}}))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	raw := archive(t)
	m, err := Check(bytes.NewReader(raw))
	if err != nil || m.Version != "1.2" || m.Files != 4 || m.Bytes != 100_005 || len(m.LeftOut) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	data := filepath.Join(t.TempDir(), "deep", "data")
	if _, aside, err := Restore(bytes.NewReader(raw), data, false, time.Unix(0, 0)); err != nil || aside != "" {
		t.Fatal(err, aside)
	}
	if got, err := os.ReadFile(filepath.Join(data, "series/01/index")); err != nil || len(got) != 100_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, _, err := Restore(bytes.NewReader(raw), data, false, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("over a directory that is in use: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(data, "mine"), []byte("z"), 0o600))
	_, aside, err := Restore(bytes.NewReader(raw), data, true, time.Unix(0, 0))
	must(t, err)
	if _, err := os.Stat(filepath.Join(aside, "mine")); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, "mine")); err == nil {
		t.Error("what was there is mixed with what was restored")
	}
}

// TestDamage changes and cuts archives everywhere: it is always noticed, and the directory
// stays as it was.
func TestDamage(t *testing.T) {
	raw := archive(t)
	parent := t.TempDir()
	data := filepath.Join(parent, "data")
	must(t, os.Mkdir(data, 0o750))
	must(t, os.WriteFile(filepath.Join(data, "mine"), []byte("z"), 0o600))
	try := func(what string, bad []byte) {
		t.Helper()
		if _, _, err := Restore(bytes.NewReader(bad), data, true, time.Now()); err == nil {
			t.Fatalf("%s: it was restored", what)
		}
		list, err := os.ReadDir(parent)
		must(t, err)
		if got, err := os.ReadFile(filepath.Join(data, "mine")); err != nil || string(got) != "z" || len(list) != 1 {
			t.Fatalf("%s: the directory was touched: %v, %v", what, err, list)
		}
	}
	for n := 0; n < len(raw); n += 7 {
		try("cut", raw[:n])
	}
	plain := unpack(t, raw)
	for n := 0; n < len(plain); n += 1009 {
		bad := bytes.Clone(plain)
		bad[n] ^= 0x55
		if _, err := Check(bytes.NewReader(pack(t, bad))); err == nil && !padding(plain, n) {
			t.Fatalf("byte %d of %d was changed, and nobody noticed", n, len(plain))
		}
	}
}

// padding reports whether byte n of a tar archive is one that shows nothing: between files,
// or behind the last.
func padding(plain []byte, n int) bool {
	r := bytes.NewReader(plain)
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err != nil {
			return true
		}
		at := len(plain) - r.Len()
		if n < at {
			return false
		}
		if n < at+int(h.Size) {
			return false
		}
		if end := (at + int(h.Size) + 511) / 512 * 512; n < end {
			return true
		}
	}
}

func unpack(t testing.TB, raw []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil)
	must(t, err)
	defer d.Close()
	plain, err := d.DecodeAll(raw, nil)
	must(t, err)
	return plain
}

func pack(t testing.TB, plain []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	must(t, err)
	defer e.Close()
	return e.EncodeAll(plain, nil)
}

// TestHostile: an archive cannot write outside of its directory.
func TestHostile(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../evil", Typeflag: tar.TypeReg}, {Name: "/etc/evil", Typeflag: tar.TypeReg}, {Name: "a/../../evil", Typeflag: tar.TypeReg},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "dev", Typeflag: tar.TypeChar},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		text := `{"format":1}`
		must(t, w.WriteHeader(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o600}))
		_, err := w.Write([]byte(text))
		must(t, err)
		must(t, w.WriteHeader(&h))
		must(t, w.Close())
		if _, err := Extract(bytes.NewReader(pack(t, b.Bytes())), t.TempDir()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", h.Name, err)
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	text := `{"format":9,"version":"7"}`
	must(t, w.WriteHeader(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o600}))
	_, err := w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	if _, err := Check(bytes.NewReader(pack(t, b.Bytes()))); err == nil || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("an archive of the future: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(unpack(f, archive(f)))
	f.Fuzz(func(t *testing.T, plain []byte) { _, _ = Check(bytes.NewReader(pack(t, plain))) })
}
