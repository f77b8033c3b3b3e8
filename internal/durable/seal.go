package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

// ErrSeal is the error of a file with a wrong checksum.
var ErrSeal = errors.New("fails its checksum")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	sealBegin  = "\n#crc32c "
	sealFormat = sealBegin + "%08x\n"
)

// Seal returns body followed by a line with its CRC-32C.
func Seal(body []byte) []byte {
	return fmt.Appendf(bytes.Clone(body), sealFormat, crc32.Checksum(body, castagnoli))
}

// Unseal returns the body of Seal's output, or an error that matches ErrSeal.
func Unseal(raw []byte) ([]byte, error) {
	at := len(raw) - len(fmt.Sprintf(sealFormat, 0))
	if at < 0 {
		return nil, fmt.Errorf("%w: it is cut off", ErrSeal)
	}
	body := raw[:at]
	if !bytes.Equal(raw[at:], fmt.Appendf(nil, sealFormat, crc32.Checksum(body, castagnoli))) {
		return nil, ErrSeal
	}
	return body, nil
}

// Body returns the body of Seal's output, or the whole of a file without a checksum from an earlier version.
func Body(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(sealBegin)) {
		return raw, nil
	}
	return Unseal(raw)
}

// ReadJSON decodes a file written by [WriteJSON] into v. It also accepts files of earlier versions, which have no
// checksum. The error matches [fs.ErrNotExist] if the file is missing. v must not be used after any error.
func ReadJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err == nil {
		raw, err = Body(raw)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("is cut off or was changed: %w", err)
	}
	return nil
}

// WriteJSON replaces a file by v and a checksum. v must be an object or an array, because a part of one is no valid JSON.
func WriteJSON(path string, v any, rights fs.FileMode) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Replace(path, Seal(raw), rights)
}
