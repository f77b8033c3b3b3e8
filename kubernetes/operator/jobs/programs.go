package jobs

import (
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"reckon/kubernetes/operator/metricset"
)

// nobodyUser is the user of our own containers if they need no rights on a volume.
const nobodyUser = 65532

// programContainer creates the container of a metric that is a program of its own.
func (b *builder) programContainer(m *metricset.Measure) (container, error) {
	image := m.Image
	if m.Given.Image != "" {
		image = m.Given.Image
	}
	c := container{name: "app", image: image, file: "entrypoint-0.sh", workdir: m.Values["workdir"]}
	if m.Shape == metricset.Storage {
		c.name = "storage"
	}
	env := []string{"RECKON_METADATA", b.logHeader(m)}
	switch m.Name {
	case "io-probe":
		c.image, c.env = b.config.ProbeImage, probeEnv()
		c.port = b.config.ProbePort
		c.args = []string{"probe", "storage", "--listen", ":" + strconv.Itoa(int(c.port)), "--summary", terminationLog, "--directory",
			quoteReferences(m.Values["directory"]), "--size", quoteReferences(m.Values["size"]), "--block",
			quoteReferences(m.Values["blocksize"]), "--duration",
			m.Values["seconds"] + "s"}
		return c, nil
	case "io-fio":
		c.script = fioScript(m)
		env = append(env, "RECKON_NAME", m.Values["testname"], "RECKON_BLOCKSIZE", m.Values["blocksize"], "RECKON_IODEPTH",
			m.Values["iodepth"], "RECKON_SIZE", m.Values["size"], "RECKON_DIRECTORY", m.Values["directory"])
	case "io-ior":
		c.script = &script{
			pre:     joinLines(printMetadata, m.Values["pre"], echo(markStart), echo(markPoint)),
			command: joinWords(m.Values["prefix"], m.Values["command"]),
			post:    joinLines(echo(markEnd), m.Values["post"]),
		}
	case "io-sysstat":
		c.script = iostatScript(m)
		env = append(env, "RECKON_RATE", m.Values["rate"], "RECKON_COMPLETIONS", m.Values["completions"])
	case "sys-hwloc":
		c.script = hwlocScript(m)
	case "app-ldms":
		c.script = ldmsScript(m)
		env = append(env, "RECKON_RATE", m.Values["rate"], "RECKON_COMPLETIONS", m.Values["completions"])
	}
	c.env = envVars(env...)
	return c, nil
}

func fioScript(m *metricset.Measure) *script {
	command := `fio --randrepeat=1 --ioengine=libaio --direct=1 --gtod_reduce=1 --name="$RECKON_NAME" --bs="$RECKON_BLOCKSIZE" ` +
		`--iodepth="$RECKON_IODEPTH" --readwrite=randrw --rwmixread=75 --size="$RECKON_SIZE" --filename="$filename" --output-format=json`
	if own := m.Values["command"]; own != "" {
		command = own
	}
	command = joinWords(m.Values["prefix"], command)
	return &script{
		pre: joinLines(printMetadata,
			`filename=$RECKON_DIRECTORY/test-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')`,
			m.Values["pre"], `echo "FIO COMMAND START"`, showCommand(command), `echo "FIO COMMAND END"`, echo(markStart), echo(markPoint)),
		command: command,
		post:    joinLines(echo(markEnd), m.Values["post"], joinWords(m.Values["prefix"], `rm -rf "$filename"`)),
	}
}

// repeatCommand runs a command the given number of times, or until it fails.
func repeatCommand(command, wait string) string {
	return joinLines("reckon_point=0",
		`while [ "$RECKON_COMPLETIONS" -eq 0 ] || [ "$reckon_point" -lt "$RECKON_COMPLETIONS" ]; do`,
		"  "+echo(markPoint), "  "+command+" || break", wait,
		"  reckon_point=$((reckon_point + 1))", "done",
		`[ "$RECKON_COMPLETIONS" -eq 0 ] || [ "$reckon_point" -eq "$RECKON_COMPLETIONS" ]`)
}

// iostatScript returns a script that prints the use of block devices in each interval. The option -y of iostat omits the
// first report, because that is the mean since boot.
func iostatScript(m *metricset.Measure) *script {
	format := "-o JSON "
	if m.Values.On("human") {
		format = ""
	}
	return &script{
		pre:     joinLines(m.Values["pre"], printMetadata, echo(markStart)),
		command: repeatCommand(joinWords(m.Values["prefix"], `iostat -dxmy `+format+`"$RECKON_RATE" 1`), ""),
		post:    joinLines(echo(markEnd), m.Values["post"]),
	}
}

func ldmsScript(m *metricset.Measure) *script {
	return &script{
		pre: joinLines("mkdir -p /run/munge", "chown -R 0 /var/log/munge /var/lib/munge /etc/munge /run/munge",
			`ldmsd -x sock:10444 -c /opt/sampler.conf -l /tmp/demo_ldmsd_log -v DEBUG -r "$(pwd)/ldmsd.pid"`, printMetadata,
			echo(markStart)),
		command: repeatCommand(m.Values["command"], `  sleep "$RECKON_RATE"`),
		post:    echo(markEnd),
	}
}

func hwlocScript(m *metricset.Measure) *script {
	commands := m.Lists["commands"]
	if len(commands) == 0 {
		commands = []string{"lstopo architecture.png", "hwloc-ls machine.xml"}
	}
	var run []string
	for _, c := range commands {
		run = append(run, echo(markPoint), showCommand(c), c+" || reckon_failed=1")
	}
	return &script{
		pre: joinLines(printMetadata, "[ ! -r /root/.profile ] || . /root/.profile", "export PATH=/opt/view/bin:$PATH", "reckon_failed=0",
			echo(markStart)),
		command: joinLines(joinLines(run...), `[ "$reckon_failed" -eq 0 ]`),
		post:    echo(markEnd),
	}
}

// meshContainers returns the containers of reckon's network metric. Every pod serves measurements. The first pod asks each pair
// of pods in turn to measure.
func (b *builder) meshContainers(m *metricset.Measure) (launch, work container) {
	port := m.Values["port"]
	number, _ := strconv.ParseInt(port, 10, 32) // validated
	work = container{name: "workers", image: b.config.ProbeImage, args: []string{"probe", "network", "--listen", ":" + port},
		port: int32(number), uid: ptr.To(int64(nobodyUser))}
	launch = container{name: "launcher", image: b.config.ProbeImage, uid: work.uid,
		port: b.config.ProbePort, env: probeEnv(),
		args: []string{"probe", "network", "--listen", ":" + port, "--results", ":" + strconv.Itoa(int(b.config.ProbePort)), "--summary",
			terminationLog, "--trials", m.Values["trials"], "--message", m.Values["messageSize"], "--duration", m.Values["seconds"] + "s",
			"--hosts", strings.Join(b.hostNames(m), ",")}}
	return launch, work
}
