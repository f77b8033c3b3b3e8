// Package backup writes the data of a server to one file and restores it to a directory.
//
// A backup is a tar archive (POSIX.1-1988 ustar and pax) packed by zstd (RFC 8878), which `tar
// --zstd -x` reads. Its first file is manifest.json, then come the files of a data directory under
// their names, and the last one is SHA256SUMS, in the form of sha256sum: an archive without it is
// incomplete. An archive contains hashes of passwords and tokens, so only its owner may read it.
//
// Functions are not safe for concurrent use on the same archive.
package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Format is the version of the archive.
const Format = 1

const (
	manifestName = "manifest.json"
	sumsName     = "SHA256SUMS"
	maxFiles     = 1 << 20
)

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program
	Time    time.Time `json:"time"`
	// LeftOut names stores outside the data directory, which were not copied.
	LeftOut []string `json:"left_out,omitempty"`

	Files int   `json:"-"` // counted when it is read
	Bytes int64 `json:"-"`
}

// ErrDamaged matches, by errors.Is, an archive that differs from what was written.
var ErrDamaged = errors.New("the backup is damaged")

// Write packs the files below dir, which must not change meanwhile.
func Write(ctx context.Context, w io.Writer, dir string, m Manifest) error {
	packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	t := tar.NewWriter(packed)
	m.Format = Format
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	var sums strings.Builder
	add := func(name string, size int64, at time.Time, in io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: at.Truncate(time.Second),
			Format: tar.FormatPAX}); err != nil {
			return err
		}
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(t, sum), in); err != nil {
			return fmt.Errorf("back up %s: %w", name, err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), name)
		return nil
	}
	if err := add(manifestName, int64(len(head)), m.Time, strings.NewReader(string(head))); err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		return add(filepath.ToSlash(name), st.Size(), st.ModTime(), f)
	})
	if err != nil {
		return err
	}
	text := sums.String()
	if err := add(sumsName, int64(len(text)), m.Time, strings.NewReader(text)); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return packed.Close()
}

// Check reads an archive to its end and compares every file with its checksum.
func Check(in io.Reader) (Manifest, error) {
	return readArchive(in, func(string, io.Reader) error { return nil })
}

// Extract extracts an archive to dir, which must be empty, and verifies it.
func Extract(in io.Reader, dir string) (Manifest, error) {
	return readArchive(in, func(name string, in io.Reader) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in)
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
}

// readArchive calls file for each file except the manifest and the checksums.
func readArchive(in io.Reader, file func(name string, in io.Reader) error) (m Manifest, err error) {
	packed, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return m, err
	}
	defer packed.Close()
	t := tar.NewReader(packed)
	got := map[string]string{}
	for n := 0; ; n++ {
		h, err := t.Next()
		if err != nil {
			return m, damagedError(fmt.Errorf("it ends before its last file: %w", err))
		}
		name := h.Name
		switch {
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`):
			return m, damagedError(fmt.Errorf("it holds %q, which is no file of a data directory", name))
		case n == 0 && name != manifestName:
			return m, damagedError(errors.New("its first file is no manifest; is it a backup of reckon?"))
		case got[name] != "" || n > maxFiles:
			return m, damagedError(fmt.Errorf("it holds %q twice, or too many files", name))
		case name == sumsName:
			return m, damagedError(checkSums(t, got))
		}
		sum := sha256.New()
		body := io.TeeReader(t, sum)
		if name == manifestName {
			if err := readManifest(body, &m); err != nil {
				return m, err
			}
		} else {
			if err := file(name, body); err != nil {
				return m, fmt.Errorf("restore %s: %w", name, err)
			}
			m.Files, m.Bytes = m.Files+1, m.Bytes+h.Size
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return m, damagedError(err)
		}
		got[name] = hex.EncodeToString(sum.Sum(nil))
	}
}

func damagedError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func readManifest(in io.Reader, m *Manifest) error {
	if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(m); err != nil {
		return damagedError(fmt.Errorf("its manifest: %w", err))
	}
	if m.Format != Format {
		return fmt.Errorf(
			"the backup is of format %d and this program reads %d; use the reckon of version %s that wrote it, or a newer one", m.Format,
			Format, m.Version)
	}
	return nil
}

// checkSums compares the checksums of an archive with the extracted files.
func checkSums(in io.Reader, computed map[string]string) error {
	raw, err := io.ReadAll(io.LimitReader(in, 512<<20))
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(raw)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || computed[name] != sum {
			return fmt.Errorf("%s is not what was written", name)
		}
		n++
	}
	if n != len(computed) {
		return fmt.Errorf("it holds %d files and sums of %d", len(computed), n)
	}
	return nil
}

// Copy copies the named files from one directory to another. It skips files that do not exist.
func Copy(from, to string, names ...string) error {
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(from, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || slices.Contains([]string{".tmp", ".lock"}, filepath.Ext(path)) {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o750); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, rel), raw, 0o600)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return nil
}
