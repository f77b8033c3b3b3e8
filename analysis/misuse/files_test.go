package misuse

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated from the texts of rules")

// TestRuleFiles: the list of rules in Go, in the documents and for the pages is the list of the texts.
func TestRuleFiles(t *testing.T) {
	names, err := filepath.Glob("rules/*.txt")
	if err != nil || len(names) < 11 {
		t.Fatal(names, err)
	}
	for i := range names {
		_, names[i], _ = strings.Cut(strings.TrimSuffix(filepath.Base(names[i]), ".txt"), "-")
	}
	held := map[string][]byte{"policy_rules.go": goRules(t, names), "../../doc/rules.md": docRules(names), "../../web/ui/src/lib/rules.ts": pageRules(names)}
	for path, want := range held {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the rules are (%v); run go generate ./analysis/misuse", path, err)
		}
	}
	for _, rule := range names {
		if Meaning(rule) == "" || Help(rule) == "" || !strings.Contains(Defaults(rule), "\n  "+rule+":\n") {
			t.Errorf("%s lacks its help, its meaning or its section of the policy", rule)
		}
	}
}

const byTexts = "Code generated from analysis/misuse/rules by go generate ./analysis/misuse; DO NOT EDIT."

// goName returns the name of a rule in Go.
func goName(rule string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(rule, "-") {
		if word == "gpu" {
			b.WriteString("GPU")
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func goRules(t *testing.T, names []string) []byte {
	var consts, list, fields, rules strings.Builder
	for _, n := range names {
		g := goName(n)
		fmt.Fprintf(&consts, "%s = %q\n", g, n)
		fmt.Fprintf(&list, "%s, ", g)
		fmt.Fprintf(&fields, "%s %[1]sRule `yaml:%q`\n", g, n)
		fmt.Fprintf(&rules, "&p.%s, ", g)
	}
	text := "// " + byTexts + "\n\npackage misuse\n\n// Names of the rules.\nconst (\n" + consts.String() + ")\n\n" +
		"// Rules returns the names of all rules.\nfunc Rules() []string {\nreturn []string{\n" + wrapped(list.String()) + "}\n}\n\n" +
		"// Policy holds the thresholds of all rules. Their defaults are those of the program.\ntype Policy struct {\n" + fields.String() + "}\n\n" +
		"// rules returns the thresholds of all rules.\nfunc (p *Policy) rules() []any {\nreturn []any{\n" + wrapped(rules.String()) + "}\n}\n"
	out, err := format.Source([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wrapped puts each element of a list on a line.
func wrapped(list string) string { return strings.ReplaceAll(list, ", ", ",\n") }

func docRules(names []string) []byte {
	var b strings.Builder
	b.WriteString("<!-- " + byTexts + " -->\n\n# Rules of misuse\n\n")
	b.WriteString("What [findings](guides/usage.md#findings) are made of. `reckon findings policy` prints the thresholds with a comment for each.\n\n| rule | finds | meaning |\n|---|---|---|\n")
	for _, r := range names {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r, Help(r), Meaning(r))
	}
	b.WriteString("\n## Default thresholds\n")
	for _, r := range names {
		fmt.Fprintf(&b, "\n```yaml\n%s```\n", Defaults(r))
	}
	return []byte(b.String())
}

func pageRules(names []string) []byte {
	var b strings.Builder
	b.WriteString("// " + byTexts + "\n\n/** What a rule finds, in a few words. */\nexport const ruleWords: Record<string, string> = {\n")
	for _, r := range names {
		key := r
		if strings.Contains(r, "-") {
			key = fmt.Sprintf("%q", r)
		}
		fmt.Fprintf(&b, "  %s: %q,\n", key, Words(r))
	}
	b.WriteString("};\n")
	return []byte(b.String())
}

// Words returns what a rule finds in a few words, for tables of pages.
func Words(rule string) string {
	if words := ruleText("words", rule); words != "" {
		return words
	}
	return strings.ReplaceAll(rule, "-", " ")
}
