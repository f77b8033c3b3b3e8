package taskstats

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Root of a user namespace is not advised to run as root.
// On a kernel with records that name no process, nobody is advised to get a permission that does not help.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err      error
		uidMap   string
		nameless bool
		want     string
	}{
		{unix.EPERM, "         0          0 4294967295\n", false, "grant CAP_NET_ADMIN"},
		{unix.EPERM, "", false, "grant CAP_NET_ADMIN"},
		{unix.EPERM, "         0       1000          1\n", false, "without a user namespace"},
		{unix.EINVAL, "         0          0 4294967295\n", false, "hostPID"},
		{unix.EPERM, "         0          0 4294967295\n", true, "which name no process before Linux 5.19: "},
		{unix.EPERM, "         0       1000          1\n", true, "(use Linux 5.19 or later"},
	} {
		err := explainDenied(fmt.Errorf("register: %w", c.err), c.uidMap, c.nameless)
		if !errors.Is(err, sensor.ErrUnavailable) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) || c.nameless && strings.Contains(err.Error(), "CAP_NET_ADMIN") {
			t.Errorf("%v in %q, records without names %v: %v, want %q", c.err, c.uidMap, c.nameless, err, c.want)
		}
	}
}
