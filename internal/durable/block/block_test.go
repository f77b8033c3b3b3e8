package block

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
)

// made writes a block with the database itself and returns its directory.
func made(t testing.TB, series int) string {
	t.Helper()
	dir := t.TempDir()
	w, err := promtsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, promtsdb.DefaultBlockDuration)
	if err != nil {
		t.Fatal(err)
	}
	app := w.AppenderV2(t.Context())
	for i := range series {
		l := labels.FromStrings("__name__", "test", "workload", strings.Repeat("w", i%7)+string(rune('a'+i%26)), "n", string(rune('a'+i/26)))
		for k := range 150 {
			if _, err := app.Append(0, l, 0, int64(k)*15_000, float64(i*k), nil, nil, storage.AOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	id, err := w.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, id.String())
}

func TestWholeBlock(t *testing.T) {
	dir := made(t, 200)
	info, err := Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Series != 200 || info.Chunks < 400 || info.From != 0 || info.To != 149*15_000 {
		t.Errorf("%+v", info)
	}
	var bytes int64
	for _, name := range []string{"index", "chunks/000001"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		bytes += st.Size()
	}
	if info.Bytes != bytes {
		t.Errorf("%d bytes read of %d", info.Bytes, bytes)
	}
}

// Each flipped bit of index and chunks is found, except in padding, which has no meaning.
func TestEveryFlippedBitIsFound(t *testing.T) {
	dir := made(t, 8)
	for _, name := range []string{"index", "chunks/000001"} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for at := range whole {
			raw := append([]byte{}, whole...)
			raw[at] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Verify(dir)
			var d *Damage
			if err == nil {
				if whole[at] != 0 {
					t.Errorf("%s: byte %d of %d was changed from %#x to %#x and nothing is found", name, at, len(whole), whole[at], raw[at])
				}
			} else if !errors.As(err, &d) || d.File != path && filepath.Base(d.File) != "meta.json" {
				t.Fatalf("%s at %d: %v", name, at, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCutAndMissingFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(dir string) error
		want string
	}{
		{"meta is missing", func(d string) error { return os.Remove(filepath.Join(d, "meta.json")) }, "meta.json: it is missing"},
		{"meta is cut", func(d string) error { return os.Truncate(filepath.Join(d, "meta.json"), 40) }, "meta.json"},
		{"meta of other samples", func(d string) error {
			raw, err := os.ReadFile(filepath.Join(d, "meta.json"))
			return errors.Join(err, os.WriteFile(filepath.Join(d, "meta.json"), []byte(strings.Replace(string(raw), `"minTime": 0`, `"minTime": 60000`, 1)), 0o600))
		}, "its times"},
		{"meta of fewer series", func(d string) error {
			raw, err := os.ReadFile(filepath.Join(d, "meta.json"))
			return errors.Join(err, os.WriteFile(filepath.Join(d, "meta.json"), []byte(strings.Replace(string(raw), `"numSeries": 30`, `"numSeries": 20`, 1)), 0o600))
		}, "20 series"},
		{"index is missing", func(d string) error { return os.Remove(filepath.Join(d, "index")) }, "index: it is missing"},
		{"index is empty", func(d string) error { return os.Truncate(filepath.Join(d, "index"), 0) }, "index"},
		{"index is cut", func(d string) error { return os.Truncate(filepath.Join(d, "index"), 700) }, "index"},
		{"chunks are missing", func(d string) error { return os.Remove(filepath.Join(d, "chunks", "000001")) }, "names a chunk that is not there"},
		{"the folder of chunks is missing", func(d string) error { return os.RemoveAll(filepath.Join(d, "chunks")) }, "chunks: it is missing"},
		{"chunks are cut", func(d string) error { return os.Truncate(filepath.Join(d, "chunks", "000001"), 1000) }, "cut off"},
		{"chunks are cut between two", cutAtChunk, "names a chunk that is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := made(t, 30)
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Verify(dir)
			var d *Damage
			if !errors.As(err, &d) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// cutAtChunk truncates a file of chunks after its first chunk.
func cutAtChunk(dir string) error {
	path := filepath.Join(dir, "chunks", "000001")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, w := binary.Uvarint(raw[segmentHeader:])
	return os.Truncate(path, int64(segmentHeader+w+1+int(n)+crc32.Size))
}

// Trouble of the machine is not reported as damage.
func TestTroubleIsNoDamage(t *testing.T) {
	dir := made(t, 3)
	index := filepath.Join(dir, "index")
	if err := errors.Join(os.Remove(index), os.Symlink("index", index)); err != nil {
		t.Fatal(err)
	}
	_, err := Verify(dir)
	var d *Damage
	if err == nil || errors.As(err, &d) {
		t.Errorf("a link to itself: %v", err)
	}
}

func FuzzSegment(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0})
	f.Add([]byte{0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1})
	f.Add([]byte{0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if at, what := verifySegment(data); what == "" && at != len(data) {
			t.Errorf("accepted %d of %d bytes", at, len(data))
		}
	})
}

// FuzzIndex reads invalid content with valid checksums.
func FuzzIndex(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join(made(f, 3), "index"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-tocLength])
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > tocLength { // otherwise only the table of contents would be tested
			toc := data[len(data)-tocLength:]
			binary.BigEndian.PutUint32(toc[tocLength-4:], crc32.Checksum(toc[:tocLength-4], castagnoli))
		}
		path := filepath.Join(t.TempDir(), "index")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = verifyIndex(path, []int64{1 << 20}, &Info{})
		c := indexChecker{data: data, segments: []int64{1 << 20}, info: &Info{}}
		c.checkChunks(data)
	})
}

func TestDeletions(t *testing.T) {
	dir := made(t, 3)
	path := filepath.Join(dir, "tombstones")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyDeleted(dir); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		raw := append([]byte{}, whole...)
		raw[at] ^= 2
		for what, raw := range map[string][]byte{"changed": raw, "cut": whole[:at]} {
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			var d *Damage
			if err := VerifyDeleted(dir); !errors.As(err, &d) {
				t.Errorf("byte %d %s: %v", at, what, err)
			}
		}
	}
	if err := errors.Join(os.Remove(path), VerifyDeleted(dir)); err != nil {
		t.Errorf("there is none: %v", err)
	}
}
