package account

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxReturns is the most times that one pass may come back to a room that it has left.
const maxReturns = 20

// rooms are the files of each room of the account besides its own; the files of a folder below this one are a room, too. Files of the room ""
// are the arithmetic and the words that all of them use.
var rooms = map[string]string{
	"process": "process.go children.go tails.go unseen.go waking.go uncertainty.go zombies.go commands.go tasks.go charge.go deletes.go",
	"memory":  "memory.go shared.go",
	"state":   "state.go state2.go save.go seal.go",
	"":        "usage.go certainty.go",
}

// TestRooms traces the calls of a pass (a tick, the readings of three sources, devices and meters) over a machine of 100 processes in 20
// groups, in a copy of the package that reports the file of each function when it is entered and left. Each part is visited once per phase: the
// number of stays does not grow with the machine. On commit ad0587d9 a tick alone came back to a room 1,411 times with 50 processes, and 91 times with
// one, a file for a room.
func TestRooms(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the package again")
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	replace := map[string]string{}
	put := func(name, text string) {
		file := filepath.Join(out, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(dir, name)] = file
	}
	files, _ := filepath.Glob("*.go")
	below, _ := filepath.Glob("[a-z]*/*.go")
	for _, f := range append(files, below...) {
		if !strings.HasSuffix(f, "_test.go") && roomOf(f) != "" && !strings.HasPrefix(f, "attribution") {
			put(f, traced(t, f))
		}
	}
	put("tracer/tracer.go", tracerSource)
	put("traced_test.go", tracedPass)
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(out, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay="+list, "-run=^TestTracedPass$", "-v", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	_, line, ok := strings.Cut(string(text), "stays: ")
	if !ok {
		t.Fatalf("%s", text)
	}
	line, _, _ = strings.Cut(line, "\n")
	stays := strings.Fields(line)
	seen, returns := map[string]bool{}, 0
	for _, s := range stays {
		if seen[s] {
			returns++
		}
		seen[s] = true
	}
	t.Logf("%d stays, %d of them in a room that was left before: %s", len(stays), returns, line)
	if returns > maxReturns || len(seen) < 3 {
		t.Errorf("a pass comes back %d times to one of %d rooms, want at most %d", returns, len(seen), maxReturns)
	}
}

// roomOf returns the room of a file, "" for one that belongs to all.
func roomOf(file string) string {
	if folder, _, ok := strings.Cut(file, "/"); ok {
		return folder
	}
	for room, files := range rooms {
		if strings.Contains(" "+files+" ", " "+file+" ") {
			return room
		}
	}
	return "account"
}

// traced returns a file in which each function reports that it is entered and left.
func traced(t *testing.T, file string) string {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, at := "", 0
	insert := func(pos token.Pos, after int, what string) {
		next := set.Position(pos).Offset + after
		text += string(src[at:next]) + what
		at = next
	}
	insert(parsed.Name.End(), 0, "\nimport \"reckon/account/tracer\"\n")
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			insert(f.Body.Lbrace, 1, fmt.Sprintf("tracer.Enter(%q); defer tracer.Leave();", roomOf(file)))
		}
	}
	return text + string(src[at:]) + "\nvar _ = tracer.On\n"
}

const tracerSource = `package tracer

var (
	On    bool
	Stays []string
	stack []string
)

func note(room string) {
	if n := len(Stays); n == 0 || Stays[n-1] != room {
		Stays = append(Stays, room)
	}
}

func Enter(room string) {
	if On {
		stack = append(stack, room)
		note(room)
	}
}

func Leave() {
	if !On {
		return
	}
	if stack = stack[:len(stack)-1]; len(stack) > 0 {
		note(stack[len(stack)-1])
	}
}
`

const tracedPass = `package account

import (
	"fmt"
	"strings"
	"testing"

	"reckon/account/attribution"
	"reckon/account/tracer"
	"reckon/sensor"
)

func TestTracedPass(t *testing.T) {
	r, live := machine(t, 100)
	passes := busyPass(live)
	pass := func() {
		live[0].UserNanos += second / 2
		r.tick(second/2, live)
		for _, s := range sources {
			if p := passes[s]; p != nil {
				r.l.Tally(s, p)
			}
		}
		shares := r.l.GPU(&sensor.GPUPass{})
		r.l.Energy(attribution.Load{}, nil, shares)
	}
	pass()
	tracer.Stays, tracer.On = nil, true
	pass()
	tracer.On = false
	fmt.Println("stays: " + strings.Join(tracer.Stays, " "))
}
`
