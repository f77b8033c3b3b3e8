package account

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is returned by [Ledger.Restore] if the state is truncated, changed, or from an
// incompatible program version. Other errors mean that the state is intact but from another boot or
// node. Test it with errors.Is.
var ErrDamaged = errors.New("the saved accounts are damaged")

// sealFormat is the last line of a saved state: the CRC-32C of everything before it.
const sealFormat = "#crc32c %08x\n"

const sealLength = len("#crc32c 01234567\n")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// unseal returns the body of a sealed state.
func unseal(data []byte) (body []byte, err error) {
	at := len(data) - sealLength
	if at < 1 || data[at-1] != '\n' {
		return nil, fmt.Errorf("%w: the checksum at their end is missing", ErrDamaged)
	}
	if want := fmt.Appendf(nil, sealFormat, crc32.Checksum(data[:at], castagnoli)); !bytes.Equal(data[at:], want) {
		return nil, fmt.Errorf("%w: the checksum at their end is %q, and theirs %q", ErrDamaged, data[at:], want)
	}
	return data[:at-1], nil
}
