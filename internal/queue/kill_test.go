package queue

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// With this word and a directory as arguments, the test binary is the writer that is
// killed: it puts numbered records, prints each number when Put has returned, and exits
// after maxPuts. It starts nothing.
const (
	childWord = "queue-writer"
	maxPuts   = 100_000
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == childWord {
		first, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = write(os.Args[2], first)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func write(dir string, first int) error {
	q, err := Open(Options{Dir: dir, SegmentBytes: 4096})
	if err != nil {
		return err
	}
	for n := first; n < first+maxPuts; n++ {
		if err := q.Put(fmt.Appendf(nil, "%d %0*d", n, 1+n*37%900, 0)); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
	return nil
}

// A writer is killed twenty times at random moments; in between, waiting records are
// read. Every record for which Put returned is read once, in order.
func TestKilledWriterLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts twenty processes")
	}
	dir := t.TempDir()
	next, lost, acked := 0, 0, 0
	for range 20 {
		last := killed(t, dir, next, 1+rand.IntN(60), time.Duration(rand.IntN(2000))*time.Microsecond)
		q := open(t, Options{Dir: dir, SegmentBytes: 4096})
		expect := next
		for {
			r, err := q.Peek(nil)
			if err != nil {
				break
			}
			var n, pad int
			if _, err := fmt.Sscanf(string(r.Data), "%d %d", &n, &pad); err != nil {
				t.Fatalf("%q: %v", r.Data, err)
			}
			if n != expect {
				t.Fatalf("record %d came, want %d", n, expect)
			}
			expect++
			if err := q.Done(r); err != nil {
				t.Fatal(err)
			}
		}
		acked += last - next + 1
		lost += max(0, last+1-expect)
		next = expect
		q.Close()
	}
	if lost > 0 {
		t.Errorf("lost %d of %d", lost, acked)
	}
	t.Logf("20 kills, %d records acknowledged, %d lost", acked, lost)
}

// killed runs the writer until it has printed n numbers and a little longer, kills it,
// and returns the last number printed.
func killed(t *testing.T, dir string, first, n int, then time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], childWord, dir, strconv.Itoa(first))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last, seen := first-1, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		v, err := strconv.Atoi(lines.Text())
		if err != nil || v != last+1 {
			break // cut by the kill
		}
		last = v
		if seen++; seen == n {
			time.AfterFunc(then, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if seen < n {
		t.Fatalf("the writer ended by itself after %d records", seen)
	}
	return last
}
