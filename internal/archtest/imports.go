package archtest

import (
	"slices"
	"strings"
)

// ImportRules returns the dependency rules. Data flows from sensor to web, and no stage imports a later one.
func ImportRules() []Rule {
	return []Rule{
		{
			"vocabulary", "metric and workload are words that all others share: they import nothing of ours, and the folders below them " +
				"only their own stage and what folders share in internal/. metric/compat, which shows workloads under names of others, " +
				"sees workload too. Move what needs more to the package that uses it.",
			func(t *Tree) []Violation {
				return t.findImports(true, inFolder("metric", "workload"), func(pkg, imp string) bool {
					below := pkg != rootFolder(pkg)
					return isOurs(imp) && !isBelow(imp, "./"+rootFolder(pkg)) && !(below && isBelow(imp, "./internal")) &&
						!(pkg == "metric/compat" && imp == "./workload")
				})
			}},
		{
			"figure", "figure says what each figure is, for all stages: it imports metric only. Its generator sees the other " +
				"vocabularies too.",
			func(t *Tree) []Violation {
				return t.findImports(true, inFolder("figure"), func(pkg, imp string) bool {
					return isOurs(imp) && !isBelow(imp, "./metric", "./figure") && !(pkg == "figure/gen" && imp == "./workload")
				})
			}},
		{
			"sensor", "A sensor reads one source and knows nothing behind it. Append samples or fill the records of package sensor; who " +
				"uses them is decided in agent.",
			func(t *Tree) []Violation {
				return t.findImports(true, inFolder("sensor"), func(_, imp string) bool {
					return isBelow(imp, "./workload", "./account", "./store", "./catalogue", "./query", "./analysis", "./answer", "./graph",
						"./access", "./web", "./transport", "./interop", "./agent", "./server")
				})
			}},
		{
			"sensor-exec", "A sensor runs no program: read the file, the socket or the library behind the program. os/exec belongs to " +
				"tests only.",
			func(t *Tree) []Violation {
				// The suite for implementers is test code, though not in test files.
				return t.findImports(false, inFolder("sensor"),
					func(pkg, imp string) bool { return imp == "os/exec" && pkg != "sensor/sensortest" })
			}},
		{
			"siblings", "Folders of one stage do not import each other; only their all package lists them. Move what two of them share " +
				"to internal/ under the name of the thing.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("sensor/*", "workload/*", "analysis/*", "store/*"), func(pkg, imp string) bool {
					stage, own := splitStage(pkg)
					_, other := splitStage(strings.TrimPrefix(imp, "./"))
					return own != "all" && own != "" && other != "" && isBelow(imp, "./"+stage+"/*") && other != own
				})
			}},
		{
			"pure", "account (with account/attribution) and analysis are functions from readings to figures: no file, no socket. Take " +
				"what you need as an argument; agent and server read it.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("account", "analysis"), func(_, imp string) bool {
					return isBelow(imp, "os", "net", "syscall", "golang.org/x/sys")
				})
			}},
		{"store", "A store keeps numbers and does not know what they mean. Put meaning into query or analysis.",
			func(t *Tree) []Violation {
				return t.findImports(true, inFolder("store"), func(_, imp string) bool {
					return isBelow(imp, "./sensor", "./account", "./catalogue", "./query", "./analysis", "./answer", "./web")
				})
			}},
		{
			"catalogue", "catalogue writes facts by the contracts of package store, into any database: it sees neither a store nor " +
				"catalogue/database, which server connects. catalogue/database sees the contracts and figure, not the builder.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("catalogue"), func(pkg, imp string) bool {
					if isBelow(imp, "./store/*", "./sensor") {
						return true
					}
					if isBelow(pkg, "catalogue/database") {
						return isBelow(imp, "./catalogue") && !isBelow(imp, "./catalogue/database")
					}
					return isBelow(imp, "./catalogue/*")
				})
			}},
		{
			"query", "query reads and sees the contract of package store, so that any store answers the same; what writes is in " +
				"catalogue. Take a store.Series or a store.Catalogue as an argument.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("query"),
					func(_, imp string) bool { return isBelow(imp, "./store/*", "./catalogue", "./sensor") })
			}},
		{
			"answer", "answer turns figures and facts into statements and knows neither HTTP nor an implementation of a store. Declare " +
				"what you read as an interface beside the question, and return an answer.Error; web/api makes a status of it.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("answer"), func(_, imp string) bool {
					return isBelow(imp, "./store/*", "./catalogue", "./sensor", "net", "os")
				})
			}},
		{"web", "web and graph show what query and analysis give. Take an interface as an argument; server connects it.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("web", "graph"),
					func(_, imp string) bool { return isBelow(imp, "./store/*", "./catalogue", "./sensor") })
			}},
		{"composition", "Only cmd and agent, server know everything. Move the code there, or take an interface.",
			func(t *Tree) []Violation {
				return t.findImports(false, func(pkg string) bool { return !isBelow(pkg, "cmd", "agent", "server", "lab", "test") },
					func(_, imp string) bool {
						return isBelow(imp, "./agent", "./server", "./cmd")
					})
			}},
		{
			"foundations", "internal/ holds what every stage may stand on: it imports no stage, only the vocabularies. Move what knows " +
				"a stage to that stage's folder.",
			func(t *Tree) []Violation {
				return t.findImports(false, inFolder("internal"), func(_, imp string) bool {
					return isOurs(imp) && !isBelow(imp, "./metric", "./workload", "./figure", "./internal")
				})
			}},
		{
			"flow", "No edge between folders at the root runs against the flow: a folder imports only what stands before it in flow(). " +
				"Turn the edge around with an interface, or move the code.",
			findBackwardImports},
		{
			"kubernetes", "The Kubernetes libraries belong to the modules below kubernetes/: they are large, and most sites have no " +
				"cluster. Speak plain HTTP to the kubelet.",
			func(t *Tree) []Violation {
				return t.findImports(true, func(pkg string) bool { return !isBelow(pkg, "kubernetes") }, func(_, imp string) bool {
					return isBelow(imp, "k8s.io", "sigs.k8s.io")
				})
			}},
		{
			"operator", "kubernetes/operator/ is a module of its own: of the root it takes web/client, metric, workload and graph, and " +
				"nothing of internal/. Let what it needs travel through web/client.",
			findForbiddenImports},
		{"scheduler", "The plugin of kube-scheduler is a thin client: it imports nothing of ours, and asks the server by HTTP.",
			func(t *Tree) []Violation {
				return t.findImports(true, inFolder("kubernetes/scheduler"),
					func(_, imp string) bool { return isOurs(imp) && !isBelow(imp, "./kubernetes/scheduler") })
			}},
		{
			"agent-links", "The agent runs on every node within 25 MB: it links no store, no query engine, no Kubernetes client. `go " +
				"list -deps ./cmd/reckon-agent` and `go mod why -m` show the way it came in; move the code that pulls it in behind an " +
				"interface.",
			findAgentLinks},
	}
}

func findAgentLinks(t *Tree) (out []Violation) {
	for _, p := range t.Packages {
		if p.Path != "cmd/reckon-agent" {
			continue
		}
		for _, d := range p.Deps {
			if isBelow(d, "github.com/prometheus/prometheus/tsdb", "github.com/prometheus/prometheus/promql",
				"github.com/prometheus/prometheus/storage",
				"k8s.io", "sigs.k8s.io", "modernc.org", "github.com/jackc/pgx", "github.com/parquet-go",
				t.Module+"/store", t.Module+"/catalogue", t.Module+"/query", t.Module+"/answer", t.Module+"/web/ui", t.Module+"/server") {
				out = append(out, Violation{File: p.Path, What: "links " + d})
			}
		}
	}
	return out
}

// importOrder returns the root folders in order. Each may import only those before it, and all may import
// internal/ (rule foundations).
func importOrder() []string {
	return []string{
		"workload", "metric", "figure", "account", "access", "store", "analysis",
		"catalogue", "query", "answer", "graph", "web", "transport", "interop", "agent", "lab", "server", "cmd", "test",
	}
}

func findBackwardImports(t *Tree) []Violation {
	at := func(path string) int { return slices.Index(importOrder(), rootFolder(path)) }
	// The sensors precede account, and deploy/ embeds files that any package may use.
	outside := func(path string) bool { return isBelow(path, "internal", "deploy", "sensor") }
	return t.findImports(false, func(pkg string) bool { return !outside(pkg) }, func(pkg, imp string) bool {
		path := strings.TrimPrefix(imp, "./")
		return isOurs(imp) && !outside(path) && rootFolder(pkg) != rootFolder(path) && at(path) >= at(pkg)
	})
}

func inFolder(names ...string) func(string) bool {
	return func(pkg string) bool { return isBelow(pkg, names...) }
}

func isOurs(imp string) bool { return strings.HasPrefix(imp, "./") }

func rootFolder(path string) string { return strings.Split(path, "/")[0] }

// splitStage splits "sensor/task/ebpf" into "sensor" and "task". Test suites for implementers do not
// count as siblings.
func splitStage(path string) (stage, folder string) {
	words := strings.Split(path, "/")
	if len(words) < 2 || slices.Contains([]string{"sensortest", "workloadtest", "storetest", "analysistest"}, words[1]) {
		return words[0], ""
	}
	return words[0], words[1]
}
