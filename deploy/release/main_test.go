package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                "1.2.3",
		"v1.2.3-dirty":          "1.2.3+dirty",
		"v1.2.2-4-gabc1234":     "1.2.3+20260102.030405.gabc1234",
		"abc1234":               "1.2.3+20260102.030405.gabc1234",
		"abc1234-dirty":         "1.2.3+20260102.030405.gabc1234.dirty",
		"v1.2.3-4-gabc12-dirty": "1.2.3+20260102.030405.gabc12.dirty",
	} {
		if got, err := describeVersion("1.2.3", described, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); got != want || err != nil {
			t.Errorf("%s is %s, want %s (%v)", described, got, want, err)
		}
	}
	if v, err := describeVersion("1.2.3", "v1.2.4", time.Time{}); err == nil || !strings.Contains(err.Error(), "v1.2.4") {
		t.Errorf("a tag of another version: %s %v", v, err)
	}
}

// TestChart: the packed chart has the files that its links lead to, and names the images of the release.
func TestChart(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := release{root: root, out: t.TempDir(), time: time.Unix(1e9, 0), version: "0.1.0+20260102.030405.gabc"}
	if err := r.packChart(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(r.out, "reckon-*.tgz"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int64{}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			t.Errorf("%s is no plain file", h.Name)
		}
		have[h.Name] = h.Size
		if text, err := io.ReadAll(in); err != nil || h.Name == "reckon/Chart.yaml" &&
			!strings.Contains(string(text), "\nappVersion: \"0.1.0-20260102.030405.gabc\"\n") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	for _, name := range []string{"reckon/Chart.yaml", "reckon/values.yaml", "reckon/values.schema.json", "reckon/templates/server.yaml",
		"reckon/templates/tests/alerts.yaml", "reckon/files/dashboards/reckon-site.json"} {
		if have[name] < 100 {
			t.Errorf("%s has %d bytes", name, have[name])
		}
	}
}

// dist is a small release of a version, signed by key where there is one.
func dist(t *testing.T, version, key string) *release {
	t.Helper()
	r := &release{out: t.TempDir(), version: version, time: time.Unix(1e9, 0)}
	name := fmt.Sprintf("reckon-%s-linux-%s", version, runtime.GOARCH)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	out := tar.NewWriter(z)
	for _, program := range commands {
		text := "#!/bin/sh\necho 'reckon " + version + " (abc), go, linux'\n"
		if err := out.WriteHeader(&tar.Header{Name: name + "/" + program, Size: int64(len(text)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), z.Close(), os.WriteFile(filepath.Join(r.out, name+".tar.gz"), b.Bytes(), 0o644),
		r.writeChecksums(), r.signChecksums(t.Context(), key)); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestInstall installs from a web server: a right release is installed, and a changed byte, a missing line, another signature and an older
// version are refused with nothing changed.
func TestInstall(t *testing.T) {
	for _, program := range []string{"ssh-keygen", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	keys := map[string]string{}
	for _, name := range []string{"ours", "theirs"} {
		file := filepath.Join(dir, name)
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		public, err := os.ReadFile(file + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = strings.TrimSpace(string(public))
	}
	to := filepath.Join(dir, "bin")
	install := func(r *release, args ...string) (string, error) {
		server := httptest.NewServer(http.FileServer(http.Dir(r.out)))
		defer server.Close()
		out, err := exec.Command("./install.sh", append([]string{server.URL, "--to", to}, args...)...).CombinedOutput()
		return string(out), err
	}
	installed := func() string {
		out, err := exec.Command(filepath.Join(to, "reckon-agent"), "version").Output()
		if err != nil {
			return ""
		}
		return strings.Fields(string(out))[1]
	}
	file := func(r *release, name string, change func([]byte) []byte) {
		raw, err := os.ReadFile(filepath.Join(r.out, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(r.out, name), change(raw), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	archive := func(r *release) string { return fmt.Sprintf("reckon-%s-linux-%s.tar.gz", r.version, runtime.GOARCH) }
	changed := dist(t, "1.0.0", "")
	file(changed, archive(changed), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	missing := dist(t, "1.0.0", "")
	file(missing, sumsFile, func([]byte) []byte { return nil })
	resigned := dist(t, "1.0.0", filepath.Join(dir, "theirs"))
	edited := dist(t, "1.0.0", filepath.Join(dir, "ours"))
	file(edited, sumsFile, func(b []byte) []byte { return append(b, '\n') })
	bare := exec.Command("/bin/sh", "install.sh", "http://127.0.0.1:9")
	bare.Env = []string{"PATH=" + tools(t, "uname")}
	if out, err := bare.CombinedOutput(); err == nil || string(out) != "install.sh: install curl or wget first: one of them downloads the release\n" {
		t.Errorf("without curl and wget: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name    string
		r       *release
		args    []string
		refused string
		version string
	}{
		{"a changed byte", changed, nil, "is not what SHA256SUMS says", ""},
		{"a missing line", missing, nil, "names no archive", ""},
		{"no signature", dist(t, "1.0.0", ""), []string{"--key", keys["ours"]}, "is not signed", ""},
		{"another's signature", resigned, []string{"--key", keys["ours"]}, "is not by this key", ""},
		{"sums edited after the signature", edited, []string{"--key", keys["ours"]}, "is not by this key", ""},
		{"signed", dist(t, "1.9.0", filepath.Join(dir, "ours")), []string{"--key", keys["ours"]}, "", "1.9.0"},
		{"newer, unsigned", dist(t, "1.10.0", ""), nil, "", "1.10.0"},
		{"older", dist(t, "1.9.0", ""), nil, "1.9.0 is older than the installed 1.10.0", "1.10.0"},
		{"older on purpose", dist(t, "1.9.0", ""), []string{"--downgrade"}, "", "1.9.0"},
		{"another version", dist(t, "1.9.0", ""), []string{"--version", "2.0.0"}, "of version 2.0.0", "1.9.0"},
	} {
		out, err := install(c.r, c.args...)
		if (err != nil) != (c.refused != "") || !strings.Contains(out, c.refused) || installed() != c.version {
			t.Errorf("%s: %v, installed %q, want %q\n%s", c.name, err, installed(), c.version, out)
		}
	}
	downloaded := dist(t, "1.11.0", "")
	if out, err := exec.Command("./install.sh", downloaded.out, "--to", to).CombinedOutput(); err != nil || installed() != "1.11.0" {
		t.Errorf("from a folder: %v, installed %q\n%s", err, installed(), out)
	}
}

// tools is a folder with some programs of this machine alone.
func tools(t *testing.T, names ...string) string {
	dir := t.TempDir()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
