package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/s2"

	"reckon/account"
)

// The state is written with each export, so that receivers never have more data than the saved
// state. That is half of all bytes that an idle node writes if the file is on a disk; compression
// reduces it to a quarter. The format is S2 frames; files of earlier versions are uncompressed.

// stateBlock is the number of bytes of state that are compressed together. Larger blocks save 5 %, and take twice their size in memory.
const stateBlock = 64 << 10

// replaceState writes the accounts to the temporary file tmp and renames it to the state file.
func (a *Agent) replaceState(tmp string) error {
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if a.packer == nil {
		a.packer = s2.NewWriter(nil, s2.WriterBlockSize(stateBlock), s2.WriterConcurrency(1))
	}
	a.packer.Reset(f)
	if err := errors.Join(a.ledger.Save(a.packer, a.bootID), a.packer.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, a.config.State)
}

// readState returns the accounts in a file. The error matches [account.ErrDamaged] if they cannot be unpacked.
func readState(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte("\xff\x06\x00\x00")) { // of a stream of frames
		return data, err
	}
	data, err = io.ReadAll(s2.NewReader(bytes.NewReader(data), s2.ReaderMaxBlockSize(stateBlock)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", account.ErrDamaged, err)
	}
	return data, nil
}
