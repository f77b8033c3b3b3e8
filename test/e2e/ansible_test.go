//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

// network joins machines by a bridge; each has an address of its own.
type network struct {
	t     *testing.T
	name  string // also the beginning of the names of everything that is made
	hosts int
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, name: fmt.Sprintf("rk%d", os.Getpid()%100000)}
	n.ip("link", "add", n.name, "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", n.name).Run() })
	n.ip("addr", "add", "10.213.77.1/24", "dev", n.name)
	n.ip("link", "set", n.name, "up")
	return n
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Skipf("no network can be made here: ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// join gives a machine a network namespace and returns its address.
func (n *network) join(m *machine) string {
	n.t.Helper()
	n.hosts++
	ns, address := fmt.Sprintf("%s-%d", n.name, n.hosts), fmt.Sprintf("10.213.77.%d", n.hosts+1)
	n.ip("netns", "add", ns)
	n.t.Cleanup(func() {
		// Services that were started there go on by themselves.
		if pids, err := exec.Command("ip", "netns", "pids", ns).Output(); err == nil {
			for _, pid := range strings.Fields(string(pids)) {
				_ = exec.Command("kill", pid).Run()
			}
		}
		_ = exec.Command("ip", "netns", "del", ns).Run()
	})
	outer, inner := ns+"o", ns+"i"
	n.ip("link", "add", outer, "type", "veth", "peer", "name", inner)
	n.ip("link", "set", inner, "netns", ns)
	n.ip("link", "set", outer, "master", n.name, "up")
	n.ip("-n", ns, "addr", "add", address+"/24", "dev", inner)
	n.ip("-n", ns, "link", "set", inner, "up")
	n.ip("-n", ns, "link", "set", "lo", "up")
	m.enter = []string{"ip", "netns", "exec", ns}
	return address
}

// TestAnsible runs the playbook against two machines over ssh: a trial, for real, and
// twice more, which change nothing.
func TestAnsible(t *testing.T) {
	for _, program := range []string{"ansible-playbook", "ssh-keygen", "ssh", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	head, node := newMachine(t, "head"), newMachine(t, "node")
	net := newNetwork(t)
	at := map[string]string{}
	for name, m := range map[string]*machine{"head": head, "node": node} {
		at[name] = net.join(m)
		m.write("/root/.ssh/authorized_keys", string(public), 0o600)
		m.must("ssh-keygen", "-A")
		m.start("sh", "-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e")
	}
	node.write("/etc/docker/daemon.json", `{"log-driver": "local"}`, 0o644)
	k3s := filepath.Join(dir, "k3s")
	if err := os.WriteFile(k3s, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	inventory := filepath.Join(dir, "inventory.ini")
	text := fmt.Sprintf(`[all:vars]
ansible_user=root
ansible_python_interpreter=/usr/bin/python3
ansible_ssh_private_key_file=%[1]s
ansible_ssh_common_args=-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR
reckon_release=%[2]s
reckon_site=lab
reckon_agent_push=["http://%[3]s:9870"]
[a]
head ansible_host=%[3]s reckon_server=true reckon_server_listen=%[3]s:9870 reckon_server_flags=--insecure reckon_server_admin=boss reckon_server_password=correct-horse-battery reckon_dashboards=true reckon_agent_flags='--node head --export 1s'
[b]
node ansible_host=%[4]s reckon_k3s=true k3s_binary=%[5]s k3s_config='{"disable": ["traefik"]}' reckon_nvidia_runtime=true nvidia_runtime_docker=true reckon_agent_flags='--node node --export 1s'
`, key, packages(t, "1.0.0"), at["head"], at["node"], k3s)
	if err := os.WriteFile(inventory, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	play := func(more ...string) (changed int, out string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "ansible-playbook", append([]string{"-i", inventory, filepath.Join(root, "deploy/ansible/playbooks/site.yml")}, more...)...)
		cmd.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "ANSIBLE_HOST_KEY_CHECKING=false", "ANSIBLE_LOCAL_TEMP="+dir, "ANSIBLE_SSH_CONTROL_PATH_DIR="+filepath.Join(dir, "cp"))
		raw, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ansible-playbook %v: %v\n%s", more, err, raw)
		}
		hosts := 0
		for _, m := range regexp.MustCompile(`changed=(\d+) +unreachable=0 +failed=0`).FindAllStringSubmatch(string(raw), -1) {
			n := 0
			fmt.Sscan(m[1], &n)
			changed, hosts = changed+n, hosts+1
		}
		if hosts != 2 {
			t.Fatalf("%d hosts:\n%s", hosts, raw)
		}
		return changed, string(raw)
	}
	until(t, "ssh", func() error {
		return exec.Command("ssh", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=5", "root@"+at["node"], "true").Run()
	})

	if n, out := play("--check"); n == 0 || head.has("/usr/bin/reckon") || node.has("/usr/bin/reckon-agent") {
		t.Errorf("a trial changes %d things, or does them:\n%s", n, out)
	}
	if n, _ := play(); n == 0 {
		t.Error("nothing was changed")
	}
	for m, files := range map[*machine][]string{
		head: {"/usr/bin/reckon", "/usr/bin/reckon-agent", "/etc/reckon/server.env", "/etc/grafana/provisioning/datasources/reckon.yaml", "/var/lib/grafana/dashboards/reckon/reckon-site.json"},
		node: {"/usr/bin/reckon-agent", "/usr/local/bin/k3s", "/usr/local/bin/kubectl", "/etc/rancher/k3s/config.yaml", "/var/lib/rancher/k3s/server/manifests/nvidia-runtimeclass.yaml"},
	} {
		for _, f := range files {
			if !m.has(f) {
				t.Errorf("%s has no %s", m.root, f)
			}
		}
	}
	if node.has("/usr/bin/reckon") || head.has("/usr/local/bin/k3s") {
		t.Error("a role ran on a host where it is switched off")
	}
	if got := node.read("/etc/docker/daemon.json"); !strings.Contains(got, `"log-driver": "local"`) || !strings.Contains(got, `"default-runtime": "nvidia"`) {
		t.Errorf("Docker's configuration: %s", got)
	}
	if got := head.must("reckon", "user", "list", "--data", "/var/lib/reckon"); !strings.Contains(got, "boss") {
		t.Errorf("users: %s", got)
	}
	until(t, "both nodes at the server", func() error {
		var list client.NodeList
		if err := get("http://"+at["head"]+":9870/api/reckon/v1/nodes", &list); err != nil {
			return err
		}
		if len(list.Nodes) != 2 || list.Nodes[0].Site != "lab" {
			return fmt.Errorf("%+v", list.Nodes)
		}
		return nil
	})

	for _, more := range [][]string{nil} {
		if n, out := play(more...); n != 0 {
			t.Errorf("another run %v changes %d things:\n%s", more, n, out)
		}
	}
	// The profile of a small board is a change of the agents alone.
	if n, out := play("-e", "reckon_agent_profile=edge"); n != 4 {
		t.Errorf("another profile changes %d things, want a file and a restart for each:\n%s", n, out)
	}
	if got := node.read("/etc/reckon/agent.env"); !strings.Contains(got, "--profile edge") {
		t.Errorf("the profile is not in %s", got)
	}
}
