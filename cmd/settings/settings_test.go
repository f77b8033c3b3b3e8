package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

type wrongCall struct{ error }

// configured runs a command with flags of every kind, a configuration and arguments.
func configured(t *testing.T, text string, args ...string) (listen string, keep time.Duration, words []string, loud bool, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "reckon.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
	set := New()
	set.Flags.StringVar(&listen, "listen", "here", "")
	set.Flags.DurationVar(&keep, "retention", time.Hour, "")
	set.Keys.StringSliceVar(&words, "compat", nil, "")
	set.Keys.BoolVar(&loud, "verbose", false, "")
	set.Attach(cmd, func(err error) error { return &wrongCall{err} })
	cmd.SetArgs(append([]string{"--config", file}, args...))
	return listen, keep, words, loud, cmd.Execute()
}

func TestConfig(t *testing.T) {
	listen, keep, words, loud, err := configured(t, "listen: 0.0.0.0:1\nretention: 48h\ncompat: [a, b]\nverbose: true\n")
	if err != nil || listen != "0.0.0.0:1" || keep != 48*time.Hour || strings.Join(words, " ") != "a b" || !loud {
		t.Errorf("%s %s %v %v %v", listen, keep, words, loud, err)
	}
	if listen, keep, _, _, err := configured(t, "listen: file\nretention: 48h\n", "--listen", "line"); err != nil || listen != "line" || keep != 48*time.Hour {
		t.Errorf("the command line does not win: %s %s %v", listen, keep, err)
	}
	if listen, _, _, _, err := configured(t, ""); err != nil || listen != "here" {
		t.Errorf("an empty file: %s %v", listen, err)
	}
	for text, want := range map[string]string{
		"lisen: x\n":             "line 1: \"lisen\" is no setting; there are compat, listen, retention, verbose",
		"a: 1\n":                 "is no setting",
		"Retention: 1h\n":        "do you mean retention?",
		"listen: a\nlisten: b\n": "line 2: listen occurs twice",
		"retention: 5 days\n":    "line 1: retention: ",
		"listen: [a, b]\n":       "give one value, not a list",
		"listen: {a: b}\n":       "give one value",
		"compat: [{a: b}]\n":     "a list of words",
		"- listen\n":             "NAME: VALUE",
		"listen: 'x\n":           "yaml",
		"config: other.yaml\n":   "is no setting",
	} {
		_, _, _, _, err := configured(t, text)
		var wrong *wrongCall
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestSet(t *testing.T) {
	listen, keep, words, _, err := configured(t, "listen: file\ncompat: [a]\n", "--set", "compat=b", "--set", "compat=c,d", "--set", "listen=line", "--set", "retention=2h")
	if err != nil || listen != "line" || keep != 2*time.Hour || strings.Join(words, " ") != "b c d" {
		t.Errorf("%s %s %v %v", listen, keep, words, err)
	}
	for args, want := range map[string]string{
		"--set lisen=x":       `"lisen" is no setting`,
		"--set listen":        "write listen=VALUE",
		"--set retention=5m5": "retention: ",
		"--compat a":          "--compat is a setting: write 'compat: VALUE' into the file that --config names, or give --set compat=VALUE",
		"--unknown":           "unknown flag: --unknown",
	} {
		if _, _, _, _, err := configured(t, "", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", args, err, want)
		}
	}
}
