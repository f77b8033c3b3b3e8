package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// ExtractRoot writes the raw files of pass n, counted from 0, below dir, which is created
// if need be: a tree that can be given to sensors as their root. Nothing is written
// outside dir, whatever the recording contains: names and links are resolved by
// [os.Root].
func ExtractRoot(r io.Reader, n int, dir string) error {
	rd, err := Open(r)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		p, err := rd.Next()
		if err == io.EOF {
			return fmt.Errorf("recording: it has %d passes, there is no pass %d", i, n)
		}
		if err != nil {
			return err
		}
		if i == n {
			return WriteFiles(p.Files, dir)
		}
	}
}

// WriteFiles writes files below dir.
func WriteFiles(files []File, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
		if f.Link != "" {
			if path.IsAbs(f.Link) || !fs.ValidPath(path.Join(path.Dir(f.Path), f.Link)) {
				return fmt.Errorf("%w: link %q to %q leaves the tree", ErrFormat, f.Path, f.Link)
			}
			err = root.Symlink(f.Link, f.Path)
		} else {
			err = root.WriteFile(f.Path, f.Data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("recording: %w", err)
		}
	}
	return nil
}
