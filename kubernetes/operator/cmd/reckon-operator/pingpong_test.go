package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	core "k8s.io/api/core/v1"
)

// TestMain plays one side of the ping-pong where it is asked to: pingPong runs this program in the network namespace of a pod.
func TestMain(m *testing.M) {
	switch os.Getenv("RECKON_PINGPONG") {
	case "server":
		pongs()
	case "client":
		pings(os.Getenv("RECKON_PEER"))
	default:
		os.Exit(m.Run())
	}
}

const pingPort = "7001"

// pongs sends each message of 64 bytes back on the first connection, and counts the bytes of the second.
func pongs() {
	l, err := net.Listen("tcp", ":"+pingPort)
	if err != nil {
		panic(err)
	}
	fmt.Println("listening")
	c, err := l.Accept()
	if err != nil {
		panic(err)
	}
	message := make([]byte, 64)
	for {
		if _, err := io.ReadFull(c, message); err != nil {
			break
		}
		if _, err := c.Write(message); err != nil {
			break
		}
	}
	if c, err = l.Accept(); err != nil {
		panic(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		panic(err)
	}
	_, _ = c.Write(make([]byte, 1))
}

func pings(peer string) {
	c, err := net.Dial("tcp", net.JoinHostPort(peer, pingPort))
	if err != nil {
		panic(err)
	}
	message := make([]byte, 64)
	var took []time.Duration
	for i := range 100_010 {
		began := time.Now()
		if _, err := c.Write(message); err != nil {
			panic(err)
		}
		if _, err := io.ReadFull(c, message); err != nil {
			panic(err)
		}
		if i >= 10 {
			took = append(took, time.Since(began))
		}
	}
	c.Close()
	slices.Sort(took)
	if c, err = net.Dial("tcp", net.JoinHostPort(peer, pingPort)); err != nil {
		panic(err)
	}
	block, began, sent := make([]byte, 256<<10), time.Now(), 0
	for time.Since(began) < 3*time.Second {
		n, err := c.Write(block)
		if err != nil {
			panic(err)
		}
		sent += n
	}
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = c.Read(message)
	fmt.Println(took[len(took)/2].Seconds(), float64(sent)/time.Since(began).Seconds())
}

// pingPong is the median of 100,000 round trips of 64 bytes, and bytes per second of one stream, between two pods, in their namespaces and control
// groups: the scheduler treats both measurements alike.
func pingPong(t *testing.T, from, to *core.Pod) (median, rate float64) {
	t.Helper()
	in := func(p *core.Pod, side string) *exec.Cmd {
		_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
		text, err := os.ReadFile(filepath.Join(filepath.Dir(groupFile(id)), "cgroup.procs"))
		pid, _, _ := strings.Cut(string(text), "\n")
		if err != nil || pid == "" {
			t.Fatalf("%s has no process: %v", p.Name, err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		groups, err := exec.Command("find", "/sys/fs/cgroup", "-type", "d", "-name", "*"+id+"*").Output()
		if err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-c", `pid=$1 self=$2; shift 2; for g; do echo $$ > $g/cgroup.procs; done; exec nsenter -t $pid -n $self`, "sh", pid, self}, strings.Fields(string(groups))...)
		c := exec.Command("sh", args...)
		c.Env, c.Stderr = append(os.Environ(), "RECKON_PINGPONG="+side, "RECKON_PEER="+to.Status.PodIP), os.Stderr
		return c
	}
	server := in(to, "server")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	text, err := in(from, "client").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &median, &rate); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return median, rate
}

// dns answers for the names of pods at the gateway of the nodes; their kubelets name it as the cluster's.
type dns struct {
	mu        sync.Mutex
	addresses map[string]net.IP
}

func (b *bed) names() *dns {
	b.t.Helper()
	c, err := net.ListenPacket("udp", "10.199.0.1:53")
	if err != nil {
		b.t.Skipf("no place for names: %v", err)
	}
	d := &dns{addresses: map[string]net.IP{}}
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(func() { cancel(); c.Close() })
	go func() {
		for buffer := make([]byte, 1500); ctx.Err() == nil; {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := d.answer(buffer[:n]); answer != nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
	return d
}

func (d *dns) set(pods []core.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range pods {
		d.addresses[p.Spec.Hostname+"."+p.Spec.Subdomain+"."+p.Namespace+".svc.cluster.local."] = net.ParseIP(p.Status.PodIP).To4()
	}
}

func (d *dns) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	d.mu.Lock()
	ip := d.addresses[q.Name.String()]
	d.mu.Unlock()
	m.Header.Response, m.Header.Authoritative, m.Additionals = true, true, nil
	switch {
	case ip == nil:
		m.Header.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte(ip)}}}
	}
	text, err := m.Pack()
	if err != nil {
		return nil
	}
	return text
}
