package cgpath

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSplit(t *testing.T) {
	got := Split("//a/../b c/")
	want := []Piece{{"a", "//a"}, {"..", "//a/.."}, {"b c", "//a/../b c"}}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	if n := len(Split(strings.Repeat("/a", 5000))); n != maxDepth {
		t.Errorf("%d components", n)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 4096)
	for _, tt := range []struct{ got, want string }{
		{Clean("nginx.service"), "nginx.service"},
		{Clean("a\nb\x00c\xff/d\u0085"), "a?b?c??d?"},
		{Clean("größe.service"), "größe.service"},
		{Unescape(`dev-disk-by\x2dlabel.swap`), "dev-disk-by-label.swap"},
		{Unescape(`a\x2fb\x0a\xzz\x`), `a\x2fb\x0a\xzz\x`},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
	if a, b := Clean(long+"a"), Clean(long+"b"); a == b || len(a) > MaxName {
		t.Errorf("long names: %q, %q", a, b)
	}
	if uid, ok := SliceUser("user-1000.slice"); !ok || uid != 1000 {
		t.Error(uid, ok)
	}
	for _, s := range []string{"user-.slice", "user-x.slice", "user-+1.slice", "user.slice", "user-99999999999.slice", "user@.service"} {
		if uid, ok := SliceUser(s); ok {
			t.Errorf("%q is user %d", s, uid)
		}
	}
}

func TestMemoIsBounded(t *testing.T) {
	var m Memo[int]
	m.Put("kept", 1)
	for i := range 10 * maxGeneration {
		m.Put(strconv.Itoa(i), i)
		if _, ok := m.Get("kept"); !ok {
			t.Fatal("what is asked for was forgotten")
		}
	}
	if n := len(m.young) + len(m.old); n > 2*maxGeneration {
		t.Errorf("%d answers kept", n)
	}
	if _, ok := m.Get("0"); ok {
		t.Error("what nobody asks for was kept")
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\nb")
	f.Add(`\x2d`)
	f.Fuzz(func(t *testing.T, s string) {
		for _, c := range []string{Clean(s), Clean(Unescape(s))} {
			if len(c) > MaxName || !utf8.ValidString(c) || strings.ContainsAny(c, "\n\r\t\x00/") {
				t.Errorf("%q", c)
			}
		}
	})
}
