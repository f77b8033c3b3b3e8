package task

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTimeNamespaces runs tests of this program in time namespaces with clocks ahead of and
// behind the machine's: the kernel's own programs see the machine's, /proc and we the namespace's.
func TestTimeNamespaces(t *testing.T) {
	const inside = "RECKON_TEST_TIME_NAMESPACE"
	if os.Getenv(inside) != "" {
		t.Skip("this is the program inside")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{100_000, -up.Sec / 2} {
		t.Run(strconv.FormatInt(offset, 10), func(t *testing.T) {
			args := []string{"--time", "--boottime", strconv.FormatInt(offset, 10)}
			if out, err := exec.Command(unshare, append(args, "true")...).CombinedOutput(); err != nil {
				t.Skipf("no time namespace: %v: %s", err, out)
			}
			c := exec.Command(unshare, append(args, os.Args[0], "-test.v", "-test.run=^(TestSourcesAgree|TestEndsOnce)$")...)
			c.Env = append(os.Environ(), inside+"=1")
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestEndsOnce") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
