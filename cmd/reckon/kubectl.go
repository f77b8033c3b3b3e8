package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// kubectlName is the name under which kubectl finds this program as the plugin `kubectl reckon`
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
const kubectlName = "kubectl-reckon"

// plugin identifies the server that the chart installed in a cluster, and how kubectl reaches it.
type plugin struct {
	context, kubeconfig          string
	namespace, service, audience string
}

// flagSet returns the options of the plugin, which precede the command.
func (p *plugin) flagSet() *pflag.FlagSet {
	f := pflag.NewFlagSet(kubectlName, pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.StringVarP(&p.namespace, "namespace", "n", "reckon", "")
	f.StringVar(&p.service, "service", "reckon", "")
	f.StringVar(&p.audience, "audience", "reckon", "")
	f.StringVar(&p.context, "context", "", "")
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "")
	return f
}

// parseOptions parses the options and returns the command.
func (p *plugin) parseOptions(args []string) ([]string, error) {
	f := p.flagSet()
	if err := f.Parse(args); err != nil {
		return nil, &usageError{
			fmt.Errorf(
				"%w; write kubectl reckon [-n NAMESPACE] [--service NAME] [--audience NAME] [--context NAME] [--kubeconfig FILE] COMMAND",
				err)}
	}
	return f.Args(), nil
}

// kubectlCommand prepares a call of kubectl.
func (p *plugin) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	own := []string{"--namespace=" + p.namespace}
	if p.context != "" {
		own = append(own, "--context="+p.context)
	}
	if p.kubeconfig != "" {
		own = append(own, "--kubeconfig="+p.kubeconfig)
	}
	return exec.CommandContext(ctx, "kubectl", append(own, args...)...)
}

// kubectlOutput returns the output of kubectl.
func (p *plugin) kubectlOutput(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var problem bytes.Buffer
	c := p.kubectlCommand(ctx, args...)
	c.Stderr = &problem
	out, err := c.Output()
	if text := strings.TrimSpace(problem.String()); err != nil && text != "" {
		err = errors.New(text)
	}
	return out, err
}

// executePlugin runs a command against the server in a cluster. It connects through a port that kubectl forwards, with
// a token of the server's service account. Users who may create that token are admins of the server. The forwarding and
// the token end with the command.
func executePlugin(ctx context.Context, d deps, args []string) int {
	p := &plugin{}
	rest, err := p.parseOptions(args)
	if errors.Is(err, pflag.ErrHelp) {
		rest, err = []string{"--help"}, nil
	}
	if err == nil && needsServer(rest) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var end func()
		if end, err = p.openConnection(ctx, &d, rest); err == nil {
			defer end()
		}
	}
	if err != nil {
		fmt.Fprintln(d.stderr, kubectlName+": "+toOneLine(err))
		if coded, ok := errors.AsType[*usageError](err); ok {
			return coded.ExitCode()
		}
		return 1
	}
	return execute(ctx, d, rest)
}

// needsServer reports whether a command may query a server without naming it itself.
func needsServer(args []string) bool {
	return len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool {
		return a == "-h" || a == "--help" || a == "--server" || strings.HasPrefix(a, "--server=")
	}) && !slices.Contains([]string{"help", "version", "completion", "--version"}, args[0])
}

// openConnection opens the connection to the server and puts its address into the environment of the command.
func (p *plugin) openConnection(ctx context.Context, d *deps, args []string) (end func(), err error) {
	dir, err := os.MkdirTemp("", kubectlName+"-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	env := map[string]string{}
	scheme := "http"
	switch ca, err := p.kubectlOutput(ctx, "get", "configmap", p.service+"-ca", "--ignore-not-found", "-o", `jsonpath={.data.ca\.crt}`); {
	case err != nil:
		return nil, fmt.Errorf("read the certificate of the server: %w", err)
	case len(bytes.TrimSpace(ca)) > 0:
		scheme, env["RECKON_CA_FILE"] = "https", filepath.Join(dir, "ca.crt")
		if err := os.WriteFile(env["RECKON_CA_FILE"], ca, 0o600); err != nil {
			return nil, err
		}
	}
	own := d.getenv("RECKON_TOKEN_FILE") != "" ||
		slices.ContainsFunc(args, func(a string) bool { return a == "--token-file" || strings.HasPrefix(a, "--token-file=") })
	if scheme == "https" && !own { // without TLS no token is sent
		token, err := p.kubectlOutput(ctx, "create", "token", p.service, "--audience="+p.audience, "--duration=1h")
		if err != nil {
			return nil, fmt.Errorf("make a token: %w; or give one of your own with --token-file", err)
		}
		env["RECKON_TOKEN_FILE"] = filepath.Join(dir, "token")
		if err := os.WriteFile(env["RECKON_TOKEN_FILE"], token, 0o600); err != nil {
			return nil, err
		}
	}
	address, stop, err := p.forwardPort(ctx, scheme)
	if err != nil {
		return nil, err
	}
	env["RECKON_SERVER"] = scheme + "://" + address
	before := d.getenv
	d.getenv = func(key string) string {
		if v, ok := env[key]; ok {
			return v
		}
		return before(key)
	}
	return func() { stop(); _ = os.RemoveAll(dir) }, nil
}

// forwardPort makes kubectl forward a free local port to a named port of the service until stop is called.
func (p *plugin) forwardPort(ctx context.Context, port string) (address string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var problem bytes.Buffer
	c := p.kubectlCommand(ctx, "port-forward", "--address=127.0.0.1", "service/"+p.service, ":"+port)
	c.Stderr = &problem
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("kubectl: %w", err)
	}
	stop = func() { cancel(); _ = c.Wait() }
	patience := time.AfterFunc(30*time.Second, cancel)
	defer patience.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Forwarding from "); ok {
			address, _, _ = strings.Cut(rest, " ")
			go func() { _, _ = io.Copy(io.Discard, out) }() // kubectl prints a line per connection
			return address, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("kubectl forwards no port to service/%s in the namespace %s: %s", p.service, p.namespace,
		strings.TrimSpace(problem.String()))
}
