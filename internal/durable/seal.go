package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrSeal is the error of a file whose checksum is not that of what it holds.
var ErrSeal = errors.New("fails its checksum")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	sealBegin  = "\n#crc32c "
	sealFormat = sealBegin + "%08x\n"
)

// Seal returns body with its CRC-32C in a line behind it.
func Seal(body []byte) []byte {
	return fmt.Appendf(bytes.Clone(body), sealFormat, crc32.Checksum(body, castagnoli))
}

// Unseal returns the body of what Seal made, or an error that matches ErrSeal.
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

// Body returns the body of what Seal made, or all of a file that has no checksum: those of
// earlier versions have none.
func Body(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(sealBegin)) {
		return raw, nil
	}
	return Unseal(raw)
}
